/**
 * Prints a MicroResult: Sallyport with one worker, with two, and two processes of one worker each that share nothing and have half
 * of the load each, in turns, on all cores, which they share with load and app. The two processes are what two threads
 * cost on such a machine by themselves. Where the proxy takes nearly all of the time (dear decisions), the rate shows what a
 * second core brings; where the load takes much of it, CPU per answer does.
 */
import { dirname } from 'node:path';
import { startApp } from '../apps/apps.ts';
import { startTlsFront } from '../apps/tls-front.ts';
import type { LoadResult } from '../loads/load.ts';
import { wrk } from '../loads/wrk.ts';
import { divideCores } from '../machine.ts';
import { sallyport } from '../peers/sallyport.ts';
import { expectAllowed, expectRefused, hostOf } from '../probes.ts';
import { coreSeconds, cpuSeconds, residentBytes } from '../process-usage.ts';
import { median } from '../statistics.ts';
import { Workbench } from '../workbench.ts';
import { type MicroResult, progress } from './micro.ts';

for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(130));

const quick = process.argv.includes('--quick');
const [rounds, seconds] = quick ? [1, 1] : [5, 3];
const contenders = [
  { name: '1 worker', processes: 1, workers: 1 },
  { name: '2 workers', processes: 1, workers: 2 },
  { name: '2 processes', processes: 2, workers: 1 },
] as const;
type Contender = (typeof contenders)[number];

interface Figures {
  readonly perSecond: number;
  readonly cpuMicros: number;
  /** Of the time that all cores have, what the proxy's threads took. */
  readonly share: number;
  /** What programs took that have nothing to do with this. */
  readonly others: number;
}

interface Proxy {
  readonly pid: number;
  readonly port: number;
}

interface Running {
  readonly contender: Contender;
  readonly proxies: readonly Proxy[];
  readonly measured: Figures[];
}

interface Shape {
  readonly name: string;
  readonly mutualTls: boolean;
  /** Routes that every request is compared with. */
  readonly routes: number;
  readonly close: boolean;
}

const shapes: readonly Shape[] = [
  { name: 'dear decisions', mutualTls: false, routes: 2000, close: false },
  { name: 'mTLS handshake', mutualTls: true, routes: 0, close: true },
  { name: 'HTTP/1.1 kept alive', mutualTls: false, routes: 0, close: false },
  { name: 'a connection per request', mutualTls: false, routes: 0, close: true },
];
/** Over all processes of a contender. */
const connections = 32;

/** Each has an expression of its own, which every path must be held against, since it may begin with anything. */
function dearRoutes(count: number): string {
  const matches = (at: number): string =>
    `    - matches: [{ path: { type: RegularExpression, value: '/[a-z0-9]*/never-${at}/[0-9]+' } }]`;
  const perRoute = 16;
  return Array.from({ length: count / perRoute }, (_, route) =>
    [
      'apiVersion: policy.linkerd.io/v1beta3',
      'kind: HTTPRoute',
      `metadata: { name: dear-${route}, namespace: bench }`,
      'spec:',
      '  parentRefs: [{ group: policy.linkerd.io, kind: Server, name: web }]',
      '  rules:',
      ...Array.from({ length: perRoute }, (_, rule) => matches(route * perRoute + rule)),
      '',
    ].join('\n'),
  ).join('---\n');
}

async function start(bench: Workbench, shape: Shape, workers: number, appPort: number): Promise<Proxy> {
  const port = await bench.freePort();
  const name = `workers-${port}`;
  const site = { bench, name, carriage: 'http1', mutualTls: shape.mutualTls, listenPort: port, appPort } as const;
  const command = await sallyport.configure(site);
  // The folder instead of its one file.
  const policy = dirname(command.env?.SALLYPORT_POLICY ?? '');
  if (shape.routes > 0) bench.write(`${name}.policy/routes.yaml`, dearRoutes(shape.routes));
  const env = { ...command.env, SALLYPORT_POLICY: policy, SALLYPORT_WORKERS: String(workers) };
  const { pid } = await bench.start('proxy', { ...command, env }, [port]);
  const probe = {
    port,
    app: 'http1',
    carriage: 'http1',
    mutualTls: shape.mutualTls,
    credentials: bench.credentials,
  } as const;
  await expectAllowed(probe);
  await expectRefused(probe);
  return { pid, port };
}

