import t from 'tap';
import { document, httpProbes, ip, load, open, route, server } from '../../../support/policy-fixtures.ts';

/*
 * `/` is open to everybody and one rule is closed: whatever some server could take for the closed one must not get in by
 * the open one. Every row is a policy and what becomes of requests under it.
 */

type Ask = Parameters<ReturnType<typeof load>['ask']>[0];

interface Row {
  /** A match, closed; `/` is open beside it. */
  readonly closed: string;
  readonly refused: readonly (Ask | string)[];
  readonly permitted: readonly (Ask | string)[];
}

const asked = (query: Ask | string): Ask => (typeof query === 'string' ? { path: query } : query);

const rows: Readonly<Record<string, Row>> = {
  'an authority before the path': {
    closed: '{path: {value: /admin}}',
    refused: [
      '//host/admin',
      '///x/admin',
      '/\\x/admin',
      '/\\\\x\\admin',
      '//x:1/admin',
      '//x@y/admin',
      '//x\\admin',
      '//x//admin',
      '/%2fx/admin',
      '/%5cx/admin',
      '//x/%61dmin',
      '//x/y/../admin',
      '//x/admin/sub',
      '///admin',
    ],
    permitted: ['//host/other', '/x//admin-not', '/a//host/admin', '//'],
  },
  case: {
    closed: '{path: {value: /admin}}',
    refused: ['/ADMIN', '/Admin/x', '/%41dmin', '/%41DMIN/x', '/x/../ADMIN', '/aDmin;x', '//h/ADMIN'],
    permitted: ['/ADMINS', '/Other/Admin', '/x/%41dmin', '/', '/X'],
  },
  'case, in the rule': {
    closed: '{path: {value: /Admin}}',
    refused: ['/admin', '/ADMIN', '/Admin', '/admin/x'],
    permitted: ['/admins', '/other'],
  },
  'a trailing slash': {
    closed: '{path: {type: Exact, value: /admin}}',
    refused: ['/admin', '/admin/', '/admin//', '/ADMIN/', '/admin/.', '/admin%2f'],
    permitted: ['/admin/x', '/admins/', '/admi'],
  },
  'a trailing slash, in the rule': {
    closed: '{path: {type: Exact, value: /admin/}}',
    refused: ['/admin', '/admin/'],
    permitted: ['/admin/x'],
  },
  'dots and blanks at the end of a segment': {
    closed: '{path: {value: /admin}}',
    refused: ['/admin.', '/admin../x', '/admin%20', '/admin%2e/x', '/admin.%20.'],
    permitted: ['/admin.x', '/.admin', '/x/admin.', '/...'],
  },
  'wide and overlong escapes': {
    closed: '{path: {value: /admin}}',
    refused: [
      '/%u0061dmin',
      '/%U0061dmin',
      '/%uff41dmin',
      '/x%u2215..%u2215admin',
      '/x/%c0%ae%c0%ae/admin',
      '/x/%e0%80%ae%e0%80%ae/admin',
      '/x/%f0%80%80%ae./admin',
      '/%c1%a1dmin',
      '/%25u0061dmin',
    ],
    permitted: ['/%u0062dmin', '/%u20ac', '/%uzzzz', '/%u00'],
  },
  'dots with parameters': {
    closed: '{path: {value: /admin}}',
    refused: ['/x/%2e%2e;/admin', '/x/..;a=b/admin', '/x/%2e%2e%3b/admin', '/x/.%2e;/admin'],
    permitted: ['/x/%2e%2e;/other'],
  },
  'escapes in the rule': {
    closed: '{path: {value: /%61dmin}}',
    refused: ['/admin', '/%61dmin', '/%2561dmin', '/ADMIN', '/admin/x'],
    permitted: ['/bdmin'],
  },
  'separators in the rule': {
    closed: '{path: {value: /a%2Fb}}',
    refused: ['/a%2Fb', '/a%2fb', '/a/b', '/a%252fb'],
    permitted: ['/a', '/b'],
  },
  'a regular expression': {
    closed: '{path: {type: RegularExpression, value: "/admin(/.*)?"}}',
    refused: ['/admin', '/ADMIN', '/admin/', '/Admin/x', '/%61dmin', '//x/admin'],
    permitted: ['/other', '/x/admin'],
  },
  'a regular expression in upper case': {
    closed: '{path: {type: RegularExpression, value: "/ADMIN.*"}}',
    refused: ['/ADMIN', '/admin', '/Admin/'],
    permitted: ['/other'],
  },
  'text beyond ASCII in a path': {
    closed: '{path: {value: /caf\u00e9}}',
    refused: ['/caf\u00e9', '/caf%C3%A9', '/caf%c3%a9/x', '/caf%E9', '/CAF\u00c9', '/caf%25C3%25A9'],
    permitted: ['/cafe', '/caf%C3%A8'],
  },
  'a regular expression beyond ASCII': {
    closed: '{path: {type: RegularExpression, value: "/caf."}}',
    refused: ['/caf\u00e9', '/cafe', '/caf%C3%A9'],
    permitted: ['/other'],
  },
  'a query': {
    closed: '{queryParams: [{name: debug, value: "1"}]}',
    refused: [
      '/?debug=1',
      '/?a=b&debug=1',
      '/??debug=1',
      '/?%64ebug=%31',
      '/?debug=0&debug=1',
      '/?debug=1&debug=0',
      '/?a=b;debug=1',
      '/?debug=1;a=b',
      '/?debug[]=1',
      '/?debug[x]=1',
      '/?DEBUG=1',
      '/?+debug=1',
      { path: '/X/?Debug=1' },
    ],
    permitted: ['/', '/?', '/?debug=2', '/?debug', '/?xdebug=1', '/?a=debug=1', '/?debug=2&a=1;b'],
  },
  'a query with text beyond ASCII': {
    closed: '{queryParams: [{name: caf\u00e9, value: "\u00e9"}]}',
    refused: ['/?caf\u00e9=\u00e9', '/?caf%C3%A9=%C3%A9'],
    permitted: ['/?caf=\u00e9'],
  },
  'a query with a plus': {
    closed: '{queryParams: [{name: q, value: "a b"}]}',
    refused: ['/?q=a+b', '/?q=a%20b'],
    permitted: ['/?q=a%2Bb', '/?q=a'],
  },
  'a query with a literal plus': {
    closed: '{queryParams: [{name: q, value: "a+b"}]}',
    refused: ['/?q=a%2Bb', '/?q=a+b'],
    permitted: ['/?q=a%20b'],
  },
  'a query of PHP': {
    closed: '{queryParams: [{name: a_b, value: "1"}]}',
    refused: ['/?a_b=1', '/?a.b=1', '/?a%20b=1', '/?a+b=1'],
    permitted: ['/?ab=1', '/?a-b=1'],
  },
  'a header': {
    closed: '{headers: [{name: x-admin, value: "1"}]}',
    refused: [
      { headers: [['x-admin', '1']] },
      { headers: [['X_Admin', '1']] },
      { headers: [['x_admin', '0']] },
      { headers: [['x.admin', '1']] },
      ...[..."!#$%&'*+^`|~"].map((c): Ask => ({ headers: [[`x${c}admin`, '1']] })),
    ],
    permitted: [{}, { headers: [['x-admin', '0']] }, { headers: [['x_other', '1']] }, { headers: [['xadmin', '1']] }],
  },
  'a header with an odd name': {
    closed: '{headers: [{name: x_admin, value: "1"}]}',
    refused: [
      { headers: [['x_admin', '1']] },
      { headers: [['x-admin', '1']] },
      { headers: [['x.admin', '1']] },
      { headers: [['x-admin', '0']] },
    ],
    permitted: [{ headers: [['x_admin', '0']] }],
  },
  'a header with text beyond ASCII': {
    closed: '{headers: [{name: x-team, value: "caf\u00e9"}]}',
    refused: [{ headers: [['x-team', 'caf\u00e9']] }],
    permitted: [{ headers: [['x-team', 'cafe']] }],
  },
};

