import t from 'tap';
import type { ExplainQuery } from '../../../../lib/policy/explain.ts';
import { document, load, open, route, server } from '../../../support/policy-fixtures.ts';

/** Routes by name and match, in the order of the file; which one has the request? */
interface Row {
  readonly title: string;
  readonly routes: readonly (readonly [
    name: string,
    match: string,
    created?: string | undefined,
    hostnames?: string,
  ])[];
  readonly query: Partial<Omit<ExplainQuery, 'ip'>>;
  /** Null: none. */
  readonly wins: string | null;
}

const rows: readonly Row[] = [
  {
    title: 'prefix by whole segments',
    routes: [['a', '{path: {value: /foo}}']],
    query: { path: '/foobar' },
    wins: null,
  },
  { title: 'prefix itself', routes: [['a', '{path: {value: /foo}}']], query: { path: '/foo' }, wins: 'a' },
  {
    title: 'prefix with a trailing slash',
    routes: [['a', '{path: {value: /foo/}}']],
    query: { path: '/foo' },
    wins: 'a',
  },
  { title: 'prefix below', routes: [['a', '{path: {value: /foo/}}']], query: { path: '/foo/bar/baz' }, wins: 'a' },
  { title: 'prefix and case', routes: [['a', '{path: {value: /foo}}']], query: { path: '/Foo' }, wins: null },
  { title: 'exact', routes: [['a', '{path: {type: Exact, value: /foo}}']], query: { path: '/foo' }, wins: 'a' },
  { title: 'exact below', routes: [['a', '{path: {type: Exact, value: /foo}}']], query: { path: '/foo/' }, wins: null },
  {
    title: 'exact and query',
    routes: [['a', '{path: {type: Exact, value: /foo}}']],
    query: { path: '/foo?x=/bar' },
    wins: 'a',
  },
  {
    title: 'regex, whole',
    routes: [['a', '{path: {type: RegularExpression, value: "/a|/ab"}}']],
    query: { path: '/ab' },
    wins: 'a',
  },
  {
    title: 'regex, not a part',
    routes: [['a', '{path: {type: RegularExpression, value: "/a|b"}}']],
    query: { path: '/ax' },
    wins: null,
  },
  {
    title: 'regex, dot escaped',
    routes: [['a', '{path: {type: RegularExpression, value: "/a\\\\.b"}}']],
    query: { path: '/axb' },
    wins: null,
  },
  {
    title: 'longest prefix',
    routes: [
      ['a', '{path: {value: /}}'],
      ['b', '{path: {value: /x}}'],
      ['c', '{path: {value: /x/y}}'],
    ],
    query: { path: '/x/y/z' },
    wins: 'c',
  },
  ...['//', '///'].flatMap((slashes): Row[] => [
    {
      title: `${slashes} is no length: behind a prefix of / though it is older`,
      routes: [
        ['a', `{path: {value: ${slashes}}}`],
        ['b', '{path: {value: /}}', '2020-01-01T00:00:00Z'],
      ],
      query: { path: '/x' },
      wins: 'b',
    },
    {
      title: `${slashes} at the root`,
      routes: [
        ['a', `{path: {value: ${slashes}}}`],
        ['b', '{path: {value: /}}', '2020-01-01T00:00:00Z'],
      ],
      query: { path: '/' },
      wins: 'b',
    },
    {
      title: `${slashes} alone matches every path`,
      routes: [['a', `{path: {value: ${slashes}}}`]],
      query: { path: '/x/y' },
      wins: 'a',
    },
    {
      title: `${slashes} behind every other match, with more headers too`,
      routes: [
        ['a', `{path: {value: ${slashes}}, headers: [{name: h, value: "1"}]}`],
        ['b', '{path: {value: /}}'],
      ],
      query: { path: '/x', headers: [['h', '1']] },
      wins: 'b',
    },
    {
      title: `${slashes} and no path at all`,
      routes: [['a', `{path: {value: ${slashes}}}`]],
      query: { method: 'OPTIONS', path: '*' },
      wins: null,
    },
    {
      title: `${slashes} and the authority of CONNECT`,
      routes: [
        ['a', `{path: {value: ${slashes}}}`],
        ['b', '{path: {value: /}}', '2020-01-01T00:00:00Z'],
      ],
      query: { method: 'CONNECT', path: 'h:80' },
      wins: 'b',
    },
  ]),
  ...['.foo.example', '.foo.example:80', '.foo.example.', '.FOO.example'].map(
    (host): Row => ({
      title: `nothing before the dot is a host of a wildcard (${host})`,
      routes: [
        ['a', '{path: {value: /}}', undefined, '"*.foo.example"'],
        ['b', '{path: {value: /}}'],
      ],
      query: { path: '/', host },
      wins: 'a',
    }),
  ),
  {
    title: 'the apex is none',
    routes: [
      ['a', '{path: {value: /}}', undefined, '"*.foo.example"'],
      ['b', '{path: {value: /}}'],
    ],
    query: { path: '/', host: 'foo.example' },
    wins: 'b',
  },
  {
    title: 'fallback to a shorter prefix',
    routes: [
      ['a', '{path: {value: /}}'],
      ['c', '{path: {value: /x/y}, method: POST}'],
    ],
    query: { path: '/x/y' },
    wins: 'a',
  },
  {
    title: 'a regex counts the whole path',
    routes: [
      ['a', '{path: {value: /x/y}}'],
      ['b', '{path: {type: RegularExpression, value: "/.*"}}'],
    ],
    query: { path: '/x/y/z' },
    wins: 'b',
  },
  {
    title: 'exact ties with a prefix that is all of it: order decides',
    routes: [
      ['a', '{path: {value: /x}}'],
      ['b', '{path: {type: Exact, value: /x}}'],
    ],
    query: { path: '/x' },
    wins: 'a',
  },
  {
    title: 'at the root too',
    routes: [
      ['a', '{path: {type: RegularExpression, value: "/"}}'],
      ['b', '{path: {value: /}}'],
    ],
    query: { path: '/' },
    wins: 'a',
  },
  {
    title: 'headers beat query and method',
    routes: [
      ['a', '{method: GET}'],
      ['b', '{queryParams: [{name: q, value: "1"}]}'],
      ['c', '{headers: [{name: h, value: "1"}]}'],
    ],
    query: { path: '/?q=1', headers: [['H', '1']] },
    wins: 'c',
  },
  {
    title: 'query beats method',
    routes: [
      ['a', '{method: GET}'],
      ['b', '{queryParams: [{name: q, value: "1"}]}'],
    ],
    query: { path: '/?q=1' },
    wins: 'b',
  },
  {
    title: 'method beats order',
    routes: [
      ['a', '{path: {value: /}}'],
      ['b', '{method: GET}'],
    ],
    query: {},
    wins: 'b',
  },
  {
    title: 'older beats name',
    routes: [
      ['a', '{path: {value: /}}', '2024-02-01T00:00:00Z'],
      ['b', '{path: {value: /}}', '2024-01-01T00:00:00Z'],
    ],
    query: {},
    wins: 'b',
  },
  {
    title: 'no timestamp is youngest',
    routes: [
      ['b', '{path: {value: /}}', '2024-02-01T00:00:00Z'],
      ['a', '{path: {value: /}}'],
    ],
    query: {},
    wins: 'b',
  },
  {
    title: 'path beats headers',
    routes: [
      ['a', '{path: {value: /x}}'],
      ['b', '{headers: [{name: h, value: "1"}]}'],
    ],
    query: { path: '/x', headers: [['h', '1']] },
    wins: 'a',
  },
  {
    title: 'exact host beats wildcard beats none',
    routes: [
      ['a', '{path: {value: /x}}'],
      ['b', '{path: {value: /}}', undefined, '"*.example"'],
      ['c', '{path: {value: /}}', undefined, 'w.example'],
    ],
    query: { path: '/x', host: 'w.example' },
    wins: 'c',
  },
  {
    title: 'longer wildcard',
    routes: [
      ['a', '{path: {value: /}}', undefined, '"*.example"'],
      ['b', '{path: {value: /}}', undefined, '"*.w.example"'],
    ],
    query: { host: 'a.w.example' },
    wins: 'b',
  },
  {
    title: 'a wildcard is not its apex',
    routes: [['a', '{path: {value: /}}', undefined, '"*.example"']],
    query: { host: 'example' },
    wins: null,
  },
  {
    title: 'an empty label is one to it (Linkerd)',
    routes: [['a', '{path: {value: /}}', undefined, '"*.example"']],
    query: { host: '.example' },
    wins: 'a',
  },
  {
    title: 'a host whose rules do not match gives way',
    routes: [
      ['a', '{path: {value: /}}'],
      ['b', '{path: {value: /y}}', undefined, 'w.example'],
    ],
    query: { path: '/x', host: 'w.example' },
    wins: 'a',
  },
  {
    title: 'host: case, dot and port',
    routes: [['a', '{path: {value: /}}', undefined, 'w.example']],
    query: { host: 'W.Example.:8080' },
    wins: 'a',
  },
  {
    title: 'host: not a suffix',
    routes: [['a', '{path: {value: /}}', undefined, 'w.example']],
    query: { host: 'w.example.evil' },
    wins: null,
  },
  {
    title: 'header: any one value',
    routes: [['a', '{headers: [{name: h, value: b}]}']],
    query: {
      headers: [
        ['h', 'a'],
        ['H', 'b'],
      ],
    },
    wins: 'a',
  },
  {
    title: 'header: values are not joined',
    routes: [['a', '{headers: [{name: h, value: "a, b"}]}']],
    query: {
      headers: [
        ['h', 'a'],
        ['h', 'b'],
      ],
    },
    wins: null,
  },
  {
    title: 'header: value and case',
    routes: [['a', '{headers: [{name: h, value: b}]}']],
    query: { headers: [['h', 'B']] },
    wins: null,
  },
  {
    title: 'header: regex, whole value',
    routes: [['a', '{headers: [{type: RegularExpression, name: h, value: "b+"}]}']],
    query: { headers: [['h', 'abb']] },
    wins: null,
  },
  {
    title: 'header: not ASCII',
    routes: [['a', '{headers: [{type: RegularExpression, name: h, value: "[a-z]+"}]}']],
    query: { headers: [['h', 'caf\u00e9']] },
    wins: null,
  },
  { title: 'header: hostile name', routes: [['a', '{headers: [{name: __proto__, value: b}]}']], query: {}, wins: null },
  {
    title: 'query: form decoding',
    routes: [['a', '{queryParams: [{name: "a b", value: "c d"}]}']],
    query: { path: '/?a+b=c%20d' },
    wins: 'a',
  },
  {
    title: 'query: any occurrence',
    routes: [['a', '{queryParams: [{name: q, value: "2"}]}']],
    query: { path: '/?q=1&q=2' },
    wins: 'a',
  },
  {
    title: 'query: never part of the path',
    routes: [['a', '{path: {value: /x}}']],
    query: { path: '/?/x' },
    wins: null,
  },
  {
    title: 'OPTIONS *',
    routes: [
      ['a', '{path: {value: /}}'],
      ['b', '{path: {value: /x}}'],
    ],
    query: { method: 'OPTIONS', path: '*' },
    wins: 'a',
  },
  {
    title: 'CONNECT has no path',
    routes: [
      ['a', '{method: CONNECT}'],
      ['b', '{path: {value: /x}}'],
    ],
    query: { method: 'CONNECT', path: 'web:80' },
    wins: 'a',
  },
  {
    title: 'OPTIONS *: a regex is as long as the root',
    routes: [
      ['a', '{path: {value: /}}'],
      ['b', '{path: {type: RegularExpression, value: ".*"}}'],
    ],
    query: { method: 'OPTIONS', path: '*' },
    wins: 'a',
  },
  {
    title: 'CONNECT: a regex matches nothing of no path, and the root is longer',
    routes: [
      ['a', '{path: {type: RegularExpression, value: ".*"}, method: CONNECT}'],
      ['b', '{path: {value: /}}'],
    ],
    query: { method: 'CONNECT', path: 'web:80' },
    wins: 'b',
  },
  {
    title: 'CONNECT: a regex where nothing else matches',
    routes: [
      ['a', '{path: {type: RegularExpression, value: ".*"}, method: CONNECT}'],
      ['b', '{method: GET}'],
    ],
    query: { method: 'CONNECT', path: 'web:80' },
    wins: 'a',
  },
  { title: 'no route, no guess', routes: [['a', '{path: {value: /x}}']], query: { path: '/y' }, wins: null },
];