async function measure(
  bench: Workbench,
  shape: Shape,
  proxies: readonly Proxy[],
  ports: readonly number[],
): Promise<Figures> {
  const each = connections / proxies.length;
  const load = wrk({ connections: each, close: shape.close, ...(shape.routes > 0 ? { otherPaths: true } : {}) });
  const cpu = (): number => proxies.reduce((sum, { pid }) => sum + cpuSeconds(pid), 0);
  const all = (): number => cores.reduce((sum, core) => sum + coreSeconds(core), 0);
  const before = { proxy: cpu(), ours: cpuSeconds(process.pid), all: all() };
  const done: LoadResult[] = await Promise.all(
    ports.map((port) => load({ bench, port, host: hostOf(shape.mutualTls, bench.credentials, port), seconds })),
  );
  const spent = cpu() - before.proxy;
  const others = all() - before.all - (cpuSeconds(process.pid) - before.ours);
  const units = done.reduce((sum, each) => sum + each.units, 0);
  const took = Math.max(...done.map((each) => each.seconds));
  return {
    perSecond: units / took,
    cpuMicros: (spent * 1e6) / units,
    share: spent / took / cores.length,
    others: others / took / cores.length,
  };
}

async function compare(shape: Shape): Promise<(string | number)[][]> {
  const bench = new Workbench({ proxy: cores.join(','), load: cores.join(',') });
  try {
    const appPort = await startApp(bench, 'http1');
    const running: Running[] = [];
    for (const contender of contenders) {
      const proxies: Proxy[] = [];
      for (let i = 0; i < contender.processes; i++) {
        proxies.push(await start(bench, shape, contender.workers, appPort));
      }
      running.push({ contender, proxies, measured: [] });
    }
    const all = running.flatMap(({ proxies }) => proxies.map(({ port }) => port));
    const fronts = shape.mutualTls ? await startTlsFront(bench, all) : null;
    for (let round = 0; round <= rounds; round++) {
      for (const { contender, proxies, measured } of round % 2 === 0 ? running : running.toReversed()) {
        progress(`${shape.name}, round ${round}/${rounds}, ${contender.name}`);
        const figures = await measure(
          bench,
          shape,
          proxies,
          proxies.map(({ port }) => fronts?.get(port) ?? port),
        );
        if (round > 0) measured.push(figures);
      }
    }
    const first = running[0]?.measured ?? [];
    return running.map(({ contender, proxies, measured }) => {
      const of = (figure: keyof Figures): number => median(measured.map((each) => each[figure]));
      const to = (figure: keyof Figures): string =>
        median(measured.map((each, i) => each[figure] / (first[i]?.[figure] ?? Number.NaN))).toFixed(2);
      const memory = proxies.reduce((sum, { pid }) => sum + residentBytes(pid), 0) / 2 ** 20;
      return [
        shape.name,
        contender.name,
        of('perSecond').toFixed(0),
        to('perSecond'),
        of('cpuMicros').toFixed(1),
        to('cpuMicros'),
        of('share').toFixed(2),
        of('others').toFixed(2),
        memory.toFixed(0),
      ];
    });
  } finally {
    await bench.end();
  }
}

const divided = divideCores();
if (divided === null) throw new Error('two cores are needed');
const cores = `${divided.load},${divided.proxy}`.split(',');
const rows: (string | number)[][] = [];
for (const shape of shapes) rows.push(...(await compare(shape)));
const result: MicroResult = {
  columns: ['exchange', 'proxy', 'rate /s', 'to 1', 'CPU us', 'to 1', 'of all cores', 'others', 'MiB after'],
  rows,
};
process.stdout.write(JSON.stringify(result));
process.exit(0);
