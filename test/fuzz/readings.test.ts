/*
 * Whatever policy permits is sent to servers that other people wrote: none may serve for it what policy refuses, nor hand
 * its app a header that policy looks at and has not seen. How long it searches: see budget.ts.
 */
import { posix } from 'node:path';
import { parse as parseQuery } from 'node:querystring';
import { parse as parseUrl } from 'node:url';
import fc from 'fast-check';
import t from 'tap';
import { parseIp } from '../../lib/ip.ts';
import { oddNamesOf, type RequestFacts } from '../../lib/policy/decision.ts';
import { applyHeaderChanges, headerValues } from '../../lib/proxy/http/headers.ts';
import { isIdentityAlias } from '../../lib/request-fields.ts';
import { readTarget } from '../../lib/request-target.ts';
import {
  type RunningServer,
  serverKinds,
  startServer,
  type Taken,
  takenBy,
  unavailable,
} from '../support/http-servers.ts';
import { load, open, route, server as serverDocument } from '../support/policy-fixtures.ts';
import { latin1 } from '../support/raw-http.ts';
import { search, timeLimitMs } from './budget.ts';

t.setTimeout(timeLimitMs + 600_000);

/** A shell for each request: they are asked a part of the questions. */
const slow: ReadonlySet<string> = new Set(['Apache', 'Apache, lenient', 'lighttpd']);

const servers: RunningServer[] = [];
t.before(async () => {
  for (const kind of serverKinds) {
    const missing = await unavailable(t, kind);
    if (missing === null) servers.push(await startServer(t, kind));
    else t.comment(`${kind.name}: ${missing}`);
  }
});

const client = { ip: ip('10.20.0.5'), tls: { kind: 'none', reason: 'no_tls_from_remote' } } as const;

function ip(text: string) {
  const parsed = parseIp(text);
  if (parsed === undefined) throw new TypeError(text);
  return parsed;
}

interface Policy {
  readonly name: string;
  readonly documents: string;
  /** Whether a resource, by its segments in lower case, may be served to anybody. */
  readonly serves: (segments: readonly string[]) => boolean;
}

const policies: readonly Policy[] = [
  {
    name: 'all but /admin',
    documents: `${route('all', '{path: {value: /}}')}${open('all')}${route('admin', '{path: {value: /admin}}')}`,
    serves: ([first]) => first !== 'admin',
  },
  {
    name: '/public alone',
    documents: `${route('public', '{path: {value: /public}}')}${open('public')}`,
    serves: ([first]) => first === 'public',
  },
  {
    name: 'all but exactly /admin/x',
    documents: `${route('all', '{path: {value: /}}')}${open('all')}${route('admin', '{path: {type: Exact, value: /Admin/x}}')}`,
    serves: ([first, second, ...more]) => first !== 'admin' || second !== 'x' || more.length > 0,
  },
  {
    name: 'all but what a regular expression closes',
    documents: `${route('all', '{path: {value: /}}')}${open('all')}${route('admin', '{path: {type: RegularExpression, value: "/admin(/.*)?"}}')}`,
    serves: ([first]) => first !== 'admin',
  },
  {
    name: 'an escaped prefix alone',
    documents: `${route('public', '{path: {value: "/public%20"}}')}${open('public')}${route('rest', '{path: {value: /}}')}`,
    serves: ([first]) => first === 'public ' || first === 'public%20',
  },
  {
    name: 'an escaped path alone',
    documents: `${route('public', '{path: {type: Exact, value: "/admin%20/x"}}')}${open('public')}`,
    serves: ([first, second, ...more]) =>
      (first === 'admin ' || first === 'admin%20') && second === 'x' && more.length === 0,
  },
];
const judges = policies.map((policy) => ({ ...policy, ...load(serverDocument() + policy.documents) }));

function factsOf(target: string, fields: readonly string[] = []): RequestFacts | null {
  const read = readTarget('GET', target);
  if (read === null) return null;
  return {
    method: 'GET',
    path: read.path,
    query: read.query,
    host: read.authority ?? 'web',
    grpc: false,
    carries: 'nothing',
    header: (name) => headerValues(fields, name),
    oddNames: oddNamesOf(fields),
  };
}

/** How apps look a resource up, once their server has told them of a path; each may throw, and then serves nothing. */
const lookups: Readonly<Record<string, (path: string) => string>> = {
  'as told': (path) => path,
  'a file': (path) => posix.normalize(path),
  'a file, parameters cut': (path) => posix.normalize(path.replace(/;[^/]*/g, '')),
  'a file, decoded once more': (path) => posix.normalize(decodeURIComponent(path)),
};