for (const [title, { closed, refused, permitted }] of Object.entries(rows)) {
  t.test(title, async (t) => {
    const { ask } = load(`${server()}${route('closed', closed)}${route('all', '{path: {value: /}}')}${open('all')}`);
    for (const query of refused) t.not(ask(asked(query)).verdict, 'permit', JSON.stringify(query));
    for (const query of permitted) t.equal(ask(asked(query)).verdict, 'permit', JSON.stringify(query));
    // The other way round: what only looks like the open one stays out.
    const turned = load(`${server()}${route('only', closed)}${open('only')}`);
    for (const query of permitted) t.not(turned.ask(asked(query)).verdict, 'permit', JSON.stringify(query));
  });
}

t.test('Latin-1 for what a rule says in UTF-8 is refused, for Node reads header values so', async (t) => {
  const { authorizer } = load(
    `${server()}${route('closed', '{headers: [{name: x-team, value: "caf\u00e9"}]}')}${route('all', '{path: {value: /}}')}${open('all')}`,
  );
  const ask = (value: string): string =>
    authorizer.request(
      authorizer.port(8080),
      { ip: ip('10.0.0.1'), tls: { kind: 'none', reason: 'no_tls_from_remote' } },
      {
        method: 'GET',
        path: '/',
        query: '',
        host: 'web',
        grpc: false,
        header: (name) => (name === 'x-team' ? [value] : []),
        oddNames: [],
        carries: 'nothing',
      },
    ).kind;
  t.equal(ask('caf\xc3\xa9'), 'deny', 'the bytes of the rule');
  t.equal(ask('caf\xe9'), 'invalid');
  t.equal(ask('caf\xe8'), 'permit');
});

