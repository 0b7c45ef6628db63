import t from 'tap';
import { inspectPath, readings } from '../../../../lib/policy/decide/path-readings.ts';
import { document, load, open, route, server } from '../../../support/policy-fixtures.ts';
import fc from '../../../support/properties.ts';

t.test('plain paths are known by one test', async (t) => {
  for (const path of ['/', '/a', '/a/', '/a/b.c', '/a/.b/..c/d..', "/~u/a-b_c/@x:y+z,$!&'()*=", '/...']) {
    t.equal(inspectPath('GET', path).kind, 'plain', path);
  }
  for (const path of ['/A', '/a.', '/a./b']) t.match(inspectPath('GET', path), { kind: 'plain', folded: false }, path);
  for (const path of ['/.', '/..', '/a/..', '/a/./b', '//', '/a//b', '/a;b', '/a%20', '/a\\b', '/a b', '/caf\u00e9']) {
    t.equal(inspectPath('GET', path).kind, 'ambiguous', path);
  }
  const bad = [
    '',
    'a',
    '*',
    'http://h/a',
    '/a#b',
    '/a\0',
    '/a\x1f',
    '/a\x7f',
    '/a%00',
    '/a%0d%0a',
    '/a%7f',
    '/a%2500',
    '/a%252500',
    '/\u0100',
  ];
  for (const path of bad) t.equal(inspectPath('GET', path).kind, 'invalid', JSON.stringify(path));
  t.equal(inspectPath('OPTIONS', '*').kind, 'plain');
  t.equal(inspectPath('CONNECT', '').kind, 'plain');
  t.equal(inspectPath('POST', '*').kind, 'invalid');
  t.equal(inspectPath('GET', `/${'%20'.repeat(3000)}`).kind, 'invalid', 'too long to read in every way');
});

t.test('readings', async (t) => {
  const rows: readonly (readonly [path: string, among: readonly string[]])[] = [
    ['/public/../admin', ['/admin']],
    ['/public/%2e%2e/admin', ['/public/../admin', '/admin']],
    ['/public%2f..%2fadmin', ['/public/../admin', '/admin']],
    ['/public/%252e%252e/admin', ['/public/%2e%2e/admin', '/admin']],
    ['//admin', ['/admin']],
    ['/public\\..\\admin', ['/public/../admin', '/admin']],
    ['/public/%5c..%5cadmin', ['/admin', '/public/admin']],
    ['/user/..;a=b/admin', ['/user/../admin', '/admin']],
    ['/admin;x', ['/admin']],
    ['/a%2Fb/%2e%2e/admin', ['/admin', '/a/admin']],
    ['/admin%3fx', ['/admin?x', '/admin']],
    ['/admin%23x', ['/admin']],
    ['/%c0%ae%c0%ae/admin', ['/admin']],
    ['/%61dmin', ['/admin']],
    ['/a//../b', ['/b', '/a/b']],
    ['/../../a', ['/a']],
    ['//host/admin', ['/admin', '/host/admin']],
    ['/\\x\\admin', ['/admin', '/x/admin']],
    ['//x?y', ['/']],
    ['/\xc0\xae\xc0\xae/a', ['/../a', '/a']],
    ['/%u002e%u002e/%u20ac', ['/../\xe2\x82\xac', '/\xe2\x82\xac']],
    ['/caf%C3%A9', ['/caf\xc3\xa9']],
  ];
  for (const [path, among] of rows) {
    const all = [...readings(path)];
    for (const reading of among) t.ok(all.includes(reading), `${path} may be read as ${reading}`);
    t.notOk(all.includes(path), `${path} itself is not repeated`);
    t.notOk(all.includes(null), `${path} can be examined whole`);
  }
  t.equal([...readings('/a%25%30%30')].at(-1), null, 'a hidden NUL ends in refusal');
  t.equal([...readings('/%5c%252e;%252f..%c0%ae%3f//\\;x/%2e')].at(-1), null, 'too many readings end in refusal');
});

/** `/public` is open to all, `/admin` to nobody, and so is the rest. */
const guarded = `${server()}${route('public', '{path: {value: /public}}')}${open('public')}${route('admin', '{path: {value: /admin}}')}`;

t.test('attacks never reach the application as something else', async (t) => {
  const { ask } = load(guarded);
  const rows: readonly (readonly [path: string, verdict: string])[] = [
    ['/public/x', 'permit'],
    ['/admin', 'deny'],
    ['/public/../admin', 'invalid'],
    ['/public/%2e%2e/admin', 'invalid'],
    ['/public/%2E%2e/admin', 'invalid'],
    ['/public%2f..%2fadmin', 'invalid'],
    ['/public/%252e%252e/admin', 'invalid'],
    ['/public/..;/admin', 'invalid'],
    ['/public/..;a=b/admin', 'invalid'],
    ['/public\\..\\admin', 'invalid'],
    ['/public/%5c../admin', 'invalid'],
    ['/public//../../admin', 'invalid'],
    ['/public/./x', 'permit'],
    ['/public//x', 'permit'],
    ['//public/x', 'invalid'],
    ['//admin', 'invalid'],
    ['/%61dmin', 'invalid'],
    ['/public/a%2Fb', 'permit'],
    ['/public/a%2fb', 'permit'],
    ['/public/@scope%2Fname', 'permit'],
    ['/public/group%2Fproject/files/a%20b%2Etxt', 'permit'],
    ['/public/caf\u00e9', 'permit'],
    ['/public/caf%C3%A9', 'permit'],
    ['/public/%E9', 'permit'],
    ['/public/100%', 'permit'],
    ['/public;v=1', 'no-route'],
    ['/public/x;v=1', 'permit'],
    ['/admin;x', 'no-route'],
    ['/public#x', 'invalid'],
    ['/public%00', 'invalid'],
    ['public', 'invalid'],
    ['*', 'invalid'],
  ];
  for (const [path, verdict] of rows) {
    const answer = ask({ path });
    t.equal(answer.verdict, verdict, path);
    if (verdict === 'invalid') t.equal(answer.httpStatus, 400);
  }
});