t.test('HTTPRoutes', async (t) => {
  for (const { title, routes, query, wins } of rows) {
    const text = routes.map(([name, match, created, hostnames]) => {
      const meta = created === undefined ? '' : `, creationTimestamp: ${created}`;
      const host = hostnames === undefined ? '' : `\n  hostnames: [${hostnames}]\n`;
      return route(name, match, '', meta).trimEnd() + host + open(name);
    });
    // Neither the order of the documents nor that of the file settles anything.
    for (const order of [text, text.toReversed()]) {
      const answer = load(server() + order.join('')).ask(query);
      t.same(
        [answer.verdict, answer.route?.name ?? null],
        wins === null ? ['no-route', null] : ['permit', wins],
        title,
      );
    }
  }
});

t.test('a thousand hosts are matched as one is', async (t) => {
  const hosts = Array.from({ length: 1000 }, (_, i) => `h${i}.example`);
  const { ask } = load(
    `${server()}${route('a', '{path: {value: /}}').trimEnd()}\n  hostnames: [${hosts.join(', ')}]\n${open('a')}`,
  );
  t.equal(ask({ host: 'H999.EXAMPLE.:80' }).verdict, 'permit');
  t.equal(ask({ host: 'h1000.example' }).verdict, 'no-route');
});

t.test('a value too long for a regular expression is refused, not passed over to a wider rule', async (t) => {
  const { ask } = load(
    `${server()}${route('narrow', '{path: {value: /}, headers: [{type: RegularExpression, name: h, value: "a+"}]}')}${route('wide', '{path: {value: /}}')}${open('wide')}`,
  );
  t.equal(ask({ headers: [['h', 'a'.repeat(4096)]] }).verdict, 'deny');
  t.match(ask({ headers: [['h', 'a'.repeat(4097)]] }), { verdict: 'invalid', httpStatus: 400 });
});

