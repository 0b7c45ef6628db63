/**
 * Attackers that cost themselves next to nothing and a proxy memory, on a thread of their own. Each opens connections of one
 * kind, at a pace, and leaves them open; who is closed by the proxy comes again, as a real attacker would.
 */
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { Duplex } from 'node:stream';
import { createSecureContext, connect as tlsConnect } from 'node:tls';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { testCertificate } from './certificates.ts';
import type { Teardown } from './children.ts';
import {
  flag,
  frame,
  type as frameType,
  headersFrame,
  preface,
  requestFields,
  setting,
  settingsFrame,
} from './http2-frames.ts';

/** What one connection of an attacker does; `idle` ones have had one request answered. */
export type AttackKind = keyof typeof attacks;

export interface Attack {
  readonly kind: AttackKind;
  readonly port: number;
  /** Whom a TLS client calls. */
  readonly servername: string;
  /** Connections that are open at a time. */
  readonly connections: number;
  /** Connections that are begun in a second. */
  readonly perSecond: number;
  /** Addresses from which they come, of 127.0.0.0/8. */
  readonly sources: number;
}

export interface Attacker {
  /** Connections begun so far, and those that stand now. */
  counts(): Promise<{ readonly begun: number; readonly open: number }>;
  stop(): Promise<void>;
}

interface Opening {
  readonly port: number;
  readonly servername: string;
  readonly localAddress: string;
}

const text = (request: string): Buffer => Buffer.from(request, 'latin1');
const dial = ({ port, localAddress }: Opening): Socket =>
  connect({ host: '127.0.0.1', port, localAddress, allowHalfOpen: true });

function sending(bytes: Uint8Array): (opening: Opening) => Socket {
  return (opening) => {
    const socket = dial(opening);
    socket.once('connect', () => socket.write(bytes)).resume();
    return socket;
  };
}

/** `ALPN` of what is spoken; null: no request follows the handshake. */
function secured(alpn: string | null, bytes: Buffer): (opening: Opening) => Socket {
  // What a client verifies costs it most of the handshake.
  const secureContext = createSecureContext({ ecdhCurve: 'X25519' });
  return ({ port, servername, localAddress }) => {
    const to = { host: '127.0.0.1', port, localAddress } as object;
    const alpnProtocols = alpn === null ? {} : { ALPNProtocols: [alpn] };
    const socket = tlsConnect({ ...to, servername, secureContext, rejectUnauthorized: false, ...alpnProtocols });
    socket.once('secureConnect', () => socket.write(bytes)).resume();
    return socket;
  };
}

let hello: Uint8Array = new Uint8Array(0);

/** What a TLS client says first. */
async function clientHello(servername: string): Promise<Uint8Array> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const client = tlsConnect({ host: '127.0.0.1', port, servername });
  client.on('error', () => {});
  const [socket] = (await once(server, 'connection')) as [Socket];
  const [bytes] = (await once(socket, 'data')) as [Buffer];
  socket.destroy();
  client.destroy();
  server.close();
  return bytes;
}

/** A certificate of so many bytes, which need not be anybody's. */
const certificateBytes = 86 * 1024;
/** Of the client's flight: what is sent of it. The rest stays away. */
const sentBytes = 84 * 1024;

function largeCertificate(): { readonly cert: string; readonly key: string } {
  const names = Array.from({ length: Math.floor(certificateBytes / 64) }, (_, i) => `${String(i).padStart(58, 'n')}.a`);
  const { certificatePem, keyPem } = testCertificate({ dnsNames: names });
  return { cert: certificatePem, key: keyPem };
}

/** A handshake that stops within the client's Certificate (RFC 8446 section 4.4.2). */
function halfCertificate(): (opening: Opening) => Socket {
  let secureContext: ReturnType<typeof createSecureContext> | null = null;
  return (opening) => {
    secureContext ??= createSecureContext({ ...largeCertificate(), ecdhCurve: 'X25519' });
    const socket = dial(opening);
    let left = sentBytes;
    const cut = new Duplex({
      read() {},
      write(chunk: Buffer, _encoding, done) {
        const part = chunk.subarray(0, left);
        left -= part.length;
        if (part.length > 0) socket.write(part);
        done();
      },
    });
    socket.on('data', (chunk: Buffer) => cut.push(chunk));
    const { servername } = opening;
    tlsConnect({ socket: cut, servername, secureContext, rejectUnauthorized: false }).on('error', () => {});
    return socket;
  };
}

const get = text('GET / HTTP/1.1\r\nHost: web\r\n\r\n');
const halfHead = text(`GET / HTTP/1.1\r\nHost: web\r\n${`X-A: ${'a'.repeat(1000)}\r\n`.repeat(60)}`);
const openingFrames = Buffer.concat([preface, settingsFrame([]), frame(frameType.settings, flag.ack, 0)]);

