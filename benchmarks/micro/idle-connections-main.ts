/** Prints a MicroResult: resident memory of a running Sallyport with thousands of connections that had one request each. */
import { connect as connectTcp, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { connect as connectTls } from 'node:tls';
import { mapBounded, within } from '../../test/support/until.ts';
import { startApp } from '../apps/apps.ts';
import { divideCores } from '../machine.ts';
import { sallyport } from '../peers/sallyport.ts';
import { residentBytes } from '../process-usage.ts';
import { answers } from '../rule.ts';
import { Workbench } from '../workbench.ts';
import type { MicroResult } from './micro.ts';

for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(130));

const atOnce = 32;
const requestTimeoutMs = 20_000;
/** All come from one address, which may have half of them unless told otherwise. */
const limits = { SALLYPORT_MAX_CONNECTIONS: '12000', SALLYPORT_MAX_CONNECTIONS_PER_CLIENT: '12000' };

interface Wanted {
  readonly mutualTls: boolean;
  readonly count: number;
}

async function measure({ mutualTls, count }: Wanted): Promise<(string | number)[]> {
  const cores = divideCores();
  if (cores === null) throw new Error('two cores are needed');
  const bench = new Workbench(cores);
  try {
    const appPort = await startApp(bench, 'http1');
    const port = await bench.freePort();
    const site = { bench, name: 'idle', carriage: 'http1', mutualTls, listenPort: port, appPort } as const;
    const proxy = await sallyport.configure(site);
    const { pid } = await bench.start('proxy', { ...proxy, env: { ...proxy.env, ...limits } }, [port]);
    const host = mutualTls ? bench.credentials.serverName : `127.0.0.1:${port}`;
    const dial = (): Socket => {
      const tcp = connectTcp({ host: '127.0.0.1', port });
      if (!mutualTls) return tcp;
      const { serverName, trustAnchors, clientCertificate, clientKey } = bench.credentials;
      return connectTls({
        socket: tcp,
        servername: serverName,
        ca: trustAnchors,
        cert: clientCertificate,
        key: clientKey,
      });
    };
    const sockets: Socket[] = [];
    let closed = 0;
    const open = async (): Promise<void> => {
      const socket = dial();
      socket.once('close', () => {
        closed += 1;
      });
      await within('an answer', requestTimeoutMs, request(socket, host));
      sockets.push(socket);
    };
    // Code that runs for the first time needs memory too, once.
    await mapBounded(Array.from({ length: 200 }), atOnce, open);
    await settled(pid);
    const before = residentBytes(pid);
    const held = sockets.length;
    await mapBounded(Array.from({ length: count }), atOnce, open);
    await settled(pid);
    const after = residentBytes(pid);
    if (closed > 0) throw new Error(`${closed} of ${sockets.length} idle connections were closed by the proxy`);
    for (const socket of sockets) socket.destroy();
    const added = sockets.length - held;
    return [
      mutualTls ? 'mutual TLS' : 'plain',
      added,
      (before / 2 ** 20).toFixed(0),
      (after / 2 ** 20).toFixed(0),
      ((after - before) / added / 1024).toFixed(1),
    ];
  } finally {
    await bench.end();
  }
}

/** One GET, kept alive. Rejects for anything but the app's answer. */
function request(socket: Socket, host: string): Promise<void> {
  return new Promise((resolve, reject) => {
    let received = '';
    socket.on('error', reject);
    socket.once('close', () => reject(new Error('closed before the answer')));
    socket.on('data', (piece: Buffer) => {
      received += piece.toString('latin1');
      if (!received.includes(answers.http.trimEnd())) return;
      if (received.startsWith('HTTP/1.1 200 ')) resolve();
      else reject(new Error(received.split('\r\n')[0]));
    });
    socket.write(`GET / HTTP/1.1\r\nHost: ${host}\r\n\r\n`);
  });
}

/**
 * Until the resident set has stopped moving: collection goes on for a while after the last request, and a quiet process gives
 * memory back ten seconds after it last did.
 */
async function settled(pid: number): Promise<void> {
  const samples = [residentBytes(pid)];
  for (let i = 0; i < 80; i++) {
    await delay(500);
    samples.push(residentBytes(pid));
    const recent = samples.slice(-30);
    if (recent.length === 30 && Math.max(...recent) - Math.min(...recent) < 0.02 * Math.max(...recent)) return;
  }
}

const quick = process.argv.includes('--quick');
const wanted: readonly Wanted[] = [
  { mutualTls: false, count: quick ? 1000 : 9800 },
  { mutualTls: true, count: quick ? 200 : 2000 },
];
const rows: (string | number)[][] = [];
for (const each of wanted) rows.push(await measure(each));
const result: MicroResult = {
  columns: ['connections', 'added', 'MiB before', 'MiB after', 'KiB each'],
  rows,
};
process.stdout.write(JSON.stringify(result));
process.exit(0);