t.test('a field that may occur once only is not matched by one of two (CVE-2020-25017)', async (t) => {
  const secret = '{path: {value: /}, headers: [{name: authorization, value: secret}]}';
  const { ask } = load(`${server()}${route('a', secret)}${open('a')}`);
  t.equal(ask({ headers: [['Authorization', 'secret']] }).verdict, 'permit');
  for (const second of ['guess', 'secret']) {
    const twice = ask({
      headers: [
        ['Authorization', 'secret'],
        ['authorization', second],
      ],
    });
    t.match(twice, { verdict: 'invalid', httpStatus: 400 }, second);
  }
  const { ask: list } = load(`${server()}${route('a', '{headers: [{name: x-tag, value: b}]}')}${open('a')}`);
  const tags: [string, string][] = [
    ['x-tag', 'a'],
    ['x-tag', 'b'],
  ];
  t.equal(list({ headers: tags }).verdict, 'permit', 'a list is matched by any of its values');
});

t.test('a catastrophic pattern takes linear time', async (t) => {
  const { ask } = load(
    `${server()}${route('a', '{path: {type: RegularExpression, value: "/(a+)+(a|a)*$"}}')}${open('a')}`,
  );
  const started = process.cpuUsage().user;
  t.equal(ask({ path: `/${'a'.repeat(4000)}b` }).verdict, 'no-route');
  t.ok(process.cpuUsage().user - started < 2_000_000, 'within two seconds of processor time');
});

