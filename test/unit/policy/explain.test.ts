import t from 'tap';
import { compileNow } from '../../../lib/policy/compile/compile.ts';
import { readDocuments } from '../../../lib/policy/documents/read.ts';
import { effectivePolicy } from '../../../lib/policy/effective.ts';
import { nearestName } from '../../../lib/policy/nearest.ts';
import { refusalOf } from '../../../lib/policy/refusals.ts';
import {
  account,
  document,
  load,
  open,
  policy,
  route,
  server,
  sources,
  workload,
} from '../../support/policy-fixtures.ts';

t.test('the shape of an explanation', async (t) => {
  const { ask } = load(`${server()}${policy('p', 'kind: Server, name: web', '{kind: ServiceAccount, name: a}')}`);
  t.same(ask({ identity: account('a') }), {
    verdict: 'permit',
    httpStatus: null,
    grpcStatus: null,
    tcp: null,
    audit: false,
    server: { group: 'policy.linkerd.io', kind: 'server', name: 'web' },
    route: { group: '', kind: 'default', name: 'default' },
    rule: null,
    authz: { group: 'policy.linkerd.io', kind: 'authorizationpolicy', name: 'p' },
    reason: `policy.linkerd.io/authorizationpolicy/p covers 10.20.0.5 (${account('a')})`,
    candidates: [
      {
        authz: { group: 'policy.linkerd.io', kind: 'authorizationpolicy', name: 'p' },
        granted: true,
        failed: null,
        detail: '',
      },
      {
        authz: { group: '', kind: 'default', name: 'localhost' },
        granted: false,
        failed: 'network',
        detail: 'wanted 127.0.0.1/32, ::1/128, was 10.20.0.5',
      },
    ],
    networkPolicies: [],
  });
  t.match(ask({}), {
    verdict: 'deny',
    httpStatus: 403,
    grpcStatus: 7,
    tcp: null,
    route: { name: 'default' },
    authz: null,
  });
  t.match(ask({ protocol: 'grpc', path: '/a/b' }), { verdict: 'deny', httpStatus: 200, grpcStatus: 7 });
  t.match(ask({ path: '/a b' }), { verdict: 'invalid', httpStatus: 400 }, 'no request can hold a blank there');
  t.match(ask({ path: '/a#b' }), { verdict: 'invalid', httpStatus: 400, grpcStatus: 3, route: null, authz: null });
});

t.test('which protocols on which port are requests, and which are bytes', async (t) => {
  const rows: readonly (readonly [
    protocol: string,
    asked: 'http1' | 'http2' | 'grpc' | 'tcp',
    tls: 'none' | 'anonymous' | 'passthrough',
    tcp: 'forward' | 'close' | null,
  ])[] = [
    ['unknown', 'http1', 'none', null],
    ['unknown', 'http2', 'anonymous', null],
    ['unknown', 'tcp', 'none', 'forward'],
    ['unknown', 'http1', 'passthrough', 'forward'],
    ['HTTP/1', 'http1', 'none', null],
    ['HTTP/1', 'http2', 'none', 'close'],
    ['HTTP/1', 'http2', 'anonymous', null],
    ['HTTP/1', 'tcp', 'none', 'close'],
    ['HTTP/1', 'http1', 'passthrough', 'close'],
    ['HTTP/2', 'http2', 'none', null],
    ['HTTP/2', 'http1', 'anonymous', 'close'],
    ['gRPC', 'grpc', 'none', null],
    ['gRPC', 'http1', 'none', 'close'],
    ['gRPC', 'tcp', 'none', 'close'],
    ['opaque', 'http1', 'none', 'forward'],
    ['opaque', 'grpc', 'anonymous', 'forward'],
    ['TLS', 'http1', 'none', 'forward'],
    ['TLS', 'tcp', 'passthrough', 'forward'],
  ];
  for (const [protocol, asked, tls, tcp] of rows) {
    const { ask } = load(server(`proxyProtocol: ${protocol}, accessPolicy: all-unauthenticated`));
    const answer = ask({ protocol: asked, tls, path: '/a/b' });
    t.equal(answer.tcp, tcp, `${asked} with tls ${tls} on ${protocol}`);
    if (tcp === 'close') t.match(answer, { verdict: 'deny', httpStatus: null, grpcStatus: null, reason: /bytes/ });
  }
  const opaque = load(server('proxyProtocol: opaque, accessPolicy: all-authenticated'));
  t.match(opaque.ask({ identity: account('a') }), { verdict: 'deny', tcp: 'close' });
  t.match(opaque.ask({ identity: account('a') }).candidates[0]?.detail, /opaque/, 'an opaque port sees no identity');
});

