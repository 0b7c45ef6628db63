import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { temporaryFolder } from '../../support/files.ts';
import { flag, frame, type as frameType, headerBlock } from '../../support/http2-frames.ts';
import { openClient } from '../../support/http2-peers.ts';
import { scrape } from '../../support/metrics.ts';
import { policyEnvironment } from '../../support/open-policy.ts';
import { freePort } from '../../support/ports.ts';
import { type LogLine, runSallyport, startSallyport } from '../../support/sallyport.ts';
import { until } from '../../support/until.ts';

/*
 * Refusals that cost their client next to nothing: over HTTP/2 a path of two kilobytes is one byte once it has been said.
 * What is written of them has a bound, and says what is not written.
 */

const requests = 5000;
const path = `/${'x'.repeat(2000)}`;
/** Places of the static table, and of the two entries that the dynamic one then has (RFC 7541, appendix A and 2.3.3). */
const indexed = { get: 0x82, http: 0x86, pathName: 0x44, hostName: 0x41, host: 0xbe, path: 0xbf } as const;

/** Path and host with their names from the static table, and to be kept. */
function firstBlock(): Buffer {
  const value = (text: string): Buffer => headerBlock([['', text]]).subarray(2);
  const { get, http, pathName, hostName } = indexed;
  return Buffer.concat([Buffer.of(get, http, pathName), value(path), Buffer.of(hostName), value('web')]);
}

const laterBlock = Buffer.of(indexed.get, indexed.http, indexed.path, indexed.host);

function headers(id: number, block: Buffer): Buffer {
  return frame(frameType.headers, flag.endHeaders | flag.endStream, id, block);
}

/** Yields the bytes that it has sent. */
async function flood(t: Test, port: number, refused: () => Promise<number>): Promise<number> {
  const client = await openClient(t, port);
  let sent = 0;
  for (let from = 0; from < requests; from += 100) {
    const frames = Array.from({ length: 100 }, (_, i) =>
      headers(2 * (from + i) + 1, from + i === 0 ? firstBlock() : laterBlock),
    );
    const batch = Buffer.concat(frames);
    sent += batch.length;
    client.send(batch);
    // No more streams than there may be at once.
    await until('the refusals', async () => (await refused()) >= from + 100);
  }
  return sent;
}

const rows: readonly (readonly [name: string, env: Record<string, string>])[] = [
  ['one thread', {}],
  ['two threads', { SALLYPORT_WORKERS: '2' }],
];

for (const [name, more] of rows) {
  t.test(`79 KB of refused requests, ${name}`, async (t) => {
    const port = await freePort();
    const folder = temporaryFolder(t);
    const file = join(folder, 'decisions.jsonl');
    const env = {
      ...policyEnvironment(folder, ''),
      SALLYPORT_DEFAULT_INBOUND_POLICY: 'deny',
      SALLYPORT_INBOUND_PORTS: `[127.0.0.1]:${port}=127.0.0.1:1`,
      SALLYPORT_DECISIONS: 'refused',
      SALLYPORT_DECISIONS_FILE: file,
      ...more,
    };
    const sallyport = await startSallyport(t, { env });
    const refused = async (): Promise<number> =>
      (await scrape(sallyport.adminPort)).sum('inbound_http_authz_deny_total', { target_port: String(port) });
    const sent = await flood(t, port, refused);
    t.ok(sent < 80_000, `${sent} bytes were sent`);
    t.equal(await refused(), requests, 'each is counted');
    t.match(await sallyport.stop(), { code: 0 });

    const written = Buffer.byteLength(sallyport.child.stdout());
    t.ok(written < 200_000, `${written} bytes of log`);
    const lines = sallyport.logs().filter(({ msg, about }) => msg === 'Request denied' || about === 'Request denied');
    t.ok(lines.length >= 20, 'the first have their lines');
    const sum = lines.reduce((sum, line) => sum + told(line), 0);
    t.equal(sum, requests, 'and it is said how many have none');

    const records = readFileSync(file, 'utf8');
    t.ok(records.length < 500_000, `${records.length} bytes of decision records`);
    const replayed = await runSallyport(t, ['replay', file, '--json'], env);
    t.match(JSON.parse(replayed.stdout), { decisions: requests, same: requests }, 'in which each decision is counted');
  });
}

function told({ times = 1, omitted = 0, lines }: LogLine): number {
  return lines === undefined ? Number(times) + Number(omitted) : Number(lines);
}
