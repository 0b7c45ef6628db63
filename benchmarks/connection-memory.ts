/**
 * What a connection of each kind takes of a control group that limits the memory, kernel included: the figures behind
 * `connectionCosts` (lib/memory-plan.ts). As root: `node benchmarks/connection-memory.ts [KIND…]`, kinds as in
 * test/support/memory-attackers.ts. N connections come, then as many more: the second lot is what counts, since the first
 * warms the program up.
 */
import { join } from 'node:path';
import { workloadCertificate, workloadName } from '../test/support/certificates.ts';
import { identityEnvironment, temporaryFolder } from '../test/support/files.ts';
import { startFloodApp } from '../test/support/flooded.ts';
import { type AttackKind, startAttacker } from '../test/support/memory-attackers.ts';
import { createMemoryGroup } from '../test/support/memory-group.ts';
import { openServer, policyEnvironment } from '../test/support/open-policy.ts';
import { freePorts } from '../test/support/ports.ts';
import { startSallyport } from '../test/support/sallyport.ts';
import { publishedCommand } from './published.ts';

const MiB = 2 ** 20;
const connections = Number(process.env.N ?? 500);
const asked = process.argv.slice(2) as AttackKind[];
const usual: readonly AttackKind[] = [
  'silent',
  'http/1 idle',
  'a ClientHello',
  'half a Certificate',
  'TLS silent',
  'TLS, http/1 idle',
  'http/2 idle',
  'a WebSocket',
];
const cleanUps: (() => unknown)[] = [];
const t = { teardown: (clean: () => unknown) => void cleanUps.push(clean) };
const settle = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

const app = await startFloodApp(t);
const command = await publishedCommand();
for (const kind of asked.length > 0 ? asked : usual) console.log(`${kind}: ${await costOf(kind)} KiB each`);
for (const clean of cleanUps.reverse()) await clean();
process.exit(0);

async function costOf(kind: AttackKind): Promise<string> {
  const group = createMemoryGroup(t, 4096 * MiB);
  const folder = temporaryFolder(t);
  const [http = 0, http2 = 0, tcp = 0] = await freePorts(3);
  const sallyport = await startSallyport(t, {
    ...{ within: group.within, command },
    env: {
      ...policyEnvironment(
        folder,
        openServer('web', http) + openServer('web2', http2) + openServer('tcp', tcp, 'opaque'),
      ),
      ...identityEnvironment(join(folder, 'identity'), workloadCertificate('web', 'shop')),
      SALLYPORT_INBOUND_PORTS: `${http}=127.0.0.1:${app.http},${http2}=127.0.0.1:${app.http2},${tcp}=127.0.0.1:${app.firehose}`,
      SALLYPORT_WORKERS: '1',
      SALLYPORT_MAX_HANDSHAKES: '5000',
    },
  });
  const port = kind.startsWith('http/2') || kind === 'heads of HPACK' ? http2 : kind.includes('tunnel') ? tcp : http;
  const servername = workloadName('web', 'shop');
  const used: number[] = [];
  for (const _lot of [1, 2]) {
    const attacker = await startAttacker(t, { kind, port, servername, connections, perSecond: 300, sources: 50 });
    for (let looks = 0; looks < 120 && (await attacker.counts()).open < connections; looks++) await settle(250);
    // By then what is garbage has gone, as far as it goes by itself.
    await settle(4000);
    used.push(group.usedBytes());
  }
  await sallyport.child.end('SIGKILL');
  return ((((used[1] ?? 0) - (used[0] ?? 0)) / connections / 1024) as number).toFixed(1);
}