t.test('one table of refusals', async (t) => {
  const ref = { group: '', kind: '', name: '' };
  const all = { server: ref, route: ref, authz: ref, audit: false };
  t.equal(refusalOf({ kind: 'deny', server: ref, route: ref })?.http, 403);
  t.same(refusalOf({ kind: 'no-route', server: ref }), { http: 404, grpc: 5, close: false });
  t.same(refusalOf({ kind: 'invalid', server: ref, detail: '' }), { http: 400, grpc: 3, close: true });
  t.same(refusalOf({ kind: 'rate-limited', ...all, limit: ref, scope: 'total', detail: '' }), {
    http: 429,
    grpc: 8,
    close: false,
  });
  t.same(refusalOf({ kind: 'redirect', ...all, status: 301, location: 'http://h/' }), {
    http: 301,
    grpc: 5,
    close: false,
  });
  t.match(refusalOf({ kind: 'redirect', ...all, status: 301, location: null }), { http: 500, grpc: 13 });
});

t.test('l5d-client-id is the verified identity, whatever was sent', async (t) => {
  const { ask } = load(
    `${server()}${route('a', `{headers: [{name: L5d-Client-Id, value: ${account('a')}}]}`)}${open('a')}`,
  );
  const headers = [['l5d-client-id', account('a')]] as const;
  t.equal(ask({ identity: account('a') }).verdict, 'permit');
  t.equal(ask({ headers }).verdict, 'no-route');
  t.equal(ask({ headers, identity: account('b') }).verdict, 'no-route');
  t.equal(ask({ headers, tls: 'anonymous' }).verdict, 'no-route');
});

t.test('the effective policy is plain JSON', async (t) => {
  const text = `${server('accessPolicy: audit')}${route('api', '{path: {value: /api}}')}${policy('p', 'kind: HTTPRoute, name: api', '{kind: ServiceAccount, name: a}')}${policy('q', 'kind: Server, name: web', '{group: policy.linkerd.io, kind: NetworkAuthentication, name: none}')}${document('HTTPLocalRateLimitPolicy', 'l', '{targetRef: {group: policy.linkerd.io, kind: Server, name: web}, total: {requestsPerSecond: 5}}')}`;
  const { index } = compileNow(readDocuments(sources(text), { namespace: 'shop' }).documents, workload());
  const view = effectivePolicy(index, workload());
  t.same(JSON.parse(JSON.stringify(view)), view);
  t.match(view, {
    pod: { name: 'web-0', namespace: 'shop', ips: ['10.244.1.10', 'fd00:10:244:1::10'] },
    defaultPolicy: 'deny',
    ports: [
      { port: 7070, server: { kind: 'default', name: 'deny' } },
      {
        port: 8080,
        server: { name: 'web' },
        protocol: 'detect',
        authorizations: [
          { authz: '/default/localhost' },
          { authz: '/default/audit', audit: true },
          { authz: 'policy.linkerd.io/authorizationpolicy/q', broken: /missing/ },
        ],
        routes: [{ route: 'policy.linkerd.io/HTTPRoute/api', authorizations: [{ clients: account('a') }] }],
        rateLimit: { name: 'l', total: 5, identity: null },
      },
    ],
  });
});

t.test('nearest names', async (t) => {
  const rows: readonly (readonly [typed: string, known: readonly string[], nearest: string | undefined])[] = [
    ['podSelecter', ['podSelector', 'port'], 'podSelector'],
    ['HTTPROUTE', ['HTTPRoute'], 'HTTPRoute'],
    ['web', ['completely-different'], undefined],
    ['a', ['b'], 'b'],
    ['x', [], undefined],
    ['identity', ['identities', 'identify'], 'identify'],
  ];
  for (const [typed, known, nearest] of rows) t.equal(nearestName(typed, known), nearest, typed);
});

t.test('bytes that are no HTTP, where there are request rules', async (t) => {
  const limit = `---
apiVersion: policy.linkerd.io/v1alpha1
kind: HTTPLocalRateLimitPolicy
metadata: {name: few, namespace: shop}
spec:
  targetRef: {group: policy.linkerd.io, kind: Server, name: web}
  total: {requestsPerSecond: 10}
`;
  const everybody = policy('p', 'kind: Server, name: web', '');
  for (const [name, rules] of [
    ['a route', route('r', '')],
    ['a rate limit', limit],
  ] as const) {
    const { ask } = load(`${server()}${everybody}${rules}`);
    for (const tls of ['none', 'passthrough'] as const) {
      const answer = ask({ protocol: 'tcp', tls });
      t.match(answer, { verdict: 'deny', tcp: 'close', reason: /declare its proxyProtocol/ }, `${name}, ${tls}`);
      t.ok(
        answer.candidates.some(({ granted }) => granted),
        'though somebody may use the Server',
      );
    }
  }
  t.match(
    load(`${server()}${everybody}`).ask({ protocol: 'tcp' }),
    { verdict: 'permit', tcp: 'forward' },
    'and without',
  );
});