t.test('text beyond ASCII that a route writes is written as its bytes, none of which ends a line', async (t) => {
  const { authorizer } = load(
    `${server()}${route('a', '{path: {value: /}}', ', filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: x, value: "caf\u00e9 \u010a"}]}}]')}${open('a')}`,
  );
  const rule = authorizer.request(
    authorizer.port(8080),
    { ip: ip('10.0.0.1'), tls: { kind: 'none', reason: 'no_tls_from_remote' } },
    {
      method: 'GET',
      path: '/',
      query: '',
      host: 'web',
      grpc: false,
      header: () => [],
      oddNames: [],
      carries: 'nothing',
    },
  );
  t.match(rule, { headerChanges: { set: [['x', 'caf\xc3\xa9 \xc4\x8a']] } });
});

t.test('what a rule tells apart by case or slash is told apart', async (t) => {
  const { ask } = load(
    `${server()}${route('lower', '{path: {value: /shop}}')}${route('upper', '{path: {value: /Shop}}')}${open('upper')}${route('all', '{path: {value: /}}')}${open('all')}`,
  );
  t.equal(ask({ path: '/Shop/x' }).verdict, 'permit');
  t.equal(ask({ path: '/shop/x' }).verdict, 'deny');
  t.equal(ask({ path: '/SHOP/x' }).verdict, 'invalid');
  const redirected = load(
    `${server()}${route('bare', '{path: {type: Exact, value: /docs}}', ', filters: [{type: RequestRedirect, requestRedirect: {path: {type: ReplaceFullPath, replaceFullPath: /docs/}}}]')}${open('bare')}${route('all', '{path: {value: /}}')}${open('all')}`,
  );
  t.equal(redirected.ask({ path: '/docs' }).verdict, 'redirect');
  t.equal(redirected.ask({ path: '/docs/' }).verdict, 'permit', 'a redirect is no refusal');
});

t.test('what is refused as it stands is answered for what it is', async (t) => {
  const { ask } = load(
    `${server()}${route('docs', '{path: {type: Exact, value: /docs}}')}${open('docs')}${route('all', '{path: {value: /}}')}`,
  );
  t.equal(ask({ path: '/docs' }).verdict, 'permit');
  for (const path of ['/docs/', '/DOCS', '/Docs;x', '/other/']) t.equal(ask({ path }).verdict, 'deny', path);
});