t.test('GRPCRoutes', async (t) => {
  const grpcRoute = (name: string, matches: string): string =>
    document(
      'GRPCRoute',
      name,
      `{parentRefs: [{group: policy.linkerd.io, kind: Server, name: web}], rules: [{matches: [${matches}]}]}`,
      'gateway.networking.k8s.io/v1',
    ) +
    `
---
apiVersion: policy.linkerd.io/v1alpha1
kind: AuthorizationPolicy
metadata: {name: ${name}-open}
spec: {targetRef: {group: gateway.networking.k8s.io, kind: GRPCRoute, name: ${name}}, requiredAuthenticationRefs: []}
`;
  const all =
    server('proxyProtocol: gRPC') +
    grpcRoute('service', '{method: {service: a.B}}') +
    grpcRoute('method', '{method: {service: a.B, method: C}}') +
    grpcRoute('any-service', '{method: {method: D}}') +
    grpcRoute('header', '{headers: [{name: h, value: "1"}]}');
  const grpcRows: readonly (readonly [
    path: string,
    method: string,
    headers: [string, string][],
    wins: string | null,
  ])[] = [
    ['/a.B/C', 'POST', [], 'method'],
    ['/a.B/X', 'POST', [], 'service'],
    ['/x.Y/D', 'POST', [], 'any-service'],
    ['/x.Y/Z', 'POST', [], null],
    ['/x.Y/Z', 'POST', [['h', '1']], 'header'],
    ['/a.B/C', 'GET', [], null],
    ['/a.B/C/extra', 'POST', [], 'method'],
    ['/a.B', 'POST', [['h', '1']], null],
    ['/', 'POST', [['h', '1']], null],
    ['/A.b/C', 'POST', [], null],
  ];
  const { ask } = load(all);
  for (const [path, method, headers, wins] of grpcRows) {
    const answer = ask({ protocol: 'grpc', path, method, headers });
    t.equal(answer.route?.name ?? null, wins, `${method} ${path}`);
    t.match(answer, wins === null ? { verdict: 'no-route', httpStatus: 200, grpcStatus: 5 } : { verdict: 'permit' });
  }
  t.match(
    ask({ protocol: 'grpc', path: 'a.B/C' }),
    { verdict: 'invalid', httpStatus: null, grpcStatus: null },
    'a path without its first slash',
  );
  t.equal(ask({ protocol: 'grpc', path: '/a%2eB/C' }).verdict, 'invalid', 'escapes are read in gRPC paths too');
});

