/**
 * Floods that cost their sender next to nothing and a proxy memory, before a proxy in a control group that allows it little:
 * while each lasts, somebody else is served, and the kernel does not end the process. SALLYPORT_FLOOD_SECONDS is for how long
 * each comes (in CI a few), SALLYPORT_FLOOD_ONLY names one of them, SALLYPORT_FLOOD_MIB a size, or `all`.
 */
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { publishedCommand } from '../../../benchmarks/published.ts';
import { workloadCertificate, workloadName } from '../../support/certificates.ts';
import { identityEnvironment, temporaryFolder } from '../../support/files.ts';
import { percentile, startBystander, startFloodApp } from '../../support/flooded.ts';
import { type Attack, startAttacker } from '../../support/memory-attackers.ts';
import { createMemoryGroup, memoryGroupsUnavailable } from '../../support/memory-group.ts';
import { openServer, policyEnvironment } from '../../support/open-policy.ts';
import { freePorts } from '../../support/ports.ts';
import { startSallyport } from '../../support/sallyport.ts';
import { scheduled } from '../../support/scheduling.ts';

const seconds = Number(process.env.SALLYPORT_FLOOD_SECONDS ?? '4');
const { SALLYPORT_FLOOD_ONLY: only, SALLYPORT_FLOOD_MIB: onlySize } = process.env;
const skip = memoryGroupsUnavailable();

interface Flood extends Pick<Attack, 'kind' | 'connections' | 'perSecond'> {
  readonly to: 'http' | 'http2' | 'tcp';
}

/** As many as the machine's two cores bring about in a few seconds; each alone needs more memory than the smallest has. */
const floods: readonly Flood[] = [
  { kind: 'TLS silent', connections: 4000, perSecond: 400, to: 'http' },
  { kind: 'half a head', connections: 4000, perSecond: 1000, to: 'http' },
  { kind: 'half a Certificate', connections: 1300, perSecond: 220, to: 'http' },
  { kind: 'a ClientHello', connections: 4000, perSecond: 400, to: 'http' },
  { kind: 'silent', connections: 9000, perSecond: 3000, to: 'http' },
  { kind: 'heads of HPACK', connections: 1000, perSecond: 300, to: 'http2' },
  { kind: 'http/2 without a window', connections: 200, perSecond: 50, to: 'http2' },
  { kind: 'a WebSocket nobody reads', connections: 1000, perSecond: 300, to: 'http' },
  { kind: 'a slow reader', connections: 1000, perSecond: 300, to: 'http' },
  { kind: 'a tunnel nobody reads', connections: 1000, perSecond: 300, to: 'tcp' },
];

const sizes = [64, 128, 256, 512];
/** In which each comes where nothing is named: a minute for all of them together. */
const usual = [256];
/** Milliseconds that a bystander may wait longer than at a proxy that nobody attacks, 99 times in 100. */
const mostDelay = 50;
const attempts = 3;

t.setTimeout(3_600_000);
if (skip) t.comment(skip);
else {
  const app = await startFloodApp(t);
  const command = await publishedCommand();
  for (const mib of onlySize === 'all' ? sizes : onlySize === undefined ? usual : [Number(onlySize)]) {
    for (const flood of floods.filter(({ kind }) => only === undefined || only === kind)) {
      await t.test(`${flood.kind} at ${mib} MiB`, async (t) => {
        for (let attempt = 1; attempt <= attempts && !(await attacked(t, mib, flood, attempt === attempts)); attempt++);
      });
    }
  }

  /** False when it was too slow for the bystander; a single measurement can be bad luck. */
  async function attacked(t: Test, mib: number, { to, ...flood }: Flood, last: boolean): Promise<boolean> {
    const folder = temporaryFolder(t);
    const [http = 0, http2 = 0, tcp = 0, asidePort = 0] = await freePorts(4);
    const ports = { http, http2, tcp };
    const group = createMemoryGroup(t, mib * 2 ** 20);
    const sallyport = await startSallyport(t, {
      within: group.within,
      command,
      env: {
        ...policyEnvironment(
          folder,
          openServer('web', http) + openServer('web2', http2) + openServer('tcp', tcp, 'opaque'),
        ),
        ...identityEnvironment(join(folder, 'identity'), workloadCertificate('web', 'shop')),
        SALLYPORT_INBOUND_PORTS: `${http}=127.0.0.1:${app.http},${http2}=127.0.0.1:${app.http2},${tcp}=127.0.0.1:${app.firehose}`,
        SALLYPORT_WORKERS: '1',
      },
    });
    /** Before the same app, and attacked by nobody: what a bystander waits there is the machine's and the app's doing. */
    const aside = await startSallyport(t, {
      command,
      env: {
        ...policyEnvironment(temporaryFolder(t), openServer('web', asidePort)),
        SALLYPORT_INBOUND_PORTS: `${asidePort}=127.0.0.1:${app.http}`,
      },
    });
    const bystander = await startBystander(t, [http, asidePort]);
    await settle(1000);
    await bystander.take();
    const before = scheduled(sallyport.pid);
    const servername = workloadName('web', 'shop');
    const attacker = await startAttacker(t, { ...flood, port: ports[to], servername, sources: 200 });
    let most = 0;
    const until = performance.now() + seconds * 1000;
    while (performance.now() < until && sallyport.child.process.exitCode === null) {
      await settle(50);
      most = Math.max(most, group.usedBytes());
    }
    const [attackedOne, asideOne] = await bystander.take();
    const counts = await attacker.counts();
    const isAlive = sallyport.child.process.exitCode === null && sallyport.child.process.signalCode === null;
    const { ranMs, waitedMs } = isAlive ? scheduled(sallyport.pid, before) : { ranMs: 1, waitedMs: 0 };
    await attacker.stop();
    const p99 = [attackedOne, asideOne].map((served) =>
      percentile([...(served?.kept ?? []), ...(served?.fresh ?? [])], 0.99),
    );
    const [there = 0, here = 0] = p99;
    const delay = Math.max(0, there - here) * (ranMs / (ranMs + waitedMs));
    t.comment(
      `${counts.begun} begun, ${counts.open} open; ${Math.round(most / 2 ** 20)} MiB at most; p99 ${there.toFixed(1)} ms, aside ${here.toFixed(1)} ms; ran ${ranMs.toFixed(0)} ms, waited ${waitedMs.toFixed(0)} ms`,
    );
    t.equal(group.kills(), 0, 'the kernel has ended nothing');
    t.ok(isAlive, 'the process is alive');
    t.same(attackedOne?.failures, [], 'no request of the bystander has failed');
    t.ok((attackedOne?.kept.length ?? 0) > 20, `${attackedOne?.kept.length} requests`);
    const fast = delay < mostDelay;
    if (fast || last) t.ok(fast, `p99 is ${delay.toFixed(1)} ms more than aside`);
    t.ok(most < mib * 2 ** 20, 'within its memory');
    await Promise.all([sallyport.child.end('SIGKILL'), aside.child.end('SIGKILL')]);
    return fast;
  }
}

function settle(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
