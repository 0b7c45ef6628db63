/**
 * Prints a MicroResult: the first thousand requests of new processes, on sixteen connections that open at once, and how long
 * after its start a process served its first. Each proxy in turn, several times, against a client that is warm.
 */
import { connect } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { startApp } from '../apps/apps.ts';
import { divideCores, stayOn } from '../machine.ts';
import { everyPeer } from '../measure.ts';
import type { Peer } from '../peers/peer.ts';
import { answerBytes } from '../probes.ts';
import { cpuSeconds } from '../process-usage.ts';
import { isInstalled } from '../programs.ts';
import { answers } from '../rule.ts';
import { median, percentile } from '../statistics.ts';
import { Workbench } from '../workbench.ts';
import { type MicroResult, progress } from './micro.ts';

for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(130));

const rounds = process.argv.includes('--quick') ? 2 : 7;
const connections = 16;
const requests = 1000;

interface Run {
  readonly readyMs: number;
  readonly cpuMs: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly worstMs: number;
}

/** Milliseconds of each request, ascending. Rejects for anything but the app's answer. */
async function ask(port: number, count: number): Promise<Float64Array> {
  const asked = `GET / HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n\r\n`;
  const took: number[] = [];
  let sent = 0;
  const one = (): Promise<void> =>
    new Promise((resolve, reject) => {
      const socket = connect({ host: '127.0.0.1', port, noDelay: true });
      let sentAt = 0;
      let received = '';
      const next = (): void => {
        if (sent >= count) {
          socket.destroy();
          resolve();
          return;
        }
        sent += 1;
        sentAt = performance.now();
        socket.write(asked);
      };
      socket.once('connect', next).once('error', reject);
      socket.on('data', (piece: Buffer) => {
        received += piece.toString('latin1');
        if (!received.endsWith(answers.http)) return;
        if (!received.startsWith('HTTP/1.1 200 ')) reject(new Error(`was answered: ${received}`));
        received = '';
        took.push(performance.now() - sentAt);
        next();
      });
      socket.once('close', () => reject(new Error('a connection was closed')));
    });
  await Promise.all(Array.from({ length: connections }, one));
  return Float64Array.from(took).sort();
}

async function run(bench: Workbench, peer: Peer, appPort: number, number: number): Promise<Run> {
  const port = await bench.freePort();
  const name = `first-${peer.name}-${number}`;
  const site = { bench, name, carriage: 'http1', mutualTls: false, listenPort: port, appPort } as const;
  const command = await peer.configure(site);
  const startedMs = performance.now();
  // It looks every 20 ms whether the port is open.
  const child = await bench.start('proxy', command, [port]);
  const readyMs = performance.now() - startedMs;
  // The connection that found the port open is no client's, and is over by now.
  const cpuBefore = cpuSeconds(child.pid);
  const took = await ask(port, requests);
  const cpuMs = (cpuSeconds(child.pid) - cpuBefore) * 1000;
  await child.end();
  return {
    readyMs,
    cpuMs,
    p50Ms: percentile(took, 0.5),
    p99Ms: percentile(took, 0.99),
    worstMs: took[took.length - 1] ?? 0,
  };
}

const cores = divideCores();
if (cores === null) throw new Error('two cores are needed: one for the proxy, one for load and app');
stayOn(cores.load);
const bench = new Workbench(cores);
const peers = everyPeer.filter(({ program }) => program === null || isInstalled(program));
const runs = new Map<Peer, Run[]>(peers.map((peer) => [peer, []]));
try {
  const appPort = await startApp(bench, 'http1');
  await answerBytes(appPort, `GET / HTTP/1.1\r\nHost: 127.0.0.1:${appPort}\r\n\r\n`);
  for (let i = 0; i < 10; i++) await ask(appPort, requests);
  for (let round = 0; round < rounds; round++) {
    for (const [peer, all] of runs) {
      progress(`round ${round + 1}/${rounds}, ${peer.name}`);
      all.push(await run(bench, peer, appPort, round));
      await delay(200);
    }
  }
} finally {
  await bench.end();
}
const middle = (all: readonly Run[], of: (run: Run) => number, digits: number): string =>
  median(all.map(of)).toFixed(digits);
const result: MicroResult = {
  columns: ['proxy', 'listens after ms', 'CPU ms of 1,000', 'p50 ms', 'p99 ms', 'worst ms'],
  rows: Array.from(runs, ([{ name }, all]) => [
    name,
    middle(all, ({ readyMs }) => readyMs, 0),
    middle(all, ({ cpuMs }) => cpuMs, 0),
    middle(all, ({ p50Ms }) => p50Ms, 2),
    middle(all, ({ p99Ms }) => p99Ms, 1),
    middle(all, ({ worstMs }) => worstMs, 1),
  ]),
};
process.stdout.write(JSON.stringify(result));
process.exit(0);
