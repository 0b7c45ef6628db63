/**
 * Many connections that cost their sender next to nothing: while each flood lasts, somebody else is served as before, what
 * the proxy holds stays within its budget, and afterwards nothing of it is left. SALLYPORT_FLOOD multiplies the numbers
 * (1 in CI, 4 for the whole).
 */
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { connect as tlsConnect } from 'node:tls';
import t, { type Test } from 'tap';
import { closedServer, http1Outcome, http1Request } from '../../support/attacked-routes.ts';
import { workloadCertificate, workloadName } from '../../support/certificates.ts';
import { identityEnvironment, temporaryFolder } from '../../support/files.ts';
import { percentile, startBystander, startFloodApp } from '../../support/flooded.ts';
import { attachHeapProbe, inspectorEnvironment } from '../../support/heap.ts';
import {
  flag,
  frame,
  type as frameType,
  headersFrame,
  preface,
  requestFields,
  setting,
  settingsFrame,
} from '../../support/http2-frames.ts';
import { scrape } from '../../support/metrics.ts';
import { openServer, policyEnvironment } from '../../support/open-policy.ts';
import { freePorts } from '../../support/ports.ts';
import { offTheFastLane } from '../../support/raw-http.ts';
import { startSallyport } from '../../support/sallyport.ts';
import { scheduled } from '../../support/scheduling.ts';
import { mapBounded, until } from '../../support/until.ts';

const scale = Number(process.env.SALLYPORT_FLOOD ?? '1');
const megabyte = 1 << 20;
const budget = 32 * megabyte;

interface Flood {
  readonly name: string;
  readonly connections: number;
  readonly to: 'http' | 'tcp' | 'denied';
  /** What each sends at once; the connection then stands still. */
  readonly sends: Buffer;
  /** All of them are connected first, and then send at one moment. */
  readonly together?: true;
  /** Sent again and again, for as long as it is taken. */
  readonly repeats?: Buffer;
  /** Takes its responses. */
  readonly reads?: true;
}

const text = (request: string): Buffer => Buffer.from(request, 'latin1');
const streams = Array.from({ length: 250 }, (_, i) => headersFrame(2 * i + 1, requestFields('/large')));

const folder = t.testdir();
const own = workloadCertificate('web', 'shop');
/** As Node sends it; the handshake is never gone on with. */
const clientHello = await firstBytes(workloadName('web', 'shop'));

const floods: readonly Flood[] = [
  { name: 'silence', connections: 1000, to: 'http', sends: Buffer.alloc(0) },
  {
    name: 'half heads',
    connections: 1000,
    to: 'http',
    sends: text(`GET / HTTP/1.1\r\nHost: web\r\nX: ${'a'.repeat(12_000)}`),
  },
  {
    name: 'heads as large as they may be',
    connections: 300,
    to: 'http',
    sends: text(
      http1Request(
        '/',
        Array.from({ length: 51 }, (_, i) => `X-${i}: ${'a'.repeat(990)}`),
      ),
    ),
    together: true,
  },
  { name: 'ClientHellos', connections: 400, to: 'http', sends: clientHello, together: true },
  {
    name: 'refusals by a thousand authorizations',
    connections: 1000,
    to: 'denied',
    sends: text(http1Request('/')),
    together: true,
  },
  { name: 'slow readers', connections: 300, to: 'http', sends: text(http1Request('/large')) },
  {
    name: 'slow readers at one moment',
    connections: 250,
    to: 'http',
    sends: text(http1Request('/large')),
    together: true,
  },
  {
    name: 'slow readers off the fast lane',
    connections: 150,
    to: 'http',
    sends: text(http1Request('/large', offTheFastLane)),
  },
  {
    name: 'slow readers off the fast lane, at one moment',
    connections: 150,
    to: 'http',
    sends: text(http1Request('/large', offTheFastLane)),
    together: true,
  },
  {
    name: 'responses in many pieces',
    connections: 100,
    to: 'http',
    sends: text(http1Request('/pieces')),
    together: true,
    reads: true,
  },
  {
    name: 'responses in many pieces, off the fast lane',
    connections: 100,
    to: 'http',
    sends: text(http1Request('/pieces', offTheFastLane)),
    together: true,
    reads: true,
  },
  {
    name: 'slow uploads',
    connections: 1000,
    to: 'http',
    sends: text(`${http1Request('/', ['Content-Length: 100000'], 'POST')}abc`),
  },
  {
    name: 'uploads that the app leaves unread',
    connections: 200,
    to: 'http',
    sends: text(http1Request('/unread', ['Content-Length: 100000000'], 'POST')),
    repeats: Buffer.alloc(64 * 1024, 'z'),
  },
  {
    name: 'pipelining',
    connections: 200,
    to: 'http',
    sends: Buffer.alloc(0),
    repeats: text(http1Request('/').repeat(200)),
  },
  { name: 'stalled tunnels', connections: 400, to: 'tcp', sends: text('\x00') },
  {
    name: 'HTTP/2 streams without a window',
    connections: 48,
    to: 'http',
    sends: Buffer.concat([
      preface,
      settingsFrame([[setting.initialWindowSize, 0]]),
      frame(frameType.settings, flag.ack, 0),
      ...streams,
    ]),
  },
];

