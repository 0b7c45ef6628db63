/**
 * The house rules, as a test: which room may import from which. The values at the top of lib/ (an address, a client,
 * a resource's name, a problem, an identity) are everybody's; all else is a one-way street towards lib/app.ts.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { builtinModules } from 'node:module';
import { dirname, join, relative, resolve } from 'node:path';
import t from 'tap';
import type { RequestPermit } from '../lib/policy/decision.ts';
import type { Admitted, AdmittedNow, Refused } from '../lib/proxy/http/admitted.ts';
import type { RequestPipeline } from '../lib/proxy/http/request-pipeline.ts';
import type { RequestScope } from '../lib/proxy/recorder.ts';
import type { Upstreams } from '../lib/proxy/upstream/upstreams.ts';

const root = resolve(import.meta.dirname, '..');

interface Import {
  readonly from: string;
  readonly to: string;
  readonly typeOnly: boolean;
  /** `import('…')`: loaded when it is reached, or only a type. */
  readonly awaited: boolean;
}

interface Rule {
  readonly room: RegExp;
  /** Where the room's own imports may lead; anything else of ours is an error. */
  readonly may: readonly RegExp[];
  /** Packages and node: modules that the room may use; undefined: any. */
  readonly packages?: readonly string[];
  readonly why: string;
}

const values =
  /^lib\/(client|cpu-share|drained|errors\/[\w-]+|http-message|ip|memory-plan|moment|printable|problem|remembered|request-fields|request-target|resource-ref|certificate-names|identity-name|roster|system-answer|token-bucket)\.ts$/;

const plainValues =
  /^lib\/(client|errors\/[\w-]+|http-message|identity-name|ip|printable|problem|remembered|request-fields|request-target|resource-ref)\.ts$/;
const policyValues =
  /^lib\/policy\/(bytes|decision|identities|lists|nearest|networks|probes|refusals|regex|route-rule|rust-[a-z]+|selectors|workload)\.ts$/;

const http2Base = ['http2/hpack', 'http2/message', 'http2/session'];

/** The data plane sees policy only as a decision, and telemetry only as a recorder. Its rooms, each above those it may look into. */
const proxyRooms: Readonly<Record<string, { readonly below: readonly string[]; readonly why: string }>> = {
  fairness: { below: [], why: 'who gets how much, whatever it is spent on' },
  upstream: { below: ['fairness'], why: 'the one way to dial' },
  detect: { below: ['fairness'], why: 'bytes to a guess' },
  tls: { below: ['fairness', 'detect'], why: 'a handshake to a client' },
  tcp: { below: ['fairness', 'upstream', 'detect'], why: 'bytes without requests' },
  http: { below: ['fairness', 'upstream'], why: 'what both versions share, and neither of them' },
  http1: {
    below: ['fairness', 'upstream', 'http'],
    why: 'what both HTTP/1 lanes, and HTTP/2 towards an HTTP/1 app, share',
  },
  'http1/fast': {
    below: ['fairness', 'upstream', 'tcp', 'http', 'http1'],
    why: 'plain requests; nothing of the library lane',
  },
  'http1/library': {
    below: ['fairness', 'upstream', 'detect', 'tcp', 'http', 'http1'],
    why: 'undici and http-proxy; nothing of the fast lane',
  },
  http2: {
    below: [
      'fairness',
      'upstream',
      'http',
      'http1',
      'http2/message',
      'http2/session',
      'http2/client',
      'http2/app',
      'http2/relay',
    ],
    why: 'one engine, and none of the HTTP/1 lanes',
  },
  'http2/relay': {
    below: ['fairness', 'upstream', 'http', 'http1', ...http2Base, 'http2/client', 'http2/app'],
    why: "a client's stream and the app's: neither side knows who carries between them",
  },
  'http2/client': { below: ['fairness', 'http', ...http2Base], why: "the client's side knows nothing of the app's" },
  'http2/app': {
    below: ['fairness', 'upstream', 'http', ...http2Base],
    why: "the app's side knows nothing of the client's",
  },
  'http2/session': {
    below: ['fairness', 'http', 'http2/hpack', 'http2/message'],
    why: 'a connection, whichever side it is of',
  },
  'http2/message': { below: ['http', 'http2/hpack'], why: 'heads of both sides, without a connection' },
  'http2/hpack': { below: [], why: 'RFC 7541, nothing more' },
};

const policyAsSeen = /^lib\/policy\/(decision|refusals)\.ts$/;
const proxyBase =
  /^lib\/proxy\/(connection-facts|guard|incoming|kept|lent-data|limits|node-direct-writes|node-handles|node-intercept|node-internals|node-missing|node-streams|node-writes|recorder|resets|socket-calls|token)\.ts$/;
const inRoom = (room: string): RegExp => new RegExp(`^lib/proxy/${room}/[^/]+$`);

const dataPlane: readonly Rule[] = [
  {
    room: proxyBase,
    may: [proxyBase, values, policyAsSeen],
    why: 'what every room of the data plane stands on',
  },
  ...Object.entries(proxyRooms).map(([room, { below, why }]) => ({
    room: inRoom(room),
    may: [...[room, ...below].map(inRoom), proxyBase, values, policyAsSeen],
    why,
  })),
  {
    room: /^lib\/proxy\/(accept\/)?[^/]+$/,
    may: [/^lib\/proxy\/(?!http1\/|http2\/)/, /^lib\/proxy\/http[12]\/engine\.ts$/, values, policyAsSeen],
    why: 'a connection, from its door on: it knows engines by their interfaces alone',
  },
];

