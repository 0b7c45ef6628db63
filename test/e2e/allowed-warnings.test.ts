/**
 * What a document's annotation allows is no warning anywhere: in each command, in the log of a running proxy at its start and its
 * reloads, of its policy and its candidate. What it cannot allow is said everywhere.
 */
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { replaceFile, temporaryFolder } from '../support/files.ts';
import { freePort } from '../support/ports.ts';
import { type LogLine, runSallyport, type Sallyport, startSallyport } from '../support/sallyport.ts';
import { until } from '../support/until.ts';

t.setTimeout(900_000);

const group = 'policy.linkerd.io';

/** Warnings of three origins: of a document, of how it points at others, and (in `check` alone) of what is hardly meant. */
function documents(allow: Readonly<Record<'server' | 'anyone' | 'lost', string>>, regex = '/.*'): string {
  const meta = (name: string, codes = ''): string =>
    `{ name: ${name}, namespace: shop${codes === '' ? '' : `, annotations: { sallyport.dev/allow: "${codes}" }`} }`;
  const anyone = `{ targetRef: { group: ${group}, kind: Server, name: web }, requiredAuthenticationRefs: [] }`;
  const lost = `{ targetRef: { group: ${group}, kind: HTTPRoute, name: nowhere }, requiredAuthenticationRefs: [] }`;
  const route = `{ parentRefs: [{ group: ${group}, kind: Server, name: web }], rules: [{ matches: [{ path: { type: RegularExpression, value: "${regex}" } }] }] }`;
  return [
    `apiVersion: ${group}/v1beta3\nkind: Server\nmetadata: ${meta('web', allow.server)}\nstray: 1\nspec: { podSelector: {}, port: 8080, accessPolicy: audit }\n`,
    `apiVersion: ${group}/v1alpha1\nkind: AuthorizationPolicy\nmetadata: ${meta('anyone', allow.anyone)}\nspec: ${anyone}\n`,
    `apiVersion: ${group}/v1alpha1\nkind: AuthorizationPolicy\nmetadata: ${meta('lost', allow.lost)}\nspec: ${lost}\n`,
    `apiVersion: ${group}/v1beta3\nkind: HTTPRoute\nmetadata: ${meta('r', 'regex: it is right')}\nspec: ${route}\n`,
  ].join('---\n');
}

const silent = {
  server: 'unknown-field: of another tool; audit-left-on',
  anyone: 'admits-everyone',
  lost: 'dangling-target',
};

interface Row {
  readonly title: string;
  readonly policy: string;
  /** Everywhere, of all that a running proxy examines. */
  readonly codes: readonly string[];
  /** What `check` says besides. */
  readonly check: readonly string[];
  readonly allowed: readonly string[];
}

const rows: readonly Row[] = [
  {
    title: 'nothing is allowed',
    policy: documents({ server: '', anyone: '', lost: '' }),
    codes: ['admits-everyone', 'allow-unknown', 'dangling-target', 'unknown-field'],
    check: ['audit-left-on'],
    allowed: [],
  },
  {
    title: 'all is allowed but an error, which is no warning',
    policy: documents(silent),
    codes: ['allow-unknown'],
    check: [],
    allowed: ['admits-everyone', 'audit-left-on', 'dangling-target', 'unknown-field'],
  },
  {
    title: 'each allows what another has',
    policy: documents({ server: silent.lost, anyone: silent.server, lost: silent.anyone }),
    codes: ['admits-everyone', 'allow-unknown', 'dangling-target', 'unknown-field'],
    check: ['allow-unused', 'allow-unused', 'allow-unused', 'allow-unused', 'audit-left-on'],
    allowed: [],
  },
];

const env = { SALLYPORT_POD_NAMESPACE: 'shop' };
const test = `policy: policy.yaml
pod: { namespace: shop }
cases: [{ port: 8080, client: 10.1.2.3, path: /, expect: permit }]
`;
const record = '{"v":1,"kind":"request"}\n';

/** Codes of the lines of a command that are about the policy file. */
function printed(text: string): string[] {
  const lines = text.split('\n').filter((line) => /policy\.yaml:\d+:\d+: (?:warning|error): /.test(line));
  return lines.map((line) => /\[([\w-]+)\]$/.exec(line)?.[1] ?? line).sort();
}