t.setTimeout(1_800_000);

const app = await startFloodApp(t);
const [web = 0, tcp = 0, denied = 0, asidePort = 0] = await freePorts(4);
const ports = { http: web, tcp, denied };
const inspector = await inspectorEnvironment();
const sallyport = await startSallyport(t, {
  env: {
    ...policyEnvironment(
      folder,
      openServer('web', web) +
        openServer('tcp', tcp, 'opaque') +
        closedServer('denied', denied) +
        thousandFor('denied'),
    ),
    ...identityEnvironment(join(folder, 'identity'), own),
    SALLYPORT_INBOUND_PORTS: `${web}=127.0.0.1:${app.http},${denied}=127.0.0.1:${app.http},${tcp}=127.0.0.1:${app.firehose}`,
    SALLYPORT_MAX_BUFFERED_BYTES: String(budget),
    // Nobody learns that a client has gone whose content the app leaves unread.
    SALLYPORT_STALL_TIMEOUT: '8s',
    // The heap that is looked at, and what a collection of it has not got to, are those of one thread.
    SALLYPORT_WORKERS: '1',
    ...inspector.env,
  },
});
const heap = await attachHeapProbe(sallyport.child.process.pid as number, inspector.port);
t.teardown(() => heap.detach());
/** Before the same app, and attacked by nobody: what a bystander waits there is the machine's and the app's doing. */
await startSallyport(t, {
  env: {
    ...policyEnvironment(temporaryFolder(t), openServer('web', asidePort)),
    SALLYPORT_INBOUND_PORTS: `${asidePort}=127.0.0.1:${app.http}`,
  },
});
const bystander = await startBystander(t, [web, asidePort]);

/** Authorizations for somebody else, each. */
function thousandFor(server: string): string {
  return Array.from(
    { length: 1000 },
    (_, i) => `---
apiVersion: policy.linkerd.io/v1alpha1
kind: AuthorizationPolicy
metadata: {name: for-somebody-else-${i}, namespace: shop}
spec:
  targetRef: {group: policy.linkerd.io, kind: Server, name: ${server}}
  requiredAuthenticationRefs: [{kind: ServiceAccount, name: somebody-else-${i}}]
`,
  ).join('');
}

/** What a TLS client says first. */
async function firstBytes(servername: string): Promise<Buffer> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const client = tlsConnect({ host: '127.0.0.1', port: (server.address() as AddressInfo).port, servername });
  client.on('error', () => {});
  const [socket] = (await once(server, 'connection')) as [Socket];
  const [bytes] = (await once(socket, 'data')) as [Buffer];
  socket.destroy();
  client.destroy();
  server.close();
  return bytes;
}

const settle = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
const descriptors = async (): Promise<number> => (await scrape(sallyport.adminPort)).sum('process_open_fds');

await settle(1000);
const [startHeap, startDescriptors] = [await heap.usedAfterCollection(), await descriptors()];

/** Milliseconds that a bystander may wait longer than without the flood, 99 times in 100. */
const mostDelay = 50;
/** Or this share of the time for which a flood that comes at one moment keeps the proxy busy, on a machine that takes long for it. */
const mostShare = 0.25;