const client = {
  ip: { family: 4, value: 1, text: '0.0.0.1' },
  tls: { kind: 'none', reason: 'no_tls_from_remote' },
} as const;
const facts = (path: string, host = 'h:8080', query = '') => ({
  method: 'GET',
  path,
  query,
  host,
  grpc: false,
  carries: 'nothing' as const,
  header: () => [],
  oddNames: [],
});

t.test('filters', async (t) => {
  const changed = load(
    `${server()}${route('a', '{path: {value: /}}', ', filters: [{type: RequestHeaderModifier, requestHeaderModifier: {add: [{name: X-A, value: b}], set: [{name: C, value: d}], remove: [E]}}]')}${open('a')}`,
  );
  const port = changed.authorizer.port(8080);
  t.match(changed.authorizer.request(port, client, facts('/')), {
    kind: 'permit',
    headerChanges: { add: [['x-a', 'b']], set: [['c', 'd']], remove: ['e'] },
  });
});

const redirects: readonly (readonly [filter: string, match: string, path: string, host: string, expected: object])[] = [
  ['scheme: https', '{path: {value: /}}', '/a', 'h:8080', { status: 302, location: 'https://h/a?q=1' }],
  ['hostname: o.example', '{path: {value: /}}', '/a', 'h:8080', { location: 'http://o.example:8080/a?q=1' }],
  ['port: 80, statusCode: 301', '{path: {value: /}}', '/a', 'h:8080', { status: 301, location: 'http://h/a?q=1' }],
  [
    'path: {type: ReplaceFullPath, replaceFullPath: /new}',
    '{path: {value: /}}',
    '/a',
    'h',
    { location: 'http://h/new' },
  ],
  // As Linkerd's source has it, each.
  [
    'path: {type: ReplaceFullPath, replaceFullPath: "/new?own"}',
    '{path: {value: /}}',
    '/a',
    'h',
    { location: 'http://h/new?own' },
  ],
  ['path: {type: ReplaceFullPath, replaceFullPath: /a}', '{path: {value: /}}', '/a', 'h', { location: 'http://h/a' }],
  [
    'path: {type: ReplacePrefixMatch, replacePrefixMatch: /pre}',
    '{path: {value: /}}',
    '/',
    'h',
    { location: 'http://h/pre?q=1' },
  ],
  [
    'path: {type: ReplacePrefixMatch, replacePrefixMatch: /pre}',
    '{path: {value: /}}',
    '/a/',
    'h',
    { location: 'http://h/pre/a/?q=1' },
  ],
  ['path: {type: ReplacePrefixMatch, replacePrefixMatch: /}', '{path: {value: /}}', '/a', 'h', { kind: 'permit' }],
  [
    'path: {type: ReplacePrefixMatch, replacePrefixMatch: /pre/}',
    '{path: {value: /old}}',
    '/old/a',
    'h',
    { location: 'http://h/pre/a?q=1' },
  ],
  [
    'path: {type: ReplaceFullPath, replaceFullPath: /new}',
    '{path: {value: /}}',
    '/a',
    'h:80',
    { location: 'http://h:80/new' },
  ],
  ['hostname: o.example', '{path: {value: /}}', '/a', 'h:80', { location: 'http://o.example/a?q=1' }],
  ['hostname: o.example, port: 80', '{path: {value: /}}', '/a', 'h', { location: 'http://o.example:80/a?q=1' }],
  ['port: 80', '{path: {value: /}}', '/a', 'h:80', { location: 'http://h/a?q=1' }],
  ['port: 80', '{path: {value: /}}', '/a', 'h', { kind: 'permit' }],
  ['port: 8080', '{path: {value: /}}', '/a', 'h:8080', { kind: 'permit' }],
  [
    'path: {type: ReplacePrefixMatch, replacePrefixMatch: /new}',
    '{path: {value: /old}}',
    '/old/x',
    'h',
    { location: 'http://h/new/x?q=1' },
  ],
  [
    'path: {type: ReplacePrefixMatch, replacePrefixMatch: /}',
    '{path: {value: /old}}',
    '/old',
    'h',
    { location: 'http://h/?q=1' },
  ],
  [
    'path: {type: ReplacePrefixMatch, replacePrefixMatch: /new}',
    '{path: {type: Exact, value: /old}}',
    '/old',
    'h',
    { kind: 'redirect', location: null },
  ],
  ['scheme: http', '{path: {value: /}}', '/a', 'h', { kind: 'permit' }],
  ['scheme: https', '{path: {value: /}}', '/a', '', { kind: 'redirect', location: null }],
  ['scheme: https', '{path: {value: /}}', '/a', 'h/evil', { kind: 'redirect', location: null }],
  ['scheme: https', '{path: {value: /}}', '/a"<\u00c3\u00a9>', 'h', { location: 'https://h/a"<%C3%A9>?q=1' }],
];