t.test('CONNECT, and methods that are none, are answered as on the wire', async (t) => {
  const { ask } = load(server('accessPolicy: all-unauthenticated'));
  const connect = { method: 'CONNECT', path: 'web:80', host: 'web:80' };
  const by405 = {
    verdict: 'invalid',
    httpStatus: 405,
    grpcStatus: null,
    tcp: null,
    authz: null,
    reason: /CONNECT over/,
  };
  const by400 = { verdict: 'invalid', httpStatus: 400, grpcStatus: 3, reason: /is no method/ };
  const rows: [title: string, query: Parameters<typeof ask>[0], answer: object][] = [
    ['over HTTP/1', { ...connect, protocol: 'http1' }, { verdict: 'permit', httpStatus: null }],
    ['over HTTP/1, of a path', { ...connect, path: '/a' }, { verdict: 'invalid', httpStatus: 400 }],
    ['over HTTP/2', { ...connect, protocol: 'http2' }, by405],
    [
      'over HTTP/2, by who may nothing',
      { ...connect, protocol: 'http2', port: 9 },
      { ...by405, server: { name: 'deny' } },
    ],
    ['as a call', { ...connect, protocol: 'grpc' }, by405],
    [
      'over HTTP/2, without a host',
      { ...connect, host: '', protocol: 'http2' },
      { verdict: 'invalid', httpStatus: null },
    ],
    ['in another case', { ...connect, method: 'connect', path: '/', protocol: 'http2' }, by400],
    ['in another case over HTTP/1', { ...connect, method: 'connect', path: '/' }, by400],
  ];
  for (const [title, query, answer] of rows) t.match(ask(query), answer, title);
});

t.test('fields are those that policy decides on, on the wire', async (t) => {
  const looksAt = (name: string, value: string): string =>
    route('r', `{ headers: [{ name: ${name}, type: RegularExpression, value: '${value}' }] }`);
  const permit = { verdict: 'permit' };
  const none = { verdict: 'no-route' };
  const by400 = { verdict: 'invalid', httpStatus: 400 };
  const reset = { verdict: 'invalid', httpStatus: null };
  const rows: [protocol: 'http1' | 'http2', name: string, value: string, fields: string[], answer: object][] = [
    ['http1', 'x-role', '.+', ['X-Role: a'], permit],
    ['http1', 'x-role', '.+', ['X-Role: a', 'Connection: close, x-role'], none],
    ['http1', 'te', '.+', ['te: trailers'], permit],
    ['http1', 'te', '.+', ['te: gzip'], none],
    ['http2', 'te', '.+', ['te: gzip'], reset],
    ['http1', 'connection', '.+', ['connection: close'], none],
    ['http2', 'connection', '.+', ['connection: close'], reset],
    ['http1', 'expect', '.+', ['expect: 100-continue'], none],
    ['http1', 'expect', '.+', ['expect: other'], { verdict: 'invalid', httpStatus: 417 }],
    ['http2', 'expect', '.+', ['expect: other'], permit],
    ['http1', 'transfer-encoding', '.+', ['transfer-encoding: chunked'], none],
    ['http1', 'x-role', '.+', ['x-role: a', 'transfer-encoding: gzip'], by400],
    ['http1', 'content-length', '.+', ['content-length: 5'], permit],
    ['http1', 'content-length', '.+', ['content-length: 5', 'content-length: 5'], by400],
    ['http2', 'content-length', '.+', ['content-length: 5', 'content-length: 5'], reset],
    ['http2', 'content-length', '.+', ['content-length: +5'], reset],
    ['http1', 'cookie', 'a=1; b=2', ['cookie: a=1', 'cookie: b=2'], none],
    ['http2', 'cookie', 'a=1; b=2', ['cookie: a=1', 'cookie: b=2'], permit],
    ['http2', 'host', '.+', ['host: h'], none],
    ['http2', 'x-role', '.+', ['x-role: a', 'host: other'], reset],
    ['http2', 'x-role', '.+', ['x-role: a', 'host: H'], permit],
    ['http1', 'x-role', '.+', ['x-role: a\u0007'], by400],
    ['http2', 'x-role', '.+', ['x-role: a\u0007'], reset],
    ['http1', 'x-role', '.+', ['x-role: a', 'x role: a'], by400],
  ];
  for (const [protocol, name, value, fields, answer] of rows) {
    const { ask } = load(`${server('accessPolicy: all-unauthenticated')}${looksAt(name, value)}`);
    const headers = fields.map((field): [string, string] => {
      const colon = field.indexOf(':');
      return [field.slice(0, colon), field.slice(colon + 2)];
    });
    t.match(ask({ protocol, host: 'h', headers }), answer, `${fields.join(', ')} over ${protocol}`);
  }
  const { ask } = load(server());
  const headers = [['content-type', 'application/grpc']] as const;
  t.match(
    ask({ protocol: 'http2', headers }),
    { httpStatus: 200, grpcStatus: 7 },
    'what says that it is a call is one',
  );
});
