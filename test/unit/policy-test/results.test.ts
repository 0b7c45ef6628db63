/** Answers held against expectations, what is exercised, and the forms in which programs get it. */
import t from 'tap';
import { Parser } from 'tap-parser';
import type { ExplainJson } from '../../../lib/policy/explain.ts';
import { JsonFormat } from '../../../lib/policy-test/json.ts';
import { mismatchesOf } from '../../../lib/policy-test/judge.ts';
import { JunitFormat } from '../../../lib/policy-test/junit.ts';
import type { CaseResult, TestFormat } from '../../../lib/policy-test/result.ts';
import type { Expectation } from '../../../lib/policy-test/suite.ts';
import { TapFormat } from '../../../lib/policy-test/tap.ts';

const linkerd = 'policy.linkerd.io';
const permit: ExplainJson = {
  verdict: 'permit',
  httpStatus: null,
  grpcStatus: null,
  tcp: null,
  audit: false,
  server: { group: linkerd, kind: 'server', name: 'web' },
  route: { group: linkerd, kind: 'HTTPRoute', name: 'orders' },
  rule: 1,
  authz: { group: linkerd, kind: 'authorizationpolicy', name: 'checkout-only' },
  reason: 'policy.linkerd.io/authorizationpolicy/checkout-only covers 10.1.2.3',
  candidates: [
    {
      authz: { group: linkerd, kind: 'authorizationpolicy', name: 'checkout-only' },
      granted: true,
      failed: null,
      detail: '',
    },
    { authz: { group: '', kind: 'default', name: 'localhost' }, granted: false, failed: 'network', detail: 'wanted' },
  ],
  networkPolicies: [],
};
const deny: ExplainJson = { ...permit, verdict: 'deny', httpStatus: 403, grpcStatus: 7, authz: null };
const closed: ExplainJson = {
  ...permit,
  verdict: 'deny',
  tcp: 'close',
  route: null,
  rule: null,
  authz: null,
  networkPolicies: [{ group: 'networking.k8s.io', kind: 'NetworkPolicy', name: 'shut' }],
};

/** Each passes, and with any other value of its fields it fails. */
const rows: readonly (readonly [answer: ExplainJson, expected: Expectation, otherwise: readonly Expectation[]])[] = [
  [permit, { verdict: 'permit' }, [{ verdict: 'deny' }, { verdict: 'refused' }, { verdict: 'no-route' }]],
  [deny, { verdict: 'deny' }, [{ verdict: 'permit' }, { verdict: 'invalid' }]],
  [deny, { verdict: 'refused' }, [{ verdict: 'permit' }]],
  [{ ...deny, verdict: 'redirect' }, { verdict: 'refused' }, [{ verdict: 'permit' }, { verdict: 'deny' }]],
  [deny, { status: 403 }, [{ status: 404 }, { status: 200 }]],
  [deny, { verdict: 'deny', grpcStatus: 7 }, [{ verdict: 'deny', grpcStatus: 5 }]],
  [permit, { verdict: 'permit', audit: false }, [{ verdict: 'permit', audit: true }]],
  [permit, { verdict: 'permit', rule: 1 }, [{ verdict: 'permit', rule: 0 }]],
  [closed, { verdict: 'deny', tcp: 'close' }, [{ verdict: 'deny', tcp: 'forward' }]],
  [
    permit,
    { verdict: 'permit', server: 'web' },
    [
      { verdict: 'permit', server: 'eb' },
      { verdict: 'permit', server: 'none' },
    ],
  ],
  [permit, { verdict: 'permit', route: 'HTTPRoute/orders' }, [{ verdict: 'permit', route: 'GRPCRoute/orders' }]],
  [closed, { verdict: 'deny', route: 'none' }, [{ verdict: 'deny', route: 'orders' }]],
  [
    permit,
    { verdict: 'permit', authorization: 'policy.linkerd.io/authorizationpolicy/checkout-only' },
    [
      { verdict: 'permit', authorization: 'only' },
      { verdict: 'permit', authorization: 'none' },
    ],
  ],
  [deny, { verdict: 'deny', authorization: 'none' }, [{ verdict: 'deny', authorization: 'checkout-only' }]],
  [
    deny,
    { verdict: 'deny', failing: new Map([['localhost', 'network']]) },
    [
      { verdict: 'deny', failing: new Map([['localhost', 'identity']]) },
      { verdict: 'deny', failing: new Map([['checkout-only', 'identity']]) },
      { verdict: 'deny', failing: new Map([['nobody', 'network']]) },
    ],
  ],
  [permit, { verdict: 'permit', failing: new Map([['/default/localhost', 'network']]) }, []],
  [closed, { verdict: 'deny', networkPolicy: 'shut' }, [{ verdict: 'deny', networkPolicy: 'none' }]],
  [permit, { verdict: 'permit', networkPolicy: 'none' }, [{ verdict: 'permit', networkPolicy: 'shut' }]],
  [permit, { verdict: 'permit', reason: 'covers 10.1.2.3' }, [{ verdict: 'permit', reason: 'covers 10.1.2.4' }]],
];