t.test('redirects', async (t) => {
  for (const [filter, match, path, host, expected] of redirects) {
    const { authorizer } = load(
      `${server()}${route('a', match, `, filters: [{type: RequestRedirect, requestRedirect: {${filter}}}]`)}${open('a')}`,
    );
    t.match(
      authorizer.request(authorizer.port(8080), client, facts(path, host, 'q=1')),
      expected,
      `${filter} ${path} ${host}`,
    );
  }
});

/** Who has the request: the Server is open, so that what misses a closed route goes on. */
t.test('regular expressions beyond ASCII', async (t) => {
  const rows: readonly (readonly [match: string, path: string, verdict: string, headers?: [string, string][]])[] = [
    ...['/\\W+', '/\\D', '/\\S', '/[^\\w]', '/.'].map((pattern): readonly [string, string, string] => [
      `{path: {type: RegularExpression, value: '${pattern}'}}`,
      '/é',
      // A letter is no \W; what is none is a \D, a \S and any character. Escaped, servers read it differently.
      pattern.includes('W') || pattern.includes('w') ? 'no-route' : 'permit',
    ]),
    [`{path: {type: RegularExpression, value: '/\\w'}}`, '/é', 'permit'],
    [`{path: {type: RegularExpression, value: '/.\\b.'}}`, '/éé', 'invalid'],
    [`{queryParams: [{name: q, type: RegularExpression, value: '\\W'}]}`, '/?q=%C3%A9', 'no-route'],
    [`{queryParams: [{name: q, type: RegularExpression, value: '\\w'}]}`, '/?q=%C3%A9', 'permit'],
    [`{headers: [{name: h, type: RegularExpression, value: '.*'}]}`, '/', 'no-route', [['h', 'é']]],
    [`{headers: [{name: h, type: RegularExpression, value: '.*'}]}`, '/', 'permit', [['h', 'a\tb']]],
    [`{headers: [{name: h, type: RegularExpression, value: 'x.*'}]}`, '/', 'no-route', [['h', 'é']]],
    ['{headers: [{name: h, value: "é"}]}', '/', 'permit', [['h', 'é']]],
  ];
  for (const [match, path, verdict, headers = []] of rows) {
    const { ask } = load(server() + route('a', match) + open('a'));
    t.equal(ask({ path, headers }).verdict, verdict, `${match} ${path} ${JSON.stringify(headers)}`);
  }
});