/** Apps on Node that look at the target themselves. */
const nodeApps: Readonly<Record<string, (target: string) => string | null>> = {
  'url.parse': (target) => decodeURIComponent(parseUrl(target).pathname ?? ''),
  'url.parse, slashes denote a host': (target) => decodeURIComponent(parseUrl(target, false, true).pathname ?? ''),
  Express: (target) => decodeURIComponent(target.replace(/[?#].*$/s, '')).replace(/\/$/, ''),
  URL: (target) => decodeURIComponent(new URL(target, 'http://base').pathname),
  'URL, undecoded': (target) => new URL(target, 'http://base').pathname,
  'URL, by concatenation': (target) => new URL(`http://base${target}`).pathname,
  unescape: (target) => unescape(target.replace(/\?.*$/s, '')),
  'split after decoding': (target) => decodeURIComponent(target).replace(/[?#].*$/s, ''),
};

function segmentsOf(path: string): string[] {
  return path
    .toLowerCase()
    .split('/')
    .filter((segment) => segment !== '');
}

/** What is wrong with serving a path; null where nothing is. */
function breach(policy: Policy, path: string): string | null {
  for (const [name, lookup] of Object.entries(lookups)) {
    let resource: string;
    try {
      resource = lookup(path);
    } catch {
      continue;
    }
    const segments = segmentsOf(resource);
    if (!policy.serves(segments)) return `${JSON.stringify(resource)} (${name})`;
  }
  return null;
}

const counts = { attempts: 0, permitted: 0, served: 0 };

async function checkTargets(targets: readonly string[], thorough: boolean): Promise<void> {
  const passed: { target: string; policy: Policy }[] = [];
  for (const target of targets) {
    const facts = factsOf(target);
    for (const { authorizer, ...policy } of judges) {
      counts.attempts++;
      if (facts === null || authorizer.request(authorizer.port(8080), client, facts).kind !== 'permit') continue;
      passed.push({ target: facts.query === '' ? facts.path : `${facts.path}?${facts.query}`, policy });
      counts.permitted++;
    }
  }
  const byTarget = Map.groupBy(passed, ({ target }) => target);
  for (const [target, all] of byTarget) {
    for (const [name, app] of Object.entries(nodeApps)) {
      let path: string | null = null;
      try {
        path = app(target);
      } catch {
        // Served as an error.
      }
      if (path !== null) judge(all, path, target, `Node, ${name}`);
    }
  }
  const asked = servers.filter(({ name }) => thorough || !slow.has(name));
  await Promise.all(
    asked.map(async (server) => {
      for (const [target, all] of byTarget) {
        const head = `GET ${target} HTTP/1.1\r\nHost: web\r\nConnection: close\r\n\r\n`;
        const taken = await takenBy(server, [latin1(head)], { quietMs: 5_000 });
        for (const one of taken) {
          counts.served++;
          const path = pathOf(one);
          if (path !== null) judge(all, path, target, server.name);
        }
      }
    }),
  );
}

/** Servers without a language of their own do not escape what they tell; what cannot be decoded is told with its query. */
function pathOf({ method, target, path }: Taken): string | null {
  if (path === target && path !== '') return path.replace(/\?.*$/s, '');
  if (method !== '' || path !== '') return typeof path === 'string' ? path : null;
  return /"path":"(.*)","headers":/.exec(target)?.[1] ?? null;
}

function judge(all: readonly { readonly policy: Policy }[], path: string, target: string, by: string): void {
  for (const { policy } of all) {
    const wrong = breach(policy, path);
    if (wrong !== null) throw new Error(`${policy.name}: ${by} serves ${wrong} for ${JSON.stringify(target)}`);
  }
}

/** A character as somebody might spell it. */
function spelling(character: string): fc.Arbitrary<string> {
  const hex = character.charCodeAt(0).toString(16).padStart(2, '0');
  const code = character.charCodeAt(0);
  const overlong = [`%c${(0x80 | (code >> 6)) & 1}`, `%${(0x80 | (code & 0x3f)).toString(16)}`].join('');
  return fc.oneof(
    { weight: 12, arbitrary: fc.constant(character) },
    {
      weight: 3,
      arbitrary: fc.constantFrom(
        `%${hex}`,
        `%${hex.toUpperCase()}`,
        `%25${hex}`,
        `%%${[...hex].map((digit) => digit.charCodeAt(0).toString(16)).join('%')}`,
        character.toUpperCase(),
        `%u00${hex}`,
        overlong,
      ),
    },
  );
}

function spelled(text: string): fc.Arbitrary<string> {
  return fc.tuple(...[...text].map(spelling)).map((parts) => parts.join(''));
}

const word = fc.oneof(
  { weight: 4, arbitrary: spelled('admin') },
  { weight: 4, arbitrary: spelled('public') },
  { weight: 3, arbitrary: spelled('..') },
  { weight: 2, arbitrary: fc.constantFrom('x', '.', '', 'web', 'x:1', 'x@y', '...', 'admin.', 'admin%20', 'x%20') },
  {
    weight: 1,
    arbitrary: fc.constantFrom('\xc3\xa9', '%ef%bc%8e', '%uff0e%uff0e', 'adm\xc4\xb1n', '\xe9', '%E2%84%AA'),
  },
);
const suffix = fc.oneof(
  { weight: 6, arbitrary: fc.constant('') },
  {
    weight: 1,
    arbitrary: fc.constantFrom(';', ';x', ';a=b', '%3b', '%3bx', '%20', '.', '%2e', '?', '%3f', '%23', ',', '*'),
  },
);
const slash = fc.oneof(
  { weight: 8, arbitrary: fc.constant('/') },
  {
    weight: 2,
    arbitrary: fc.constantFrom('//', '\\', '/\\', '///', '/./', '/;/', '%2f', '%5c', '%252f', '%c0%af', '%u2215'),
  },
);
const query = fc.oneof(
  { weight: 4, arbitrary: fc.constant('') },
  { weight: 1, arbitrary: fc.constantFrom('?', '?a=1', '?/admin', '??', '?;/admin', '?x=/../admin', '?\\admin') },
);
const target = fc
  .tuple(
    fc.constantFrom('/', '/', '/', '//', '/\\', 'http://web/', 'http://web//', 'http://web', '///'),
    fc.array(fc.tuple(word, suffix, slash), { minLength: 1, maxLength: 5 }),
    word,
    suffix,
    query,
  )
  .map(
    ([start, parts, last, end, search]) => start + parts.map((part) => part.join('')).join('') + last + end + search,
  );

t.test('what is permitted is nowhere served as what is refused', async (t) => {
  // Known ways round, whatever the search finds today.
  const known = [
    '//host/admin',
    '///x/admin',
    '/\\x/admin',
    '/ADMIN',
    '/Admin/X/',
    '/%61dmin',
    '/public/..;/admin',
    '/x/',
  ];
  const escaped = [
    '/public%20',
    '/public%20/x',
    '/public%20/..%2fadmin',
    '/public%20/%2e%2e/x',
    '/admin%20/x',
    '/admin%2520/x',
  ];
  await checkTargets(
    [...known, ...escaped, '/public/x', '/public', '/other/./x', '/public//x', '/admin.', '/Admin/x/'],
    true,
  );
  let runs = 0;
  const found = await search(
    fc.asyncProperty(fc.array(target, { minLength: 12, maxLength: 12 }), (targets) =>
      checkTargets(targets, runs++ % 10 === 0),
    ),
    0.5,
  );
  t.equal(found, null);
  t.ok(counts.permitted > 0 && counts.served > 0, 'something was permitted, and served');
  t.comment(
    `${counts.attempts} decisions, ${counts.permitted} permits, ${counts.served} times served by ${servers.length}`,
  );
});

/** How apps on Node read a query; of a repeated name all values. Those of other languages are told by the policy's tests. */
const parsers: Readonly<Record<string, (query: string) => readonly (readonly [string, string])[]>> = {
  URLSearchParams: (query) => [...new URLSearchParams(query)],
  'URL, by concatenation': (query) => [...new URL(`http://base/?${query}`).searchParams],
  querystring: (query) => pairsOf(parseQuery(query)),
  'querystring, semicolons': (query) => pairsOf(parseQuery(query, ';')),
  'querystring, undecoded': (query) => pairsOf(parseQuery(query, '&', '=', { decodeURIComponent: (text) => text })),
  'split after decoding': (query) => pairsOf(parseQuery(query, '&', '=', { decodeURIComponent })),
  'names without case or brackets': (query) =>
    [...new URLSearchParams(query)].map(([name, value]) => [name.toLowerCase().replace(/\[.*$/s, ''), value]),
};

function pairsOf(parsed: ReturnType<typeof parseQuery>): [string, string][] {
  return Object.entries(parsed).flatMap(([name, values]) =>
    [values ?? ''].flat().map((value): [string, string] => [name, value]),
  );
}

const queries = load(
  `${serverDocument()}${route('all', '{path: {value: /}}')}${open('all')}${route('closed', '{queryParams: [{name: debug, value: "a b"}]}')}`,
);
const queryPart = fc.oneof(
  { weight: 6, arbitrary: spelled('debug') },
  { weight: 6, arbitrary: fc.constantFrom('=a+b', '=a%20b', '=a%2520b', '=a b', '=a%2Bb', '=A+b', '=') },
  {
    weight: 6,
    arbitrary: fc.constantFrom('&', ';', '?', '[]', '[x]', '%5b%5d', '.', '%26', '%3d', '%3b', '+', '%20', 'x=1'),
  },
);

t.test('no app reads a parameter from a query that policy did not', async (t) => {
  let permitted = 0;
  const found = await search(
    fc.property(fc.array(queryPart, { minLength: 1, maxLength: 6 }), (parts) => {
      const query = parts.join('');
      const facts = factsOf(`/?${query}`);
      const { authorizer } = queries;
      if (facts === null || authorizer.request(authorizer.port(8080), client, facts).kind !== 'permit') return;
      permitted++;
      for (const [name, parse] of Object.entries(parsers)) {
        let pairs: readonly (readonly [string, string])[] = [];
        try {
          pairs = parse(facts.query);
        } catch {
          // An error of the app's.
        }
        if (pairs.some(([key, value]) => key === 'debug' && value === 'a b')) throw new Error(`${name} reads ${query}`);
      }
    }),
    0.1,
  );
  t.equal(found, null);
  t.ok(permitted > 0, `${permitted} permits`);
});

const changes = { add: [], set: [['x-user', 'web']], remove: ['x-gone'] } as const;
const modifier = 'set: [{name: x-user, value: web}], remove: [x-gone]';
const headers = load(
  `${serverDocument()}${route('all', '{path: {value: /}}', `, filters: [{type: RequestHeaderModifier, requestHeaderModifier: {${modifier}}}]`)}${open('all')}${route('closed', '{headers: [{name: x-admin, value: "1"}]}')}`,
);

/** Names as near to each other as CGI and its kin find them. */
const fieldName = fc
  .tuple(
    fc.constantFrom('x-admin', 'x-user', 'x-gone', 'l5d-client-id', 'x-other'),
    fc.array(fc.tuple(fc.nat(12), fc.constantFrom(..."!#$%&'*+.^_`|~-aA0")), { maxLength: 2 }),
    fc.boolean(),
  )
  .map(([name, edits, upper]) => {
    let text: string = name;
    for (const [at, character] of edits) {
      const dash = text.indexOf('-', at);
      if (dash !== -1) text = text.slice(0, dash) + character + text.slice(dash + 1);
    }
    return upper ? text.replace(/^./, (first) => first.toUpperCase()) : text;
  });

const seenBy = ({ headers: pairs }: Taken, name: string): string[] =>
  pairs.filter(([field]) => field.replace(/[^a-z0-9]/g, '_') === name.replaceAll('-', '_')).map(([, value]) => value);

t.test('no app sees a header that policy looks at, writes or removes, but as policy saw it', async (t) => {
  let served = 0;
  const check = async (fields: readonly string[], thorough: boolean): Promise<void> => {
    const forward = fields.flatMap((name, i) =>
      i % 2 === 0 && !isIdentityAlias(name.toLowerCase()) ? [name, fields[i + 1] as string] : [],
    );
    const facts = factsOf('/', forward) as RequestFacts;
    if (headers.authorizer.request(headers.authorizer.port(8080), client, facts).kind !== 'permit') return;
    const sent = applyHeaderChanges(['Host', 'web', ...forward, 'Connection', 'close'], changes);
    let head = 'GET / HTTP/1.1\r\n';
    for (let i = 0; i < sent.length; i += 2) head += `${sent[i]}: ${sent[i + 1]}\r\n`;
    const asked = servers.filter(({ name }) => thorough || !slow.has(name));
    await Promise.all(
      asked.map(async (one) => {
        for (const taken of await takenBy(one, [latin1(`${head}\r\n`)], { quietMs: 5_000 })) {
          served++;
          // Servers without a language of their own tell of no headers.
          if (taken.headers.length === 0) continue;
          const told = JSON.stringify(fields);
          if (seenBy(taken, 'x-admin').includes('1')) throw new Error(`${one.name}: x-admin is 1 for ${told}`);
          if (seenBy(taken, 'x-user').join() !== 'web') throw new Error(`${one.name}: x-user is another for ${told}`);
          if (seenBy(taken, 'x-gone').length > 0) throw new Error(`${one.name}: x-gone came through for ${told}`);
          if (seenBy(taken, 'l5d-client-id').length > 0) throw new Error(`${one.name}: an identity for ${told}`);
        }
      }),
    );
  };
  for (const name of ['x-user', 'x-gone', 'x_other', 'l5d_client+id', 'x-Admin']) await check([name, '0'], true);
  let runs = 0;
  const field = fc.tuple(fieldName, fc.constantFrom('0', '1'));
  const found = await search(
    fc.asyncProperty(fc.array(field, { minLength: 1, maxLength: 4 }), (fields) =>
      check(fields.flat(), runs++ % 20 === 0),
    ),
    0.4,
  );
  t.equal(found, null);
  t.ok(served > 0, 'something was served');
  t.comment(`${runs} heads, ${served} times served`);
});