/** A request of 64 KB of fields for 30 bytes on the wire each (RFC 7541 section 6.1): one long field, indexed, again and again. */
function indexedHeads(streams: number): Buffer {
  const value = 'v'.repeat(3900);
  const indexed = Buffer.concat([
    Buffer.of(0x40, 1),
    text('k'),
    Buffer.of(127, ((value.length - 127) & 127) | 128, (value.length - 127) >> 7),
    text(value),
  ]);
  const first = headersFrame(1, requestFields('/hang'));
  const heads: Buffer[] = [
    Buffer.concat([
      frame(frameType.headers, flag.endHeaders | flag.endStream, 1, Buffer.concat([first.subarray(9), indexed])),
    ]),
  ];
  for (let i = 1; i < streams; i++) {
    const again = Buffer.concat([headersFrame(1, requestFields('/hang')).subarray(9), Buffer.alloc(15, 0x80 | 62)]);
    heads.push(frame(frameType.headers, flag.endHeaders | flag.endStream, 2 * i + 1, again));
  }
  return Buffer.concat(heads);
}

const webSocket = text(
  [
    'GET /websocket HTTP/1.1',
    'Host: web',
    'Connection: Upgrade',
    'Upgrade: websocket',
    'Sec-WebSocket-Version: 13',
    `Sec-WebSocket-Key: ${randomBytes(16).toString('base64')}`,
    '\r\n',
  ].join('\r\n'),
);

function unread(bytes: Buffer): (opening: Opening) => Socket {
  return (opening) => {
    const socket = dial(opening);
    socket.once('connect', () => socket.write(bytes)).pause();
    return socket;
  };
}

const h2Get = Buffer.concat([openingFrames, headersFrame(1, requestFields('/'))]);
const attacks = {
  silent: sending(Buffer.alloc(0)),
  'http/1 idle': sending(get),
  'half a head': sending(halfHead),
  'a ClientHello': (opening) => sending(hello)(opening),
  'half a Certificate': halfCertificate(),
  'TLS silent': secured(null, Buffer.alloc(0)),
  'TLS, http/1 idle': secured('http/1.1', get),
  'http/2 idle': sending(h2Get),
  'TLS, http/2 idle': secured('h2', h2Get),
  'heads of HPACK': sending(Buffer.concat([openingFrames, indexedHeads(4)])),
  'http/2 without a window': sending(
    Buffer.concat([
      preface,
      settingsFrame([[setting.initialWindowSize, 0]]),
      frame(frameType.settings, flag.ack, 0),
      ...Array.from({ length: 250 }, (_, i) => headersFrame(2 * i + 1, requestFields('/large'))),
    ]),
  ),
  'a WebSocket': sending(webSocket),
  'a WebSocket nobody reads': unread(webSocket),
  'a slow reader': unread(text('GET /large HTTP/1.1\r\nHost: web\r\n\r\n')),
  'pipelined requests': unread(text('GET /large HTTP/1.1\r\nHost: web\r\n\r\n'.repeat(200))),
  'a tunnel nobody reads': unread(text('\x00')),
} as const satisfies Record<string, (opening: Opening) => Socket>;

/** Starts to open connections at once. */
export async function startAttacker(t: Teardown, attack: Attack): Promise<Attacker> {
  const worker = new Worker(new URL(import.meta.url), { workerData: attack });
  t.teardown(async () => {
    await worker.terminate();
  });
  await once(worker, 'message');
  return {
    async counts() {
      worker.postMessage('count');
      const [counts] = (await once(worker, 'message')) as [{ begun: number; open: number }];
      return counts;
    },
    async stop() {
      await worker.terminate();
    },
  };
}

async function run(attack: Attack): Promise<void> {
  const { kind, port, servername, connections, perSecond, sources } = attack;
  hello = Uint8Array.from(await clientHello(servername));
  const open = new Set<Socket>();
  let begun = 0;
  const startedAt = performance.now();
  const attackMore = (): void => {
    const due = Math.min(begun + 50, Math.ceil(((performance.now() - startedAt) / 1000) * perSecond));
    while (begun < due && open.size < connections) {
      begun++;
      const localAddress = `127.0.${1 + Math.floor((begun % sources) / 250)}.${1 + ((begun % sources) % 250)}`;
      const socket = attacks[kind]({ port, servername, localAddress });
      open.add(socket);
      socket.on('error', () => {}).once('close', () => open.delete(socket));
      socket.once('end', () => socket.destroy());
    }
  };
  setInterval(attackMore, 5);
  parentPort?.on('message', () => parentPort?.postMessage({ begun, open: open.size }));
  parentPort?.postMessage('ready');
}

if (!isMainThread && parentPort !== null) await run(workerData as Attack);
