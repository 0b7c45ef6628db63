/**
 * `npm run test:unit`: what can be tested in a minute on two cores without root, namespaces, shared cases or programs that
 * npm does not install.
 */
import { readdirSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join, resolve } from 'node:path';
import { runToEnd } from './children.ts';
import { mapBounded } from './until.ts';

const root = resolve(import.meta.dirname, '../..');

const rooms = ['test/unit', 'test/cases', 'test/architecture.test.ts'];

/** Those of the rooms that take longer, files or folders, each with what for; `npm test` runs them. */
export const slowTests: ReadonlyMap<string, string> = new Map([
  ['test/unit/bin/', 'starts a program for each row'],
  ['test/unit/deploy/inject.test.ts', 'reads and writes hundreds of random manifests'],
  ['test/unit/deploy/options.test.ts', 'reads and writes thousands of manifests'],
  ['test/unit/deploy/command.test.ts', 'starts a program for each row'],
  ['test/unit/deploy/readme.test.ts', 'starts every command that the page shows'],
  ['test/unit/readme.test.ts', 'starts every command that the pages show'],
  ['test/unit/proxy/http/request-timeout.test.ts', 'waits for requests to time out, between all pairs of versions'],
  ['test/unit/proxy/http2/relay/http2-app.test.ts', 'waits for what must not happen'],
  ['test/unit/proxy/http2/relay/http2-to-http1-app.test.ts', 'moves hundreds of megabytes'],
  ['test/unit/proxy/http1/flow.test.ts', 'moves hundreds of megabytes'],
  ['test/unit/proxy/http1/declined-upgrades.test.ts', 'moves hundreds of megabytes'],
  ['test/unit/reload/policy-files-in-trouble.test.ts', 'waits for writers as long as a running proxy does'],
  ['test/unit/reload/credential-files-in-trouble.test.ts', 'waits for writers as long as a running proxy does'],
  ['test/unit/reload/policy-source.test.ts', 'compiles policies of megabytes'],
  ['test/unit/reload/cluster-listing.test.ts', 'reads listings of megabytes'],
  ['test/unit/proxy/detect/detection-work.test.ts', 'measures CPU time, and needs the machine for itself'],
  ['test/unit/policy/decide/decision-cost.test.ts', 'measures CPU time, and needs the machine for itself'],
  ['test/unit/proxy/http2/client/http2-limits.test.ts', 'measures memory, and waits for what must not happen'],
  ['test/unit/telemetry/bounded.test.ts', 'counts a million requests'],
]);

export function unitTests(): string[] {
  return rooms
    .flatMap((room) =>
      room.endsWith('.ts')
        ? [room]
        : readdirSync(join(root, room), { recursive: true, encoding: 'utf8' })
            .filter((name) => name.endsWith('.test.ts'))
            .map((name) => join(room, name)),
    )
    .filter((file) => ![...slowTests.keys()].some((slow) => file.startsWith(slow)))
    .sort();
}

/** Those that wait longest, so that they are not what all others have ended before. */
const longest: readonly string[] = [
  'test/unit/proxy/http2/client/http2-server.test.ts',
  'test/unit/proxy/http2/app/http2-stalls.test.ts',
  'test/unit/reload/credential-source.test.ts',
  'test/unit/proxy/http1/deaf-apps.test.ts',
  'test/unit/reload/pod-facts.test.ts',
  'test/unit/proxy/http1/oddities.test.ts',
  'test/unit/proxy/http1/upgrade-head.test.ts',
];

function inOrder(files: readonly string[]): string[] {
  return [...longest.filter((file) => files.includes(file)), ...files.filter((file) => !longest.includes(file))];
}

/** The failed assertions of a TAP stream, each with its diagnosis; all of it where it has none. */
export function failuresIn(tap: string): string {
  const found = tap.match(/^ *not ok [^\n]*\n(?: +---\n[\s\S]*?^ +\.\.\.\n)?/gm);
  return found === null ? tap : found.join('');
}

if (process.argv[1] === import.meta.filename) {
  const beganMs = performance.now();
  const nothing = { teardown: (): void => {} };
  let failed = 0;
  let passed = 0;
  const files = inOrder(unitTests());
  // What one test has compiled the next one need not: a third of the CPU time of a short test.
  const compiled = process.env.NODE_COMPILE_CACHE ?? join(root, 'node_modules/.cache/compiled');
  const env = { ...process.env, TAP_TIMEOUT: '120', NODE_COMPILE_CACHE: compiled };
  // They wait for two thirds of their time.
  await mapBounded(files, 3 * availableParallelism(), async (file) => {
    const timeoutMs = 130_000;
    const { code, stdout, stderr } = await runToEnd(nothing, process.execPath, [file], { cwd: root, env, timeoutMs });
    passed += Number(/^# \{ total: \d+, pass: (\d+)/m.exec(stdout)?.[1] ?? 0);
    if (code === 0) return;
    failed++;
    process.stdout.write(`${file} failed with status ${code}:\n${failuresIn(stdout)}${stderr}\n`);
  });
  const seconds = ((performance.now() - beganMs) / 1000).toFixed(0);
  process.stdout.write(`${passed} assertions pass, ${failed} of ${files.length} files failed, ${seconds} s\n`);
  process.exitCode = failed === 0 ? 0 : 1;
}