const rules: readonly Rule[] = [
  { room: /^lib\/errors\//, may: [/^lib\/errors\//], packages: [], why: 'the catalogue of errors knows nobody' },
  {
    room: plainValues,
    may: [plainValues],
    packages: ['ipaddr.js'],
    why: 'values know nobody',
  },
  {
    room: /^lib\/certificate-names\.ts$/,
    may: [/^lib\/(client|identity-name)\.ts$/],
    why: 'a certificate to the names in it, nothing more',
  },
  {
    room: policyValues,
    may: [policyValues, plainValues],
    packages: ['re2js', 'ipaddr.js'],
    why: 'what all rooms of the policy core speak of',
  },
  {
    room: /^lib\/policy\/documents\//,
    may: [/^lib\/policy\/documents\//, policyValues, plainValues],
    packages: ['zod'],
    why: 'decoded YAML to admitted documents: what they mean together, nobody here knows',
  },
  {
    room: /^lib\/policy\/decide\//,
    may: [/^lib\/policy\/decide\//, policyValues, plainValues],
    packages: [],
    why: 'an index and a question to a decision: documents are no more',
  },
  {
    room: /^lib\/policy\/compile\//,
    may: [/^lib\/policy\/(compile|documents|decide)\//, policyValues, plainValues],
    packages: [],
    why: 'documents to an index',
  },
  {
    room: /^lib\/policy\/[^/]+$/,
    may: [/^lib\/policy\//, plainValues],
    packages: ['zod'],
    why: "the core's doors; it knows no sockets, files, clocks, YAML or log",
  },
  {
    room: /^lib\/policy-test\//,
    may: [/^lib\/policy-test\//, /^lib\/policy\//, plainValues],
    packages: [],
    why: 'a test file, decoded, to questions, and answers to results: files, YAML and the environment are the command’s',
  },
  {
    room: /^lib\/analysis\//,
    may: [/^lib\/analysis\//, /^lib\/policy\//, plainValues],
    packages: [],
    why: 'all questions of a policy at once: it asks the core, and reads and prints nothing',
  },
  {
    room: /^lib\/review\//,
    may: [/^lib\/review\//, /^lib\/analysis\//, /^lib\/policy\//, plainValues],
    packages: [],
    why: 'documents to what is hardly meant in them: of the analysis it asks which rules requests find',
  },
  ...dataPlane,
  {
    room: /^lib\/shared\//,
    may: [
      /^lib\/shared\//,
      values,
      /^lib\/policy\/decide\/buckets\.ts$/,
      inRoom('fairness'),
      /^lib\/telemetry\/line-(gate|rules)\.ts$/,
    ],
    packages: [],
    why: 'what several threads share in memory: it keeps for the rooms that count, and only the root gives it to them',
  },
  {
    room: /^lib\/reload\//,
    may: [
      /^lib\/reload\//,
      values,
      /^lib\/policy\//,
      /^lib\/config\//,
      /^lib\/(yaml|regular-file|behind-traffic)\.ts$/,
    ],
    why: 'reloading feeds the policy core and knows nothing of the data plane',
  },
  {
    room: /^lib\/records\//,
    may: [/^lib\/records\//, plainValues, policyValues],
    packages: ['node:buffer', 'node:stream', 'node:zlib', 'node:crypto'],
    why: 'lines of logs to questions and what was decided, and back: it opens no files and decides nothing',
  },
  {
    room: /^lib\/replay\//,
    may: [
      /^lib\/replay\//,
      /^lib\/records\/(record|recent)\.ts$/,
      plainValues,
      policyValues,
      /^lib\/policy\/(carried|explain|documents\/types)\.ts$/,
    ],
    packages: ['node:crypto'],
    why: 'what was decided, held against a policy: values alone',
  },
  {
    room: /^lib\/suggest\//,
    may: [/^lib\/suggest\//, /^lib\/records\/record\.ts$/, /^lib\/replay\/answer\.ts$/, plainValues, policyValues],
    packages: ['yaml'],
    why: 'decisions of a log to a policy as text: it opens no files, and is given what reads and decides it',
  },
  {
    room: /^lib\/telemetry\//,
    may: [
      /^lib\/telemetry\//,
      values,
      /^lib\/records\/(record|hashed)\.ts$/,
      /^lib\/policy\/(bytes|decision|refusals)\.ts$/,
      /^lib\/proxy\/(recorder|limits|connection-facts)\.ts$/,
    ],
    why: 'telemetry is a leaf behind the recorder',
  },
  {
    room: /^lib\/redirect\//,
    may: [/^lib\/redirect\//, /^lib\/(ip|errors\/[\w-]+)\.ts$/, /^lib\/config\/values\.ts$/],
    packages: ['ipaddr.js', 'node:child_process', 'node:fs'],
    why: 'netfilter rules stand beside the proxy, not in it',
  },
  {
    room: /^lib\/deploy\/(?!image\/)/,
    may: [
      /^lib\/deploy\/(?!image\/)/,
      /^lib\/(problem|errors\/(complaint|problems))\.ts$/,
      /^lib\/policy\/(pod|probes|field-path|kubelet-path|workload-kinds|workload|nearest|documents\/read)\.ts$/,
      /^lib\/config\/(listeners|values|variables)\.ts$/,
      /^lib\/redirect\/exemptions\.ts$/,
      /^lib\/yaml\.ts$/,
    ],
    packages: ['yaml', 'zod', 'node:util'],
    why: 'YAML text in, YAML text out: no files, and of others only how a Pod, a variable and a flag of iptables are read',
  },
  {
    room: /^lib\/deploy\/image\//,
    may: [/^lib\/deploy\/image\//],
    packages: ['node:child_process', 'node:fs', 'node:path'],
    why: 'it makes the image, and runs before anything of ours is installed',
  },
  { room: /^lib\/ops\//, may: [/^lib\/ops\//, values], why: 'the admin and health servers get functions, not objects' },
  {
    room: /^lib\/config\//,
    may: [/^lib\/config\//, values, /^lib\/policy\//, /^lib\/(yaml|regular-file)\.ts$/],
    why: 'environment to values',
  },
  {
    room: /^lib\/yaml(\/.+)?\.ts$/,
    may: [/^lib\/yaml\//, /^lib\/(problem|errors\/problems)\.ts$/, /^lib\/policy\/documents\/read\.ts$/],
    packages: ['yaml', 'js-yaml', 'node:module'],
    why: 'text to values with their places, for policy files and the Pod manifest alike',
  },
  { room: /^lib\/regular-file\.ts$/, may: [], packages: ['node:fs'], why: 'a path to bytes, nothing more' },
  {
    room: /^lib\/behind-traffic\.ts$/,
    may: [],
    packages: ['node:fs', 'node:os'],
    why: 'threads of this process and their priority, nothing more',
  },
  { room: /^certs\//, may: [/^certs\//, values], why: 'the development CA stands alone' },
  { room: /^lib\/app(\/.+)?\.ts$/, may: [/^lib\/(?!app\.ts)/], why: 'the composition root joins all rooms' },
  { room: /^bin\//, may: [/^bin\//, /^lib\/(?!app\/)/, /^certs\//], why: 'the doors' },
];

/** Only these may see the composition root. */
const mayImportApp = /^(bin|test|benchmarks)\//;

function typescriptIn(folder: string): string[] {
  return readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts'))
    .map((name) => join(folder, name));
}

const files = ['lib', 'bin', 'certs'].flatMap(typescriptIn);

const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));

/** All ways to another file or package: declarations, also those without names, and what is asked for while it runs. */
const ways =
  /(?:^|\n)(?:import|export)\s+(?<type>type\s)?[^'"`;]*?from\s+'(?<from>[^']+)'|(?:^|\n)import\s+'(?<bare>[^']+)'|(?:\bimport\(|\brequire\(|\(import\.meta\.url\)\(|\bgetBuiltinModule\()\s*['"`](?<asked>[^'"`]+)['"`]/g;

function importsIn(from: string, source: string): Import[] {
  return [...source.matchAll(ways)].map(({ groups = {} }) => {
    const specifier = (groups.from ?? groups.bare ?? groups.asked) as string;
    const to = specifier.startsWith('.') ? relative(root, resolve(root, dirname(from), specifier)) : specifier;
    return { from, to, typeOnly: groups.type !== undefined, awaited: groups.asked !== undefined };
  });
}

const imports = files.flatMap((file) => importsIn(file, readFileSync(join(root, file), 'utf8')));

t.test('imports are seen however they are written', async (t) => {
  const rows: readonly (readonly [source: string, to: readonly string[]])[] = [
    ["import { a } from './b.ts';", ['lib/x/b.ts']],
    ["import a, {\n  b,\n} from '../b.ts';\nexport * from 'c';", ['lib/b.ts', 'c']],
    ["import type { A } from './b.ts';", ['lib/x/b.ts']],
    ["export type { A } from './b.ts';", ['lib/x/b.ts']],
    ["import './b.ts';", ['lib/x/b.ts']],
    ["const b = await import('./b.ts');", ['lib/x/b.ts']],
    ['const b = await import(`./b.ts`);', ['lib/x/b.ts']],
    ["type B = import('./b.ts').B;", ['lib/x/b.ts']],
    ["require('undici')", ['undici']],
    ["createRequire(import.meta.url)('koffi')", ['koffi']],
    ["process.getBuiltinModule('node:fs')", ['node:fs']],
    ["const imported = 'x';", []],
  ];
  for (const [source, to] of rows) {
    t.same(
      importsIn('lib/x/y.ts', source).map((found) => found.to),
      to,
      source,
    );
  }
});

t.test('every import leads where its room may look', async (t) => {
  t.ok(imports.length > 100, 'imports are found at all');
  for (const { from, to } of imports) {
    const rule = rules.find(({ room }) => room.test(from));
    if (rule === undefined) {
      t.fail(`${from} belongs to no room`);
      continue;
    }
    const ours = /^(lib|bin|certs|test|benchmarks)\//.test(to);
    if (ours) {
      t.ok(
        rule.may.some((target) => target.test(to)),
        `${from} → ${to}: ${rule.why}`,
      );
    } else if (rule.packages !== undefined) {
      t.ok(rule.packages.includes(to), `${from} → ${to}: ${rule.why}`);
    }
  }
});

t.test('only doors, tests and benchmarks see the composition root', async (t) => {
  for (const { from, to } of imports) {
    if (to === 'lib/app.ts') t.match(from, mayImportApp);
    if (/^lib\/app\//.test(to)) t.match(from, /^lib\/app[./]/, `${from} → ${to}: parts of the root`);
  }
});

t.test('files are followed by one loop', async (t) => {
  const only: readonly (readonly [what: string, by: string])[] = [
    ['chokidar', 'lib/reload/watch.ts'],
    ['lib/reload/watch.ts', 'lib/reload/world.ts'],
    ['lib/reload/settling.ts', 'lib/reload/reloader.ts'],
  ];
  for (const [what, by] of only) {
    const users = imports.filter(({ to, typeOnly }) => to === what && !typeOnly).map(({ from }) => from);
    t.same(users, [by], `${what} is for ${by} alone`);
  }
});

t.test('a running sidecar loads what is large only when something needs it', async (t) => {
  const large = ['zod', 'yaml', 'js-yaml', 'undici', 'node-forge', 'http-proxy', 'prom-client'];
  for (const name of large) t.ok(name in manifest.dependencies, `${name} is still what it is called`);
  const seen = new Set<string>();
  const visit = (file: string): void => {
    if (seen.has(file)) return;
    seen.add(file);
    for (const { from, to, typeOnly, awaited } of imports) {
      if (from !== file || typeOnly || awaited) continue;
      t.notOk(large.includes(to), `${from} → ${to}: megabytes that most sidecars never use`);
      if (to.endsWith('.ts')) visit(to);
    }
  };
  visit('bin/run.ts');
  for (const file of seen)
    t.notMatch(file, /^lib\/errors\/.*(problems|faults)/, 'the codes are types: no text is loaded for them');
  t.ok(seen.has('lib/policy/compile/compile.ts'), 'the modules of the proxy are found');
});

/** The ways from a file back to itself, one for each circle that a walk over all imports meets. */
function circlesOf(edges: ReadonlyMap<string, readonly string[]>): string[] {
  const found: string[] = [];
  const done = new Set<string>();
  const visit = (file: string, path: readonly string[]): void => {
    if (path.includes(file)) {
      found.push([...path.slice(path.indexOf(file)), file].join(' → '));
      return;
    }
    if (done.has(file)) return;
    for (const next of edges.get(file) ?? []) visit(next, [...path, file]);
    done.add(file);
  };
  for (const file of edges.keys()) visit(file, []);
  return found;
}

t.test('no circles among files, not even of types', async (t) => {
  const rows: readonly (readonly [name: string, edges: Record<string, string[]>, circles: string[]])[] = [
    ['none', { a: ['b', 'c'], b: ['c'], c: [] }, []],
    ['of one', { a: ['a'] }, ['a → a']],
    ['of three, behind another', { a: ['b'], b: ['c'], c: ['d'], d: ['b'] }, ['b → c → d → b']],
    ['two', { a: ['b'], b: ['a', 'c'], c: ['d'], d: ['c'] }, ['a → b → a', 'c → d → c']],
  ];
  for (const [name, edges, circles] of rows) t.same(circlesOf(new Map(Object.entries(edges))), circles, name);
  const edges = new Map(files.map((file): [string, string[]] => [file, []]));
  for (const { from, to } of imports) if (to.endsWith('.ts')) edges.get(from)?.push(to);
  t.same(circlesOf(edges), []);
});

const mostLines = 400;

/** Tests longer than a file should be, each with why it is one file. In lib, bin and certs there is no exception. */
const longTests: ReadonlyMap<string, string> = new Map([
  ['test/architecture.test.ts', 'the rules of the house, to be found in one place'],
  ['test/e2e/hardening/limits.test.ts', 'the limits, in the order of the table of lib/ops/README.md'],
  ['test/fuzz/http2-app-answers.test.ts', 'a search, and the app, the two proxies and the client that it needs'],
  ['test/fuzz/http2-conversation.ts', 'one generator: each part of a conversation refers to the others'],
  ['test/fuzz/http2-flow.test.ts', 'a search, and the app and the client that it needs'],
  ['test/fuzz/http2-lanes.test.ts', 'a search, and the conversations that were found by it'],
  ['test/fuzz/readings.test.ts', 'one search before 24 servers, with what each of them does of its own'],
  ['test/soak/clients.ts', 'a table of clients'],
  ['test/unit/policy/decide/network-policy.test.ts', 'tables of one kind of document'],
  ['test/unit/policy/decide/route-match.test.ts', 'tables of one question'],
  ['test/unit/policy/documents/read.test.ts', 'tables of what is refused, by kind'],
  ['test/unit/policy/documents/stand-ins.test.ts', 'a table of refused documents'],
  ['test/unit/proxy/http2/client/http2-limits.test.ts', 'attacks on one server, with what they are made of'],
  ['test/unit/proxy/http2/client/http2-server.test.ts', 'the rules of RFC 9113, in its order'],
  ['test/unit/proxy/http2/relay/http2-app.test.ts', 'one app that plays all parts of RFC 9113'],
  ['test/unit/proxy/http2/relay/http2-to-http1-app.test.ts', 'one app that plays all parts of RFC 9112'],
  ['test/unit/reload/credential-source.test.ts', 'the states of one source'],
  ['test/unit/reload/policy-source.test.ts', 'the states of one source'],
  ['test/unit/reload/reloader.test.ts', 'the states of one loop'],
  ['test/unit/telemetry/metrics.test.ts', 'the metrics, in the order of the table of lib/telemetry/README.md'],
]);

/** Tests with a function longer than 80 lines, each with why. Biome measures functions, and these are its exceptions. */
const longFunctions: ReadonlyMap<string, string> = new Map([
  ['test/e2e/emoji-voting-shop.test.ts', 'a story told in one go'],
  ['test/e2e/hardening/header-values.test.ts', 'a table within the test'],
  ['test/e2e/metrics-as-linkerd.test.ts', 'a story told in one go'],
  ['test/e2e/metrics-of-traffic.test.ts', 'a story told in one go'],
  ['test/e2e/pod-scrapes-itself.test.ts', 'a story told in one go'],
  ['test/fuzz/http2-app-answers.test.ts', 'an app, whose parts share a script'],
  ['test/fuzz/http2-apps.ts', 'an app, whose parts share a script'],
  ['test/fuzz/http2-flow.test.ts', 'an app and a client, whose parts share their counts'],
  ['test/fuzz/reloads.test.ts', 'writers and readers of one folder'],
  ['test/soak/soak.test.ts', 'a story told in one go'],
  ['test/unit/bin/check.test.ts', 'a table within the test'],
  ['test/unit/ops/admin-app.test.ts', 'a table within the test'],
  ['test/unit/policy/compile/compile.test.ts', 'a table within the test'],
  ['test/unit/policy/decide/network-policy.test.ts', 'a table within the test'],
  ['test/unit/policy/documents/read.test.ts', 'a table within the test'],
  ['test/unit/policy/documents/stand-ins.test.ts', 'a table within the test'],
  ['test/unit/proxy/http1/plain-response.test.ts', 'a table within the test'],
]);

t.test('no file is too long, and no function', async (t) => {
  const all = [...files, ...['test', 'benchmarks'].flatMap(typescriptIn)];
  t.ok(all.length > 500, 'files are found at all');
  for (const file of all) {
    const lines = readFileSync(join(root, file), 'utf8').split('\n').length - 1;
    if (!longTests.has(file)) t.ok(lines <= mostLines, `${file} has ${lines} lines; divide it (at most ${mostLines})`);
    else t.ok(lines > mostLines, `${file} has ${lines} lines: it needs no exception any more; take it off the list`);
  }
  for (const file of [...longTests.keys(), ...longFunctions.keys()]) {
    t.ok(all.includes(file), `${file}, an exception, is there`);
    t.match(file, /^test\//, `${file}: exceptions are for tests`);
  }
  const { linter, overrides } = JSON.parse(readFileSync(join(root, '.biome.json'), 'utf8'));
  const rule = { level: 'error', options: { maxLines: 80 } };
  t.same(linter.rules.complexity.noExcessiveLinesPerFunction, rule, 'functions are measured');
  const off = { rules: { complexity: { noExcessiveLinesPerFunction: 'off' } } };
  const seeded = {
    level: 'error',
    options: { paths: { 'fast-check': 'test/support/properties.ts seeds it: import that.' } },
  };
  const expected = [
    {
      includes: ['test/unit/**', 'test/e2e/**', 'test/cases/**'],
      linter: { rules: { style: { noRestrictedImports: seeded } } },
    },
    { includes: [...longFunctions.keys()], linter: off },
  ];
  t.same(overrides, expected, 'but in the tests that are named');
});

/**
 * Where bytes enter the data plane, in how many places of a file, and the file by which these take turns. Work in proportion
 * to what has come is asked for there (lib/proxy/fairness/turn.ts), so that nobody's large read holds up the others.
 */
const readers: ReadonlyMap<string, readonly [places: number, turns: string]> = new Map([
  // What had to wait for its turn is read again.
  ['lib/proxy/detect/peek.ts', [3, 'lib/proxy/detect/peek.ts']],
  ['lib/proxy/http1/fast/client-events.ts', [1, 'lib/proxy/http1/fast/client-connection.ts']],
  // For the one that it is told of, which takes the turns; the same as that one's `data`.
  ['lib/proxy/lent-data.ts', [1, 'lib/proxy/http1/fast/client-connection.ts']],
  ['lib/proxy/http1/library/sliced-feed.ts', [1, 'lib/proxy/http1/library/sliced-feed.ts']],
  ['lib/proxy/http2/client/client-session.ts', [1, 'lib/proxy/http2/session/intake.ts']],
  ['lib/proxy/tcp/forward.ts', [1, 'lib/proxy/tcp/lent-reads.ts']],
  ['lib/proxy/tcp/guarded-opening.ts', [1, 'lib/proxy/tcp/lent-reads.ts']],
  ['lib/proxy/http/last-bytes.ts', [1, 'lib/proxy/http/last-bytes.ts']],
  // What Node's parser or the session has handed on of that.
  ['lib/proxy/http/application.ts', [1, 'lib/proxy/http1/library/sliced-feed.ts']],
  ['lib/proxy/http1/library/exchange.ts', [2, 'lib/proxy/http1/library/sliced-feed.ts']],
  ['lib/proxy/http1/library/app-sender.ts', [1, 'lib/proxy/http1/library/sliced-feed.ts']],
  ['lib/proxy/http1/library/forward.ts', [1, 'lib/proxy/http1/library/sliced-feed.ts']],
  // From the app.
  ['lib/proxy/http1/app-pool.ts', [1, 'lib/proxy/http1/app-connection.ts']],
  ['lib/proxy/tcp/lent-reads.ts', [2, 'lib/proxy/tcp/lent-reads.ts']],
  ['lib/proxy/http2/app/session-attempt.ts', [1, 'lib/proxy/http2/app/session-attempt.ts']],
  ['lib/proxy/http1/library/upgrade.ts', [1, 'none: the answer of an app that declines an upgrade']],
  ['lib/proxy/http/tls-application.ts', [1, 'none: the answer of an app to a probe, at most 64 KiB']],
]);

t.test('what reads a socket takes turns', async (t) => {
  const reads =
    /\.(?:on|once|addListener)\(\s*'(?:data|readable)'|\.pipe\(|\(length: number\): boolean => \{|\(this: \w+, length: number\): boolean \{|\.read\(\)/g;
  for (const file of files.filter((name) => name.startsWith('lib/proxy/'))) {
    const places = [...readFileSync(join(root, file), 'utf8').matchAll(reads)].length;
    const [known, turns] = readers.get(file) ?? [0, ''];
    t.equal(places, known, `${file} reads in ${places} places: say by what these take turns`);
    if (known === 0 || turns.startsWith('none: ')) continue;
    t.ok(
      imports.some(({ from, to, typeOnly }) => from === turns && to === 'lib/proxy/fairness/turn.ts' && !typeOnly),
      `${file} takes turns by ${turns}`,
    );
  }
  for (const file of readers.keys()) t.ok(files.includes(file), `${file} is there`);
});

/** A step that decides who is let in, or what the app is told: how it is written, and the places where it may be. */
interface Step {
  readonly step: string;
  readonly written: RegExp;
  /** Files under lib, each with how many places of it. */
  readonly places: Readonly<Record<string, number>>;
  /** Sources that are such a step, and others that are none. */
  readonly examples: { readonly is: readonly string[]; readonly isNot: readonly string[] };
}

const steps: readonly Step[] = [
  {
    step: 'a request is admitted',
    written: /\bas (?:Readonly<)?(?:Admitted|AdmittedNow|AdmittedRequest|Permission)\b/g,
    // By a decision of this turn, and by one of before that the policy in force has made.
    places: { 'lib/proxy/http/request-pipeline.ts': 2 },
    examples: {
      is: [
        'return { kind } as Admitted;',
        'before as AdmittedNow',
        'x as unknown as Permission',
        '{} as AdmittedRequest',
      ],
      isNot: ['as Admission', 'stream.admitted = admitted;'],
    },
  },
  {
    step: 'policy permits',
    written: /\bas (?:Readonly<)?(?:ConnectionPermit|RequestPermit)\b/g,
    places: { 'lib/policy/decide/decide.ts': 2 },
    examples: { is: ['{} as RequestPermit', 'x as unknown as ConnectionPermit'], isNot: ['permit: RequestPermit'] },
  },
  {
    step: 'evidence is passed over',
    written: /\bas (?:never|any)\b|<any>|@ts-(?:ignore|expect-error|nocheck)/g,
    places: {
      // A text, to be looked for among others.
      'lib/deploy/conflicts.ts': 1,
    },
    examples: {
      is: ['begin({} as never)', 'pool.connect(x as any)', '// @ts-ignore'],
      isNot: ['as nevertheless'],
    },
  },
  {
    step: 'the app is told who the client is',
    written: /\bidentityHeader\b(?!\.length)(?! =)|l5d-client-id/gi,
    places: {
      // The one that tells: an import, a list, a text.
      'lib/proxy/http/outgoing-fields.ts': 3,
      // Its name, and that no route changes it.
      'lib/proxy/http/headers.ts': 2,
      'lib/request-fields.ts': 1,
      // What rules ask for, never what the app gets.
      'lib/policy/decide/route-entries.ts': 1,
      'lib/policy/decide/value-match.ts': 1,
      'lib/analysis/tests.ts': 1,
    },
    examples: {
      is: ["headers.push('l5d-client-id', id)", '[...lines, identityHeader, id]'],
      isNot: ['name.length === identityHeader.length', 'isIdentityAlias(name)'],
    },
  },
  {
    step: 'what goes to the app is made of what came',
    written: /\boutgoing(?:Fields|Lines)\(/g,
    places: {
      // The two forms of it, and one made of the other.
      'lib/proxy/http/outgoing-fields.ts': 3,
      // Each way there asks for it once.
      'lib/proxy/http1/fast/plain-request.ts': 1,
      'lib/proxy/http1/library/serve.ts': 1,
      'lib/proxy/http1/library/upgrade.ts': 1,
      // To HTTP/2; and as HTTP/1 has it, for applications in this process, too.
      'lib/proxy/http2/lane.ts': 2,
    },
    examples: {
      is: ['outgoingFields(client, admitted, fields)', 'const lines = outgoingLines(client, admitted, lines);'],
      isNot: ["import { outgoingFields } from './outgoing-fields.ts';"],
    },
  },
  {
    step: 'it is known which methods do no harm twice',
    written: /\bidempotent\b|\bmay(?:Repeat|Retry)\b/gi,
    places: { 'lib/proxy/http/retry.ts': 2 },
    examples: {
      is: ['idempotent.has(method)', 'this.#mayRepeat'],
      isNot: ['maySendAgain'],
    },
  },
  {
    step: 'a request is sent again',
    written: /\bmaySendAgain\(|retryHandler|RetryAgent|interceptors\.retry/g,
    places: {
      'lib/proxy/http/retry.ts': 1,
      // Whether it may leave on a connection whose end may have come.
      'lib/proxy/http1/app-pool.ts': 1,
      'lib/proxy/http1/fast/request.ts': 1,
      'lib/proxy/http1/library/forward.ts': 1,
      'lib/proxy/http2/relay/relay.ts': 1,
    },
    examples: { is: ["if (maySendAgain(request, 'idle'))"], isNot: ['import { maySendAgain }'] },
  },
  {
    step: 'a socket is dialled',
    written:
      /\b(?:net|tls|http2)\.(?:connect|createConnection)\(|\bnew (?:net\.|tls\.)?(?:Socket|TLSSocket)\(|socket\.connect\(|import \{(?:[^}]*[ ,])?(?:connect|createConnection)\b[^}]*\} from 'node:(?:net|tls|http2)'/g,
    places: {
      'lib/proxy/upstream/upstreams.ts': 2,
      // TLS on a socket that was dialled there.
      'lib/proxy/http/tls-application.ts': 1,
      // And on one that was accepted.
      'lib/proxy/tls/handshake.ts': 1,
      // One that another worker has accepted.
      'lib/proxy/accept/doors.ts': 1,
      // One that is closed, for who asks too late.
      'lib/proxy/incoming.ts': 1,
      // A handle to look at, which ends before its connect begins.
      'lib/proxy/node-internals.ts': 1,
      // A socket to look at, which is never connected.
      'lib/proxy/node-streams.ts': 1,
      // The rehearsal's clients: its own door, with TLS and without.
      'lib/app/rehearsal.ts': 2,
    },
    examples: {
      is: [
        "net.connect(1, 'a')",
        'new Socket({ fd })',
        'new net.Socket()',
        'socket.connect({ host })',
        'http2.connect(x)',
        "import { type Socket, connect } from 'node:net';",
      ],
      isNot: ['upstreams.connect(permit, endpoint)', 'net.createServer()'],
    },
  },
  {
    step: 'a connection is closed without waiting for what its client still sends',
    written: /\bdestroySoon\b|connection: close\\r\\n\\r\\n/g,
    places: {
      // The one that waits; and behind the last response to a client that has said it sends no more.
      'lib/proxy/http/last-bytes.ts': 2,
      // After nothing that anybody would read: an idle connection, a client that has ended its side or said it sends no more.
      'lib/proxy/http1/fast/client-connection.ts': 4,
      'lib/proxy/recognize.ts': 1,
      'lib/proxy/http2/client/client-session.ts': 1,
      // The head of a response from the app that is the last one; its end is `finished`.
      'lib/proxy/http1/fast/request.ts': 1,
      // Means the one that waits: node-internals.ts makes it so.
      'lib/proxy/node-internals.ts': 1,
      'lib/proxy/http1/library/lane.ts': 1,
      'lib/proxy/http1/library/client-connection.ts': 1,
      'lib/proxy/http1/library/exchange.ts': 2,
    },
    examples: { is: ['socket.destroySoon();'], isNot: ['socket.destroy();'] },
  },
  {
    step: 'a library is asked for a connection to the app',
    written:
      /\bhttps?\.(?:request|get)\(|\bnew (?:Pool|Client|Agent|ProxyAgent)\(|\bfetch\(|\.ws\(|\.web\(|import \{(?:[^}]*[ ,](?<!type ))?(?:request|get|Agent)\b[^}]*\} from 'node:https?'/g,
    places: {
      // Each is given its sockets: by `connect`, or by an agent, of library-upstreams.ts.
      'lib/proxy/http1/library/library-upstreams.ts': 1,
      'lib/proxy/http1/library/upgrade.ts': 1,
      // On that TLS socket.
      'lib/proxy/http/tls-application.ts': 1,
    },
    examples: {
      is: [
        'new Pool(origin)',
        'http.request({})',
        'fetch(url)',
        'proxy.ws(a, b)',
        "import { request } from 'node:http';",
      ],
      isNot: ['prefetch()', "import type { Agent } from 'node:http';"],
    },
  },
];

/** Without comments. */
const codeOf = (source: string): string => source.replace(/^\s*(?:\/\/(?! @ts-)|\/?\*).*$/gm, '');
const count = (source: string, written: RegExp): number => [...codeOf(source).matchAll(written)].length;

t.test('each step that decides has its places, and no others', async (t) => {
  for (const { step, written, places, examples } of steps) {
    for (const source of examples.is) t.equal(count(source, written), 1, `${step}: ${source}`);
    for (const source of examples.isNot) t.equal(count(source, written), 0, `${step}: not by ${source}`);
    for (const file of files.filter((name) => name.startsWith('lib/'))) {
      t.equal(count(readFileSync(join(root, file), 'utf8'), written), places[file] ?? 0, `${file}: ${step}`);
    }
    for (const file of Object.keys(places)) t.ok(files.includes(file), `${file} is there`);
  }
});

/**
 * Whatever dials, or begins something with the app, asks for the evidence that it may. Those that a lane calls with less
 * do not compile: the types are nobody's to make (see `steps`), and tsc reads what stands below each `@ts-expect-error`.
 */
const askers: readonly (readonly [file: string, signature: RegExp])[] = [
  ['lib/proxy/upstream/upstreams.ts', /\n {2}connect\(\s*_permission: Permission,/],
  ['lib/proxy/http1/app-pool.ts', /\n {2}connect\(admitted: Admitted,/],
  ['lib/proxy/http1/app-pool.ts', /\n {2}take\(_admitted: Admitted,/],
  ['lib/proxy/http1/app-connection.ts', /\n {2}begin\(admitted: AdmittedNow,[^}]*?mustBeCurrent\(admitted\);/],
  ['lib/proxy/http2/app/waiting-requests.ts', /interface Waiting [^}]*readonly admitted: Admitted;/],
  ['lib/proxy/http2/app/session-attempt.ts', /type Audience = [\s\S]*?& \{\s*readonly admitted: Admitted;/],
  ['lib/proxy/http2/app/app-session.ts', /\n {2}request\(\s*admitted: AdmittedNow,[^}]*?mustBeCurrent\(admitted\);/],
  ['lib/proxy/http1/library/undici-pool.ts', /\n {2}sender\(admitted: Admitted\)/],
  ['lib/proxy/http1/library/undici-pool.ts', /type MayLeave = \(\) => AdmittedNow \| null;/],
  ['lib/proxy/http1/library/undici-pool.ts', /interface Sender \{\s*dispatch\([^)]*, mayLeave: MayLeave\): boolean;/],
  ['lib/proxy/http1/library/undici-pool.ts', /const admitted = mayLeave\(\);[^}]*?mustBeCurrent\(admitted\);/],
  ['lib/proxy/http1/library/library-upstreams.ts', /\n {2}pool\(admitted: Admitted,/],
  ['lib/proxy/http1/library/library-upstreams.ts', /\n {2}connect\(admitted: Admitted,/],
  [
    'lib/proxy/http1/library/library-upstreams.ts',
    /\n {2}agent\(admitted: AdmittedNow,[^}]*?mustBeCurrent\(admitted\);/,
  ],
  ['lib/proxy/http1/library/forward.ts', /function forwardHttp1\(\s*admitted: Admitted,/],
  ['lib/proxy/http/application.ts', /function serveApplication\(\s*admitted: AdmittedNow,/],
  ['lib/proxy/http/application.ts', /\n {2}handle\(request: ApplicationRequest, admitted: AdmittedNow\)/],
  ['lib/proxy/http/tls-application.ts', /\n {2}#send\(secured: TLSSocket, _admitted: AdmittedNow\)/],
  ['lib/proxy/http/outgoing-fields.ts', /function outgoingFields\(client: Client, \{ permit \}: Admitted,/],
  ['lib/proxy/http/outgoing-fields.ts', /function outgoingLines\(client: Client, admitted: Admitted,/],
  ['lib/proxy/tcp/forward.ts', /function forwardTcp\(\s*permit: ConnectionPermit,/],
];

/** What a lane could make by itself, and why that is no evidence. Compiled, never run. */
export function notEvidence(
  upstreams: Upstreams,
  permit: RequestPermit,
  refused: Refused,
  maybe: ReturnType<RequestPipeline['admit']>,
): void {
  const { policy } = refused;
  const scope = {} as RequestScope;
  const endpoint = { host: '', port: 0 };
  const done = (): void => {};
  // @ts-expect-error: permitted by policy, and by nobody else.
  const made: Admitted = { kind: 'admitted', policy, permit, scope, isCurrent: true };
  // @ts-expect-error: it may have waited since.
  const late: AdmittedNow = made;
  // @ts-expect-error: nobody has asked whether it was refused.
  upstreams.connect(maybe, endpoint, '', done);
  // @ts-expect-error: refused.
  upstreams.connect(refused, endpoint, '', done);
  // @ts-expect-error: a request's permit is no connection's.
  upstreams.connect(permit, endpoint, '', done);
  // @ts-expect-error: nothing at all.
  upstreams.connect(null, endpoint, '', done);
  upstreams.connect(made, endpoint, '', done);
  upstreams.connect(late, endpoint, '', done);
}

t.test('nothing is sent, and nothing dialled, without evidence', async (t) => {
  for (const [file, signature] of askers) {
    t.match(readFileSync(join(root, file), 'utf8'), signature, `${file} asks for it`);
  }
});

/** What takes an error and does nothing with it: an empty `catch`, an empty listener, an empty handler of a rejection. */
const swallows = [
  /catch\s*(?:\(\w+\)\s*)?\{(?<reason>[^}]*)\}/g,
  /\.(?:on|once|addListener)\('[\w-]*[eE]rror', (?:\(\w*\)|\w+) => \{(?<reason>[^}]*)\}/g,
  /\.catch\(\(\w*\) => (?:\{(?<reason>[^}]*)\}|undefined|null)\)/g,
  /\.then\([^;]*, (?:\(\w*\)) => \{(?<reason>[^}]*)\}\)/g,
];

/** A comment that stands alone on its line. */
const isComment = (line: string | undefined): boolean => /^\s*(\/\/|\*)/.test(line ?? '');

/** Where a file swallows errors and gives no reason for it. */
function silences(source: string): string[] {
  return swallows.flatMap((pattern) =>
    [...source.matchAll(pattern)].flatMap((match) => {
      const body = (match.groups?.reason ?? '').trim();
      if (body.split('\n').some((line) => !isComment(line) && line.trim() !== '')) return [];
      const before = source.slice(0, match.index).split('\n');
      if (body !== '' || isComment(before.at(-2))) return [];
      return [`line ${before.length}: ${match[0]}`];
    }),
  );
}

t.test('no error is swallowed without a reason', async (t) => {
  const rows: readonly (readonly [source: string, found: number])[] = [
    ['try { x(); } catch {}', 1],
    ['try { x(); } catch (e) { }', 1],
    ['try {\n  x();\n} catch {\n  // The reader went away.\n}', 0],
    ['try {\n  x();\n} catch {\n  return none;\n}', 0],
    ["socket.on('error', () => {});", 1],
    ["socket.once('error', (error) => {});", 1],
    ["server.on('clientError', _error => {});", 1],
    ["// 'close' follows.\nsocket.on('error', () => {});", 0],
    ["socket.on('error', () => socket.destroy());", 0],
    ['work().catch(() => {});', 1],
    ['work().catch(() => undefined);', 1],
    ['// Told elsewhere.\nwork().catch(() => {});', 0],
    ['work().catch(report);', 0],
    ['work().then(done, () => {});', 1],
    ['', 0],
  ];
  for (const [source, found] of rows) t.equal(silences(source).length, found, source);
  for (const file of files) t.same(silences(readFileSync(join(root, file), 'utf8')), [], file);
});

/**
 * A function that is written where it is assigned to a property. V8 makes it among the old objects, so that what it refers to
 * outlives its request until all garbage is collected. Given a name first, and as the field of a class, it dies young.
 */
const assigned = /(?<!: \w+)\.#?\w+ (?:\?\?)?= (?:\(+)?(?:async )?(?:function\b|(?:\([^()]*\)|\w+)(?:: [^=\n]+)? =>)/g;

t.test('no function of the data plane is made among the old objects', async (t) => {
  const rows: readonly (readonly [source: string, found: number])[] = [
    ['exchange.onOver = () => this.#over(served);', 1],
    ['this.#exchange.onAborted = (): void => {', 1],
    ['socket.write = ((data: string, ...rest: []) => {', 1],
    ['each.run = async (x) => x;', 1],
    ['this.#run ??= x => x;', 1],
    ['each.run = function () {};', 1],
    ['const over = () => this.#over(served);\nexchange.onOver = over;', 0],
    ['  readonly #onData = (chunk: Buffer): void => {', 0],
    ['const result = list.find((x) => x);', 0],
    ['this.#last = list.map((x) => x);', 0],
    ['const lookup: net.LookupFunction = (host) => {', 0],
    ['if (a.size >= (b) => c)', 0],
  ];
  const among = (source: string): string[] => source.match(assigned) ?? [];
  for (const [source, found] of rows) t.equal(among(source).length, found, source);
  const hot = files.filter((file) => /^lib\/(proxy|telemetry|policy\/decide)\//.test(file));
  for (const file of hot) t.same(among(readFileSync(join(root, file), 'utf8')), [], file);
});

/** What reaches for Node's own: underscored properties, symbols of others, bindings, files inside a package. */
const internals =
  /(?<=[\w)\]]\??)\.\s*_[a-z]\w*|[{,]\s*_handle\b|\b_handle\s*[:?]|\bprocess\.binding\b|getOwnPropertySymbols|(?:assign|detach)Socket|shouldKeepAlive|resetAndClosing|=\s*\w+\.listeners\('|\w+\/lib\//;

/** Where that is allowed, and to what. */
const mayReachIn: ReadonlyMap<string, RegExp> = new Map([
  ['lib/proxy/node-internals.ts', /./],
  ['lib/proxy/node-handles.ts', /_handle/],
  ['lib/proxy/node-streams.ts', /./],
  ['lib/proxy/node-direct-writes.ts', /./],
  ['lib/proxy/node-intercept.ts', /_handle/],
  ['lib/proxy/tls/node-tls.ts', /^\._|_handle/],
  // Documented, for authors of libraries.
  ['lib/policy/documents/shape-fields.ts', /^\._zod$/],
  // Loads undici whole where its pieces are not where they were.
  ['lib/proxy/http1/library/undici-pool.ts', /^undici\/lib\/$/],
  // The pieces of prom-client that a start needs.
  ['lib/telemetry/registry.ts', /^client\/lib\/$/],
  // A folder of Debian's, not of Node's.
  ['lib/deploy/image/root.ts', /^var\/lib\/$/],
]);

function reachedIn(source: string): string[] {
  const code = source.replace(/^\s*(?:\/\/|\/?\*).*$/gm, '');
  return [...code.matchAll(new RegExp(internals, 'g'))].map(([text]) => text);
}

t.test('what Node does not document is reached through one file', async (t) => {
  const rows: readonly (readonly [source: string, found: number])[] = [
    ['socket._handle?.fd', 1],
    ['const { _handle } = server;', 1],
    ['const { fd, _handle } = server;', 1],
    ['(socket as { readonly _handle?: { fd: number } })', 1],
    ['stream._readableState.length', 1],
    ["process.binding('tcp_wrap')", 1],
    ['Object.getOwnPropertySymbols(socket)', 1],
    ["require('undici/lib/core/util.js')", 1],
    ["const [feed] = socket.listeners('data');", 1],
    ["return socket.listeners('data').includes(own);", 0],
    ["name.startsWith('[-._a-z]')", 0],
    ['response.assignSocket(socket)', 1],
    ['(_error, socket) => socket.destroy()', 0],
    ['// socket._handle', 0],
    ["import { Pool } from 'undici';", 0],
  ];
  for (const [source, found] of rows) t.equal(reachedIn(source).length, found, source);
  for (const file of files) {
    const allowed = mayReachIn.get(file);
    const found = reachedIn(readFileSync(join(root, file), 'utf8'));
    t.same(
      found.filter((text) => allowed?.test(text) !== true),
      [],
      file,
    );
    if (allowed !== undefined) t.not(found.length, 0, `${file} needs its exception`);
  }
});

/** What no other file of the program asks for, but a test does. */
const forTests: ReadonlyMap<string, readonly string[]> = new Map([
  // Texts, which only pages print whole.
  ['lib/proxy/http/refuse.ts', ['failureOf']],
  // Parts whose many rows would each need a server, a client, a kernel or a terminal.
  ['bin/help.ts', ['commandHelp']],
  // Whether a set holds a question is asked where sets are held to questions.
  ['lib/analysis/addresses.ts', ['addressValue']],
  ['lib/analysis/callers.ts', ['isOf']],
  ['lib/policy-test/format.ts', ['testSchema']],
  ['lib/ops/admin-app.ts', ['acceptsGzip']],
  ['lib/policy/pod.ts', ['probePath']],
  ['lib/redirect/rules.ts', ['sameRules']],
  ['lib/telemetry/log.ts', ['parseLevel']],
  // Bounds that tests go up to and beyond.
  ['lib/proxy/detect/client-hello.ts', ['maxHelloBytes']],
  ['lib/reload/chain-depth.ts', ['mostIntermediates']],
  ['lib/telemetry/labels.ts', ['limits']],
  // To be told from other errors, and for the tests' own HTTP/2 server to say the same.
  ['lib/reload/credential-source.ts', ['CredentialsUnusable']],
  ['lib/proxy/http2/client/client-session.ts', ['misspelt']],
]);

interface Exported {
  readonly name: string;
  readonly isType: boolean;
}

function exportsOf(source: string): Exported[] {
  const declared = /(?:^|\n)export (?:abstract |async )*(const|let|class|function\*?|interface|type) (\w+)/g;
  const listed = /(?:^|\n)export (type )?\{([^}]*)\}/g;
  return [
    ...[...source.matchAll(declared)].map(([, kind = '', name = '']) => ({
      name,
      isType: /^(interface|type)$/.test(kind),
    })),
    ...[...source.matchAll(listed)].flatMap(([, type, names = '']) =>
      namesIn(names).map((name) => ({ name: name.split(' as ').at(-1) ?? name, isType: type !== undefined })),
    ),
  ];
}

function namesIn(list: string): string[] {
  const names = list.split(',').map((name) => name.trim().replace(/^type /, ''));
  return names.filter((name) => name !== '');
}

/** The names that a file takes from others, as `FILE NAME`. */
function takenBy(from: string, source: string): string[] {
  const named = /(?:^|\n)(?:import|export) (?:type )?\{([^}]*)\} from '(\.[^']+)'/g;
  const awaited = /\{([^{}]*)\} = await import\('(\.[^']+)'\)/g;
  const typed = /import\('(\.[^']+)'\)\.(\w+)/g;
  const whole = /(?:^|\n)import \* as (\w+) from '(\.[^']+)'/g;
  const commands = /=> import\('(\.[^']+)'\)/g;
  const at = (target: string, name: string): string =>
    `${relative(root, resolve(root, dirname(from), target))} ${name}`;
  return [
    ...[...source.matchAll(named), ...source.matchAll(awaited)].flatMap(([, names = '', target = '']) =>
      namesIn(names).map((name) => at(target, name.split(/ as |:/)[0] ?? name)),
    ),
    ...[...source.matchAll(whole)].flatMap(([, as = '', target = '']) =>
      [...source.matchAll(new RegExp(`\\b${as}\\.(\\w+)`, 'g'))].map(([, name = '']) => at(target, name)),
    ),
    ...[...source.matchAll(typed)].map(([, target = '', name = '']) => at(target, name)),
    ...[...source.matchAll(commands)].flatMap(([, target = '']) => [at(target, 'main'), at(target, 'help')]),
  ];
}

t.test('what is exported is asked for', async (t) => {
  t.same(exportsOf('export const a = 1;\nexport interface B {}\nexport type { C } from "./c.ts";\nconst d = 1;\n'), [
    { name: 'a', isType: false },
    { name: 'B', isType: true },
    { name: 'C', isType: true },
  ]);
  const taker =
    "import { a, type B as X } from './b.ts';\nconst { c } = await import('../c.ts');\nlet d: import('./d.ts').D;";
  t.same(takenBy('lib/x/y.ts', taker), ['lib/x/b.ts a', 'lib/x/b.ts B', 'lib/c.ts c', 'lib/x/d.ts D']);

  const sources = new Map(files.map((file) => [file, readFileSync(join(root, file), 'utf8')]));
  const taken = new Set([...sources].flatMap(([file, source]) => takenBy(file, source)));
  const found = new Set<string>();
  for (const [file, source] of sources) {
    for (const { name, isType } of exportsOf(source)) {
      found.add(`${file} ${name}`);
      const excepted = forTests.get(file)?.includes(name) === true;
      if (excepted) t.notOk(taken.has(`${file} ${name}`), `${name} of ${file} needs no exception any more`);
      // A type that a signature of the file names may be what a caller writes down one day.
      const isNamed = isType && (source.match(new RegExp(`\\b${name}\\b`, 'g'))?.length ?? 0) > 1;
      t.ok(excepted || isNamed || taken.has(`${file} ${name}`), `${file} exports ${name}: who asks for it?`);
    }
  }
  for (const [file, names] of forTests) {
    for (const name of names) t.ok(found.has(`${file} ${name}`), `${name} of ${file}, an exception, is there`);
  }
  const imported = new Set(imports.map(({ to }) => to));
  // The launcher starts one, the Containerfile another, a `new Worker` the third.
  const roots = ['bin/main.ts', 'lib/app/workers/thread.ts', 'lib/deploy/image/root.ts', 'lib/reload/load-worker.ts'];
  t.same(files.filter((file) => !imported.has(file)).sort(), roots, 'no file that nobody imports');
});

/** A room of tests: a folder of `unit` and `e2e`, and each of the others with all that is in it. */
function testRoom(file: string): string {
  return /^test\/(unit|e2e)\//.test(file) ? dirname(file) : file.split('/', 2).join('/');
}

t.test('what tests of several rooms need stands in test/support', async (t) => {
  t.equal(testRoom('test/unit/proxy/http1/a.test.ts'), 'test/unit/proxy/http1');
  t.equal(testRoom('test/judges/connect/a.ts'), 'test/judges');
  const tests = readdirSync(join(root, 'test'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts') && name !== 'architecture.test.ts')
    .map((name) => join('test', name));
  const between = tests
    .flatMap((file) => importsIn(file, readFileSync(join(root, file), 'utf8')))
    .filter(({ to }) => to.startsWith('test/'));
  t.ok(between.length > 300, 'imports are found at all');
  for (const { from, to } of between) {
    t.ok([testRoom(from), 'test/support'].includes(testRoom(to)), `${from} → ${to}: of another room of tests`);
  }
});

/** What every command exports: bin/main.ts asks each for the same. */
const ofEveryCommand: ReadonlySet<string> = new Set(['main']);

/** The types that a file declares, exported or not. */
function typesOf(source: string): string[] {
  return [...source.matchAll(/(?:^|\n)(?:export )?(?:abstract )?(?:class|interface|type) (\w+)/g)].map(
    ([, name = '']) => name,
  );
}

/** Names that are exported and that a second file declares as well, with the files: a reader would take one for the other. */
function ambiguous(sources: ReadonlyMap<string, string>): string[] {
  const exported = new Set<string>();
  const declaredIn = new Map<string, Set<string>>();
  for (const [file, source] of sources) {
    // What a list hands on is declared elsewhere, or in the same file.
    const own = source.replace(/(?:^|\n)export (?:type )?\{[^}]*\}(?: from '[^']+')?;/g, '');
    const names = exportsOf(own).map(({ name }) => name);
    for (const name of names) exported.add(name);
    for (const name of [...names, ...typesOf(own)]) {
      const places = declaredIn.get(name) ?? new Set();
      declaredIn.set(name, places.add(file));
    }
  }
  return [...declaredIn]
    .filter(([name, places]) => exported.has(name) && places.size > 1 && !ofEveryCommand.has(name))
    .map(([name, places]) => `${name}: ${[...places].join(', ')}`);
}

t.test('a file that a comment names is there', async (t) => {
  const named = /(?<![\w./-])(?:[\w-]+\/)+[\w-]+\.ts\b/g;
  let found = 0;
  for (const file of files) {
    const comments = readFileSync(join(root, file), 'utf8').matchAll(/^\s*(?:\/\/|\/?\*).*$/gm);
    for (const [name] of [...comments].flatMap(([comment]) => [...comment.matchAll(named)])) {
      found++;
      const isThere = [name, ...files].some((known, i) =>
        i === 0 ? existsSync(join(root, known)) : known.endsWith(`/${name}`),
      );
      t.ok(isThere, `${file} speaks of ${name}`);
    }
  }
  t.ok(found > 3, 'names are found at all');
});

t.test('an exported name has one meaning', async (t) => {
  const rows: readonly (readonly [a: string, b: string, found: number])[] = [
    ['export interface Lane {}', 'export class Lane {}', 1],
    ['export const limits = 1;', 'export const limits = 2;', 1],
    ['export type Look = 1;', 'class Look {}', 1],
    ['type Flag = 1;', 'type Flag = 2;', 0],
    ['export const done = 1;', 'const done = 1;', 0],
    ['export const main = 1;', 'export const main = 2;', 0],
    ['export interface Lane {}', "import type { Lane } from './a.ts';", 0],
    ['export interface Lane {}', "export type { Lane } from './a.ts';", 0],
  ];
  for (const [a, b, found] of rows) {
    const sources = new Map([
      ['a.ts', a],
      ['b.ts', b],
    ]);
    t.equal(ambiguous(sources).length, found, `${a} ${b}`);
  }
  t.same(ambiguous(new Map(files.map((file) => [file, readFileSync(join(root, file), 'utf8')]))), []);
});

t.test('no barrels, no utils, every dependency has a user', async (t) => {
  for (const file of files) {
    t.notMatch(file, /(^|\/)index\.ts$/);
    t.notMatch(file, /(^|\/)(utils?|helpers?|common)(\/|\.ts$)/);
  }
  const used = new Set(imports.map(({ to }) => to));
  const text = files.map((file) => readFileSync(join(root, file), 'utf8')).join('\n');
  for (const name of Object.keys(manifest.dependencies)) {
    t.ok(used.has(name) || text.includes(`('${name}')`), `${name} is imported somewhere`);
  }
  for (const { from, to } of imports) {
    if (to.endsWith('.ts') || to.startsWith('node:')) continue;
    t.notOk(builtinModules.includes(to), `${from} writes node:${to}`);
    t.ok(to in manifest.dependencies, `${from} → ${to} is a declared dependency`);
  }
});
