/**
 * The table of test/README.md: of each room of lib, its tests, and the files that have none of their own. `npm run readme`
 * writes it; test/unit/readme.test.ts fails where it is not what is there.
 */
import { existsSync, readdirSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';

const root = resolve(import.meta.dirname, '../..');

/** Files and rooms without tests at the same path below test/unit: what exercises them. */
const elsewhere: ReadonlyMap<string, readonly string[]> = new Map([
  ['lib/app/candidate', ['unit/app/candidate/', 'e2e/candidate/']],
  ['lib/app/workers', ['e2e/workers.test.ts', 'e2e/workers-together.test.ts']],
  ['lib/app', ['e2e/stop-at-odd-moments.test.ts', 'e2e/internal-faults.test.ts', 'unit/bin/']],
  ['lib/app.ts', ['e2e/']],
  ['lib/behind-traffic.ts', ['e2e/behind-traffic.test.ts']],
  ['lib/client.ts', ['unit/policy/decide/client-match.test.ts']],
  ['lib/identity-name.ts', ['unit/certificate-names.test.ts', 'unit/bin/explain-given.test.ts']],
  ['lib/deploy/image', ['e2e/pod/image.test.ts']],
  ['lib/ip.ts', ['unit/policy/decide/client-match.test.ts', 'unit/proxy/accept/arrivals.test.ts']],
  ['lib/printable.ts', ['unit/bin/printable.test.ts']],
  ['lib/problem.ts', ['unit/errors/catalogue.test.ts']],
  ['lib/proxy/http2/message', ['unit/proxy/http2/client/http2-server.test.ts', 'fuzz/http2-lanes.test.ts']],
  [
    'lib/proxy/upstream',
    ['unit/proxy/fairness/starts.test.ts', 'e2e/hardening/app-connections.test.ts', 'e2e/hardening/limits.test.ts'],
  ],
  ['lib/regular-file.ts', ['unit/reload/pod-facts.test.ts']],
  ['lib/replay', ['unit/bin/replay.test.ts']],
  ['lib/suggest', ['unit/bin/suggest.test.ts', 'fuzz/suggest.test.ts']],
  ['lib/request-fields.ts', ['unit/proxy/http/headers.test.ts', 'fuzz/explain-wire.test.ts']],
  ['lib/request-target.ts', ['unit/http-message.test.ts']],
  ['lib/resource-ref.ts', ['unit/policy/explain.test.ts']],
]);

export interface RoomTests {
  /** Of lib, or a file that stands in no room. */
  readonly room: string;
  /** Below test; none where that is not known. */
  readonly tests: readonly string[];
  /** The room's files without a test of their own, which its tests exercise together. */
  readonly together: readonly string[];
}

const hasOwn = (file: string): boolean =>
  existsSync(join(root, file.replace(/^lib\//, 'test/unit/').replace(/\.ts$/, '.test.ts')));

export function testsOfRooms(): RoomTests[] {
  const files = readdirSync(join(root, 'lib'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts'))
    .map((name) => join('lib', name));
  const rooms = [...new Set(files.map((file) => (dirname(file) === 'lib' ? file : dirname(file))))].sort();
  return rooms.flatMap((room): RoomTests[] => {
    if (room.endsWith('.ts')) return hasOwn(room) ? [] : [{ room, tests: elsewhere.get(room) ?? [], together: [] }];
    const own = room.replace(/^lib\//, 'unit/');
    const tests = elsewhere.get(room) ?? (existsSync(join(root, 'test', own)) ? [`${own}/`] : []);
    const together = files.filter((file) => dirname(file) === room && !hasOwn(file)).sort();
    return [{ room, tests, together: together.map((file) => basename(file)) }];
  });
}

export function testMap(): string {
  const rows = testsOfRooms().map(({ room, tests, together }) => {
    const links = tests.map((path) => `[\`${path}\`](${path})`).join(', ');
    return `| \`${room}\` | ${links} | ${together.map((name) => `\`${name}\``).join(', ')} |`;
  });
  return ['| room or file | tests | files that these exercise together |', '|---|---|---|', ...rows].join('\n');
}