t.test('every spelling of a probe that is not the probe is refused', async (t) => {
  const { ask } = load('');
  t.match(ask({ path: '/live' }), { verdict: 'permit', authz: { name: 'probe' } });
  for (const path of ['/live;x', '/%6cive', '//live', '/x/../live', '/live/', '/live?x=/live', '/liv%65']) {
    const { verdict } = ask({ path });
    t.equal(verdict === 'permit', path.startsWith('/live?'), path);
  }
  for (const method of ['HEAD', 'POST', 'FOO']) t.equal(ask({ path: '/live', method }).verdict, 'deny', method);
  t.equal(ask({ path: '/live', method: 'get' }).verdict, 'invalid', 'a known method in another case');
  t.equal(ask({ path: '/live', headers: [['user-agent', 'kube-probe/1.30']] }).authz?.name, 'probe');
  t.equal(ask({ path: '/other', headers: [['user-agent', 'kube-probe/1.30']] }).verdict, 'deny');
});

t.test('readings that do different things to a request disagree, though both are permitted', async (t) => {
  const { ask } = load(
    `${server()}${route('a', '{path: {value: /a}}', ', filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: x, value: y}]}}]')}${open('a')}${route('rest', '{path: {value: /}}')}${open('rest')}`,
  );
  t.equal(ask({ path: '/a/x' }).route?.name, 'a');
  t.equal(ask({ path: '/b/../a' }).verdict, 'invalid');
  t.equal(ask({ path: '/b/../c' }).verdict, 'permit');
  const refused = load(
    `${server()}${route('a', '{path: {value: /a}}', ', filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: x, value: y}]}}]')}${route('rest', '{path: {value: /}}')}`,
  );
  t.equal(refused.ask({ path: '/b/../a' }).verdict, 'deny', 'where all are denied, what else they would do is moot');
});

t.test(
  'each byte of a path, raw or escaped, has one verdict under an open prefix and never opens a closed one',
  async () => {
    const legal = [...Array(256).keys()].filter((byte) => byte > 0x20 && byte !== 0x7f && byte < 0x80);
    const { ask } = load(guarded);
    const escaped = (byte: number): string => `%${byte.toString(16).padStart(2, '0')}`;
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...legal), { maxLength: 6 }), fc.boolean(), (bytes, raw) => {
        const tail = bytes.map((byte) => (raw ? String.fromCharCode(byte) : escaped(byte))).join('');
        const query = tail.indexOf('?');
        const path = query === -1 ? tail : tail.slice(0, query);
        const closed = ask({ path: `/admin/${path}` }).verdict;
        return closed !== 'permit';
      }),
      { numRuns: 500 },
    );
    for (const byte of legal) {
      const character = String.fromCharCode(byte);
      if ('#?%./\\;'.includes(character)) continue;
      for (const spelling of [character, escaped(byte), escaped(byte).toUpperCase()]) {
        t.equal(ask({ path: `/public/a${spelling}b` }).verdict, 'permit', `/public/a${spelling}b`);
      }
    }
  },
);

t.test('one route for all paths needs no agreement', async (t) => {
  const { ask } = load(server('accessPolicy: all-unauthenticated'), { probes: new Map() });
  for (const path of ['/a/../b', '//a', '/a;b', '/a%2Fb', '/a\\b']) t.equal(ask({ path }).verdict, 'permit', path);
  t.equal(ask({ path: '/a%00' }).verdict, 'invalid');
});

t.test('a GRPCRoute is not evaded', async (t) => {
  const { ask } = load(
    server('proxyProtocol: gRPC, accessPolicy: all-unauthenticated') +
      document(
        'GRPCRoute',
        'r',
        '{parentRefs: [{group: policy.linkerd.io, kind: Server, name: web}], rules: [{matches: [{method: {service: a, method: b}}]}]}',
        'gateway.networking.k8s.io/v1',
      ),
  );
  t.equal(ask({ protocol: 'grpc', path: '/a/b' }).verdict, 'permit');
  for (const path of ['//a/b', '/a/%62', '/x/../a/b', '/a/b/../c']) {
    t.equal(ask({ protocol: 'grpc', path }).verdict, 'invalid', path);
  }
});