for (const { title, policy, codes, check, allowed } of rows) {
  t.test(`commands: ${title}`, async (t) => {
    const folder = t.testdir({ 'policy.yaml': policy, 'test.yaml': test, 'log.jsonl': record });
    const file = join(folder, 'policy.yaml');
    const asked = ['--port', '8080', '--client', '10.1.2.3', '--path', '/'];
    const log = join(folder, 'log.jsonl');
    // It reads the file, and does not ask how its documents point at each other.
    const read = codes.filter((code) => code !== 'admits-everyone' && code !== 'dangling-target');
    const commands: readonly (readonly [command: readonly string[], codes: readonly string[]])[] = [
      [['explain', '--policy', file, ...asked], codes],
      [['test', join(folder, 'test.yaml')], codes],
      [['diff', file, file], [...codes, ...codes].sort()],
      [['replay', log, '--policy', file], codes],
      [['suggest', log, '--merge', file], read],
    ];
    for (const [command, wanted] of commands) {
      const { stderr } = await runSallyport(t, command, env);
      t.same(printed(stderr), wanted, command.join(' '));
    }
    const people = await runSallyport(t, ['check', file]);
    t.same(printed(people.stdout), [...codes, ...check].sort(), 'check');
    const programs = JSON.parse((await runSallyport(t, ['check', file, '--json'])).stdout);
    const codesOf = (list: readonly { readonly code: string }[] = []): string[] => list.map(({ code }) => code).sort();
    t.same(codesOf(programs.problems), [...codes, ...check].sort(), 'check --json');
    t.same(codesOf(programs.allowed), allowed, 'check --json: what is allowed');
  });
}

/** Codes of what the log says of documents since a line. */
function logged({ logs }: Sallyport, what: RegExp, since: number): string[] {
  const about = ({ msg, code }: LogLine): boolean => typeof code === 'string' && what.test(String(msg));
  return logs()
    .slice(since)
    .filter(about)
    .map(({ code }) => String(code))
    .sort();
}

async function started(t: Test, policy: string, candidate: string) {
  const folder = temporaryFolder(t);
  const put = (name: string, text: string): void => replaceFile(join(folder, name, 'policy.yaml'), text);
  put('policy', policy);
  put('candidate', candidate);
  const sallyport = await startSallyport(t, {
    env: {
      ...env,
      SALLYPORT_POLICY: join(folder, 'policy'),
      SALLYPORT_CANDIDATE_POLICY: join(folder, 'candidate'),
      SALLYPORT_LOG: 'debug',
      SALLYPORT_INBOUND_PORTS: `127.0.0.1:${await freePort()}=127.0.0.1:9`,
    },
  });
  return { sallyport, put };
}

const parts = [
  { name: 'policy', said: /^Policy: /, loaded: 'Policy loaded' },
  { name: 'candidate', said: /^Candidate policy: /, loaded: 'Candidate policy loaded' },
] as const;

t.test('the log of a running proxy, at the start and at each reload', async (t) => {
  const [first] = rows;
  const { sallyport, put } = await started(t, first?.policy ?? '', first?.policy ?? '');
  for (const { name, said, loaded } of parts) {
    await sallyport.waitForLog(loaded, ({ msg }) => msg === loaded);
    t.same(logged(sallyport, said, 0), first?.codes, name);
    for (const [i, { title, policy, codes }] of rows.entries()) {
      const before = sallyport.logs().length;
      put(name, `${policy}# ${i}\n`);
      await until(title, () => saysSince(sallyport, before, loaded));
      t.same(logged(sallyport, said, before), codes, `${name}: ${title}`);
    }
    const before = sallyport.logs().length;
    put(name, documents(silent, '('));
    await until('a refusal', () => saysSince(sallyport, before, loaded.replace('loaded', 'not loaded')));
    t.ok(logged(sallyport, said, before).includes('regex'), `${name}: no annotation silences an error`);
  }
  const page = await fetch(`http://127.0.0.1:${sallyport.adminPort}/policy`);
  const { load } = (await page.json()) as { readonly load: { readonly stale: { readonly faults: readonly string[] } } };
  t.match(load.stale.faults, [/ \[regex\]$/], 'the admin server names the error');
  t.equal(load.stale.faults.length, 1, 'and no warning');
});

function saysSince({ logs }: Sallyport, since: number, what: string): boolean {
  return logs()
    .slice(since)
    .some(({ msg }) => String(msg).startsWith(what));
}
