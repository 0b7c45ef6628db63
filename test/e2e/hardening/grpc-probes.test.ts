import { createServer, type ServerHttp2Stream } from 'node:http2';
import type { AddressInfo } from 'node:net';
import t, { type Test } from 'tap';
import {
  dataFrame,
  type Fields,
  FrameClient,
  headersFrame,
  outcomeText,
  requestFields,
} from '../../support/http2-frames.ts';
import { freePorts } from '../../support/ports.ts';
import { startSallyport } from '../../support/sallyport.ts';
import { until } from '../../support/until.ts';

/*
 * The health check is open to everybody where a port is probed by gRPC. What it opens is one short message: neither a
 * way to send the app as much as one likes, nor calls that stay open for nothing.
 */

t.setTimeout(900_000);

interface Seen {
  calls: number;
  bytes: number;
  /** Calls that are neither answered nor broken off. */
  open: number;
}

/** Answers when a call has come to its end. */
async function startApp(t: Test): Promise<{ readonly port: number; readonly seen: Seen }> {
  const seen: Seen = { calls: 0, bytes: 0, open: 0 };
  const app = createServer();
  app.on('stream', (stream: ServerHttp2Stream) => {
    seen.calls++;
    seen.open++;
    stream.on('error', () => {});
    stream.on('data', (chunk: Buffer) => {
      seen.bytes += chunk.length;
    });
    stream.on('end', () => {
      if (stream.destroyed) return;
      stream.respond({ 'content-type': 'application/grpc', 'grpc-status': '0' }, { endStream: true });
    });
    stream.on('close', () => seen.open--);
  });
  await new Promise<void>((resolve) => app.listen(0, '127.0.0.1', resolve));
  t.teardown(() => app.close());
  return { port: (app.address() as AddressInfo).port, seen };
}

const check: Fields = requestFields(
  '/grpc.health.v1.Health/Check',
  [
    ['content-type', 'application/grpc'],
    ['te', 'trailers'],
  ],
  'POST',
);
/** One message of so many bytes, its prefix included. */
const message = (length: number): Buffer => {
  const bytes = Buffer.alloc(length, 0x20);
  bytes.writeUInt8(0, 0);
  bytes.writeUInt32BE(length - 5, 1);
  return bytes;
};
const empty = message(5);

const rows: readonly (readonly [title: string, frames: readonly (readonly [Buffer, boolean])[], outcome: string])[] = [
  ['of one service', [[message(40), true]], '200'],
  ['of a long name', [[message(4096), true]], '200'],
  ['of a longer one', [[message(4097), true]], 'reset'],
  ['of many messages', Array.from({ length: 900 }, () => [empty, false]), 'reset'],
  ['of a large message that has just begun', [[message(16_384), false]], 'reset'],
  ['that says nothing', [], 'reset'],
  ['that does not end', [[empty, false]], 'reset'],
];

t.test('calls of the health check', async (t) => {
  const app = await startApp(t);
  const [port = 0] = await freePorts(1);
  const sallyport = await startSallyport(t, {
    env: {
      SALLYPORT_PROBES: `grpc:${port}`,
      SALLYPORT_INBOUND_PORTS: `${port}=127.0.0.1:${app.port}`,
      SALLYPORT_STALL_TIMEOUT: '1s',
    },
  });
  for (const [title, frames, outcome] of rows) {
    const before = { ...app.seen };
    // 127.0.0.1 is let in by another authorization.
    const client = await FrameClient.open({ port, localAddress: '127.0.0.9' });
    client.send(headersFrame(1, check, false), ...frames.map(([bytes, end]) => dataFrame(1, bytes, end)));
    t.equal(outcomeText(await client.outcome(1, 10_000)), outcome, `a call ${title}`);
    await until('the end of the call', () => app.seen.open === 0);
    t.ok(app.seen.bytes - before.bytes <= 4096, `${title}: what the app gets`);
    client.destroy();
  }
  t.match(await sallyport.stop(), { code: 0 });
});