t.test('a name that a route writes does not come in under another spelling', async (t) => {
  const change = (modifier: string): string =>
    `${server()}${route('a', '{path: {value: /}}', `, filters: [{type: RequestHeaderModifier, requestHeaderModifier: {${modifier}}}]`)}${open('a')}`;
  for (const modifier of ['set: [{name: x-user, value: me}]', 'add: [{name: x-user, value: me}]', 'remove: [x-user]']) {
    const { ask } = load(change(modifier));
    t.equal(ask({ headers: [['x-user', 'root']] }).verdict, 'permit', modifier);
    t.equal(ask({ headers: [['x-other_user', 'root']] }).verdict, 'permit', modifier);
    for (const name of ['x_user', 'X_User', 'x.user', 'x|user', 'x+user']) {
      const answer = ask({ headers: [[name, 'root']] });
      t.match(answer, { verdict: 'invalid', httpStatus: 400 }, `${modifier}, ${name}`);
      t.ok(answer.reason.includes(name.toLowerCase()), answer.reason);
    }
  }
});

t.test('a host with an escape is refused where hosts matter', async (t) => {
  const named = `${route('a', '{path: {value: /}}').trimEnd()}\n  hostnames: [admin.example]\n`;
  const { ask } = load(`${server()}${named}${route('all', '{path: {value: /}}')}${open('all')}`);
  t.equal(ask({ host: 'admin.example' }).verdict, 'deny');
  t.equal(ask({ host: '%61dmin.example' }).verdict, 'invalid');
  t.equal(ask({ host: 'other.example' }).verdict, 'permit');
});

t.test('probes are not evaded, nor opened, by spellings', async (t) => {
  const { ask } = load(server('accessPolicy: all-unauthenticated'), {
    probes: new Map([[8080, httpProbes('/Live', '/caf\u00e9')]]),
  });
  for (const path of ['/Live', '/live', '/LIVE/', '/caf%C3%A9']) t.equal(ask({ path }).verdict, 'permit', path);
  const closed = load(server(), { probes: new Map([[8080, httpProbes('/Live')]]) });
  t.equal(closed.ask({ path: '/Live' }).verdict, 'permit');
  for (const path of ['/live', '/LIVE', '/Live/', '/%4cive']) t.not(closed.ask({ path }).verdict, 'permit', path);
});

t.test('gRPC is compared without case too', async (t) => {
  const grpc = (name: string, matches: string): string =>
    document(
      'GRPCRoute',
      name,
      `{parentRefs: [{group: policy.linkerd.io, kind: Server, name: web}], rules: [${matches}]}`,
      'gateway.networking.k8s.io/v1',
    );
  const all = `
---
apiVersion: policy.linkerd.io/v1alpha1
kind: AuthorizationPolicy
metadata: {name: all-open}
spec: {targetRef: {group: gateway.networking.k8s.io, kind: GRPCRoute, name: all}, requiredAuthenticationRefs: []}
`;
  const { ask } = load(
    server('proxyProtocol: gRPC') +
      grpc('closed', '{matches: [{method: {service: a.Admin, method: Drop}}]}') +
      grpc('all', '{}') +
      all,
  );
  t.equal(ask({ protocol: 'grpc', path: '/a.Admin/Drop' }).verdict, 'deny');
  for (const path of ['/a.admin/Drop', '/A.ADMIN/DROP', '/a.Admin/%44rop', '//x/a.Admin/Drop']) {
    t.equal(ask({ protocol: 'grpc', path }).verdict, 'invalid', path);
  }
  for (const path of ['/a.Admin/Other', '/a', '/a/', '//b', '/a//b']) {
    t.equal(ask({ protocol: 'grpc', path }).verdict, 'permit', path);
  }
});