/** False when it was too slow for the bystander; a single measurement can be bad luck. */
async function flood(
  t: Test,
  { connections, to, sends, repeats, together, reads }: Flood,
  last: boolean,
): Promise<boolean> {
  const count = Math.ceil(connections * scale);
  const sockets: Socket[] = [];
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
  });
  const baseline = sallyport.residentBytes();
  await bystander.take();
  const before = scheduled(sallyport.pid);
  await mapBounded(Array.from({ length: count }), 50, () => {
    const socket = connect({
      host: '127.0.0.1',
      // Somebody else than the bystander, as far as a proxy can tell.
      localAddress: '127.0.0.2',
      port: ports[to],
      allowHalfOpen: true,
    });
    sockets.push(socket);
    socket.on('error', () => {});
    if (reads === true) socket.resume();
    else socket.pause();
    const pour = (): void => {
      // A connection each turn, so that the test itself stays awake.
      if (repeats !== undefined && !socket.destroyed && socket.write(repeats)) setImmediate(pour);
    };
    socket.on('drain', pour);
    return new Promise<void>((resolve) => {
      socket.once('close', () => resolve());
      socket.once('connect', () => {
        if (sends.length > 0 && together !== true) socket.write(sends);
        pour();
        resolve();
      });
    });
  });
  if (together === true) {
    // All of them have been accepted, and what they send is not read one connection after the other.
    t.equal(await http1Outcome(web, http1Request('/')), '200', 'who comes before they ask is served');
    for (const socket of sockets) if (!socket.destroyed) socket.write(sends);
  }
  // They are accepted in order: a client behind a thousand others waits for these, and nobody else does.
  t.equal(await http1Outcome(web, http1Request('/')), '200', 'who comes after them is served');
  const arriving = await bystander.take();
  let most = 0;
  for (let i = 0; i < 15; i++) {
    await settle(200);
    most = Math.max(most, sallyport.residentBytes());
  }
  const standing = await bystander.take();
  for (const { failures } of [...arriving, ...standing]) t.same(failures, [], 'none of its requests fails');
  const [attacked, aside] = standing.map(({ kept, fresh }, i) => {
    const all = [...(arriving[i]?.kept ?? []), ...kept, ...fresh];
    t.ok(all.length > 20, `${all.length} requests`);
    return percentile(all, 0.99);
  }) as [number, number];
  const grown = most - baseline;
  // A proxy that works also waits for a processor where others have work too, which one that idles hardly does: of what
  // a request waits longer, only the share in which the proxy ran is its own doing.
  const { ranMs, waitedMs } = scheduled(sallyport.pid, before);
  const delay = Math.max(0, attacked - aside) * (ranMs / (ranMs + waitedMs));
  const fast = delay < (together === true ? Math.max(mostDelay, ranMs * mostShare) : mostDelay);
  t.comment(
    `${count} connections: p99 ${attacked.toFixed(1)} ms, aside ${aside.toFixed(1)} ms; new connections among those that came ${Math.max(0, ...(arriving[0]?.fresh ?? [])).toFixed(0)} ms at most`,
  );
  t.comment(
    `${(grown / megabyte).toFixed(0)} MB more; ran ${ranMs.toFixed(0)} ms, waited for a processor ${waitedMs.toFixed(0)} ms`,
  );
  if (fast || last) t.ok(fast, `p99 is ${delay.toFixed(1)} ms more than aside`);
  // The budget, what the connections themselves take (TLS none: 20 KB on both sides), and what a collection had not got to.
  t.ok(grown < budget + count * 40_000 + 150 * megabyte, `${(grown / megabyte).toFixed(0)} MB more at most`);
  for (const socket of sockets) socket.destroy();
  await until('all to be let go', async () => (await descriptors()) <= startDescriptors + 40, {
    timeoutMs: 45_000,
    everyMs: 250,
  });
  return fast;
}

/** One that is named, to look at alone. */
const only = process.env.SALLYPORT_FLOOD_ONLY;
const attempts = 5;
for (const each of floods.filter(({ name }) => only === undefined || name === only)) {
  await t.test(each.name, async (t) => {
    for (let attempt = 1; attempt <= attempts && !(await flood(t, each, attempt === attempts)); attempt++);
  });
}

t.test('nothing is left', async (t) => {
  const metrics = await scrape(sallyport.adminPort);
  t.equal(metrics.sum('sallyport_internal_errors_total'), 0, 'no fault of ours');
  let used = 0;
  await until(
    'the heap to be as small as it was',
    async () => {
      used = await heap.usedAfterCollection();
      return used < startHeap + 8 * megabyte;
    },
    { timeoutMs: 20_000, everyMs: 1000, lastSeen: () => `${used} after ${startHeap}` },
  );
  t.pass(`${used} after ${startHeap}`);
  t.ok(Number.isFinite(used));
});
