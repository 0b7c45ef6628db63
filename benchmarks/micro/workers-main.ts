/**
 * Prints a MicroResult: Sallyport with one worker and with two, in turns, where both may use all cores and share them with
 * load and app. Handshakes, whose work is mostly the proxy's, show whether a second core is used; CPU time per answer shows
 * what that costs.
 */
import { startApp } from '../apps/apps.ts';
import { startTlsFront } from '../apps/tls-front.ts';
import { wrk } from '../loads/wrk.ts';
import { divideCores } from '../machine.ts';
import { sallyport } from '../peers/sallyport.ts';
import { expectAllowed, expectRefused, hostOf } from '../probes.ts';
import { cpuSeconds, residentBytes } from '../process-usage.ts';
import { median } from '../statistics.ts';
import { Workbench } from '../workbench.ts';
import { type MicroResult, progress } from './micro.ts';

for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(130));

const quick = process.argv.includes('--quick');
const [rounds, seconds] = quick ? [1, 1] : [5, 3];
const workers = [1, 2] as const;

interface Figures {
  readonly perSecond: number;
  readonly cpuMicros: number;
}

interface Running {
  readonly workers: number;
  readonly pid: number;
  readonly port: number;
  readonly measured: Figures[];
}

const shapes = [
  { name: 'mTLS handshake', mutualTls: true, load: wrk({ connections: 32, close: true }) },
  { name: 'HTTP/1.1 kept alive', mutualTls: false, load: wrk({ connections: 32, close: false }) },
] as const;

async function start(bench: Workbench, mutualTls: boolean, count: number, appPort: number): Promise<Running> {
  const port = await bench.freePort();
  const name = `workers-${count}-${port}`;
  const site = { bench, name, carriage: 'http1', mutualTls, listenPort: port, appPort } as const;
  const command = await sallyport.configure(site);
  const env = { ...command.env, SALLYPORT_WORKERS: String(count) };
  const { pid } = await bench.start('proxy', { ...command, env }, [port]);
  return { workers: count, pid, port, measured: [] };
}

async function compare(
  cores: string,
  { name, mutualTls, load }: (typeof shapes)[number],
): Promise<(string | number)[][]> {
  const bench = new Workbench({ proxy: cores, load: cores });
  try {
    const appPort = await startApp(bench, 'http1');
    const running: Running[] = [];
    for (const count of workers) running.push(await start(bench, mutualTls, count, appPort));
    const ports = running.map(({ port }) => port);
    const fronts = mutualTls ? await startTlsFront(bench, ports) : null;
    for (const { port } of running) {
      const probe = { port, app: 'http1', carriage: 'http1', mutualTls, credentials: bench.credentials } as const;
      await expectAllowed(probe);
      await expectRefused(probe);
    }
    for (let round = 0; round <= rounds; round++) {
      for (const one of running) {
        progress(`${name}, round ${round}/${rounds}, ${one.workers} workers`);
        const port = fronts?.get(one.port) ?? one.port;
        const before = cpuSeconds(one.pid);
        const done = await load({ bench, port, host: hostOf(mutualTls, bench.credentials, port), seconds });
        if (round === 0) continue;
        const cpu = cpuSeconds(one.pid) - before;
        one.measured.push({ perSecond: done.units / done.seconds, cpuMicros: (cpu * 1e6) / done.units });
      }
    }
    return running.map(({ workers: count, pid, measured }) => [
      name,
      count,
      median(measured.map(({ perSecond }) => perSecond)).toFixed(0),
      median(measured.map(({ cpuMicros }) => cpuMicros)).toFixed(1),
      (residentBytes(pid) / 2 ** 20).toFixed(0),
    ]);
  } finally {
    await bench.end();
  }
}

const divided = divideCores();
if (divided === null) throw new Error('two cores are needed');
const rows: (string | number)[][] = [];
for (const shape of shapes) rows.push(...(await compare(`${divided.load},${divided.proxy}`, shape)));
const result: MicroResult = {
  columns: ['exchange', 'workers', 'rate /s', 'CPU us', 'MiB after'],
  rows,
};
process.stdout.write(JSON.stringify(result));
process.exit(0);