t.test('an expectation is met or not, and turned round it is the other', async (t) => {
  for (const [answer, expected, otherwise] of rows) {
    const [last = ''] = Object.keys(expected).slice(-1);
    t.same(mismatchesOf(expected, answer), [], JSON.stringify(expected));
    for (const other of otherwise) {
      const found = mismatchesOf(other, answer);
      t.equal(found.length, 1, `${JSON.stringify(other)} is not met`);
      if (last !== 'failing') t.match(found, [{ field: /verdict|status/i.test(last) ? /verdict|tatus/ : last }]);
    }
  }
  const all = mismatchesOf({ verdict: 'permit', status: 404, route: 'a', rule: 7, tcp: 'forward', audit: true }, deny);
  t.same(
    all.map(({ field }) => field),
    ['verdict', 'status', 'tcp', 'audit', 'rule', 'route'],
    'all that is otherwise is told',
  );
});

const result: CaseResult = {
  name: 'a "name" <with> # all',
  file: 'web&.test.yaml',
  line: 3,
  column: 5,
  query: { port: 80, ip: { family: 4, value: 0, text: '10.1.2.3' }, path: '/\u0000\u202ex', headers: [['a', "'b'"]] },
  who: null,
  repeat: 3,
  answer: deny,
  mismatches: [{ field: 'verdict', expected: 'permit', got: 'deny' }],
};
const totals = { passed: 1, failed: 1, files: 1, portsWithoutServer: [9] };
const coverage = {
  authorizations: [],
  routes: [],
  counts: { authorizations: [0, 0], routes: [0, 0], rules: [0, 0] },
  percent: 100,
} as const;

function written(format: TestFormat): string {
  const passed: CaseResult = { ...result, name: null, mismatches: [] };
  return format.begin() + format.result(passed) + format.result(result) + format.end(totals, coverage);
}

const asked = "GET /\\u0000\\u202ex to port 80 from 10.1.2.3 with a: 'b', the last of 3 at once";

t.test('TAP: a directive is none of ours', async (t) => {
  const lines = written(new TapFormat()).split('\n');
  t.same(lines, [
    'TAP version 14',
    `ok 1 - ${asked.replaceAll('\\', '\\\\')}`,
    `not ok 2 - a "name" <with> \\# all: ${asked.replaceAll('\\', '\\\\')}`,
    '  ---',
    '  expected: "permit"',
    '  got: "deny"',
    `  reason: "${deny.reason}"`,
    '  at: {"file":"web&.test.yaml","line":3,"column":5}',
    '  ...',
    '1..2',
    '',
  ]);
});

t.test('TAP, as others read it', async (t) => {
  const titles = ['a # TODO later', 'b # SKIP', 'c \\# d', 'e\nnot ok 9', '1..7', 'Bail out!'];
  const format = new TapFormat();
  const text = titles.map((name) => format.result({ ...result, name })).join('');
  const parser = new Parser();
  parser.end(`${format.begin()}${text}${format.end()}`);
  const { results } = parser;
  t.match(results, { ok: false, count: titles.length, fail: titles.length, todo: 0, skip: 0, bailout: false });
  t.equal(results?.failures.length, titles.length, 'what fails fails, whatever it is called');
});

t.test('JUnit: XML whatever stands in it', async (t) => {
  const text = written(new JunitFormat());
  t.match(
    text,
    /^<\?xml version="1\.0" encoding="UTF-8"\?>\n<testsuites name="sallyport test" tests="2" failures="1" /,
  );
  t.match(text, /<testsuite name="web&#38;\.test\.yaml" tests="2" failures="1" errors="0">/);
  t.match(text, /name="a &#34;name&#34; &#60;with&#62; # all: GET .*" file="web&#38;\.test\.yaml" line="3">\n/);
  t.match(text, /<failure message="expected permit; got deny">web&#38;\.test\.yaml:3: /);
  // biome-ignore lint/suspicious/noControlCharactersInRegex: what XML has no place for
  t.notMatch(text, /[\u0000-\u0009\u000b-\u001f\u202e]/);
});

t.test('JSON: one object, case by case', async (t) => {
  const text = written(new JsonFormat());
  t.match(JSON.parse(text), {
    cases: [{ ok: true }, { ok: false, name: result.name, line: 3, mismatches: result.mismatches, answer: deny }],
    coverage,
    portsWithoutServer: [9],
    files: 1,
    passed: 1,
    failed: 1,
    ok: false,
  });
  const none = new JsonFormat();
  t.match(JSON.parse(none.begin() + none.end({ passed: 0, failed: 0, files: 0, portsWithoutServer: [] }, coverage)), {
    cases: [],
    ok: true,
  });
});