t.test("a route's own spelling is reached, and what it is for servers that decode it", async (t) => {
  const at = (name: string, type: string, value: string): string =>
    route(name, `{path: {type: ${type}, value: ${JSON.stringify(value)}}}`);
  const a = (type: string, value: string): string => at('a', type, value) + open('a');
  const rows: readonly (readonly [documents: string, path: string, verdict: string])[] = [
    [a('Exact', '/files/a%20b'), '/files/a%20b', 'permit'],
    [a('Exact', '/files/a%20b'), '/files/a%2520b', 'invalid'],
    [a('Exact', '/files/a%20b'), '/files/%61%20b', 'no-route'],
    [a('Exact', '/caf%C3%A9'), '/caf%C3%A9', 'permit'],
    // As Linkerd compares: byte by byte.
    [a('Exact', '/caf%C3%A9'), '/caf%c3%a9', 'no-route'],
    [a('Exact', '/a%2fb'), '/a%2fb', 'permit'],
    [a('PathPrefix', '/my%20files'), '/my%20files/x', 'permit'],
    [a('PathPrefix', '/my%20files') + at('c', 'PathPrefix', '/'), '/my%20files/x', 'permit'],
    [a('PathPrefix', '/my%20files'), '/my%20files/%2e%2e/admin', 'invalid'],
    [a('PathPrefix', '/my%20files'), '/my%20files/..%2fadmin', 'invalid'],
    // What applied to the path as it came gives way there, too.
    [a('Exact', '/files/a%20b') + at('c', 'PathPrefix', '/files'), '/files/a%20b', 'permit'],
    // What did not apply to it does not.
    [a('Exact', '/a%2fb') + at('c', 'PathPrefix', '/a'), '/a%2fb', 'invalid'],
    [a('Exact', '/files/a%20b') + at('c', 'Exact', '/files/a b'), '/files/a%20b', 'invalid'],
    [a('Exact', '/f/a%20b') + at('c', 'RegularExpression', '/f/.* .*'), '/f/a%20b', 'invalid'],
    [a('Exact', '/x/%2e%2e/admin') + at('c', 'PathPrefix', '/admin'), '/x/%2e%2e/admin', 'invalid'],
    [a('Exact', '/x/%2e%2e/admin'), '/x/%2e%2e/admin', 'invalid'],
    [a('Exact', '/a;b/c'), '/a;b/c', 'invalid'],
  ];
  for (const [documents, path, verdict] of rows) {
    const { ask, problems } = load(server() + documents);
    t.equal(ask({ path }).verdict, verdict, `${path} of ${documents.match(/value: "[^"]*"/g)?.join()}`);
    const said = problems.filter(({ code }) => code === 'path-never-matches');
    if (verdict === 'permit') t.same(said, [], 'and nothing is said against it');
  }
});

t.test('paths that no request can reach are named, with the spelling that works', async (t) => {
  const rows: readonly (readonly [value: string, hint: string | null])[] = [
    ['/files/a b', 'Write "/files/a%20b".'],
    ['/x/../admin', 'Write "/admin".'],
    ['/a;b/c', 'Write "/a/c".'],
    ['//x', 'Write "/x".'],
    ['/a%00b', 'Match a prefix above it.'],
    ['/files/a%20b', null],
    ['/a%2fb', null],
    ['/plain', null],
  ];
  for (const [value, hint] of rows) {
    const { problems } = load(
      server() + route('a', `{path: {type: Exact, value: ${JSON.stringify(value)}}}`) + open('a'),
    );
    const said = problems.filter(({ code }) => code === 'path-never-matches');
    t.match(said, hint === null ? [] : [{ severity: 'warning', hint }], value);
    t.equal(said.length, hint === null ? 0 : 1, value);
  }
  const { problems, ask } = load(
    server() +
      route('a', '{path: {type: Exact, value: "/a;b/c"}}') +
      open('a') +
      route('all', '{path: {value: /}}') +
      open('all'),
  );
  t.notOk(
    problems.some(({ code }) => code === 'path-never-matches'),
    'another route is for what it may be taken for',
  );
  t.equal(ask({ path: '/a;b/c' }).verdict, 'permit');
});
