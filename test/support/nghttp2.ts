import { once } from 'node:events';
import http2 from 'node:http2';
import net, { type AddressInfo, type Socket } from 'node:net';
import { flag, frame, preface, settingsFrame, type } from './http2-frames.ts';

/*
 * Node's HTTP/2 (nghttp2) as the other side of a header compression: what its client writes, what its server reads.
 */

interface Teardown {
  teardown(end: () => void): void;
}

/** Cuts frames off a socket's bytes. */
function readFrames(
  socket: Socket,
  skip: number,
  onFrame: (type: number, flags: number, streamId: number, payload: Buffer) => void,
): void {
  let bytes = Buffer.alloc(0);
  let left = skip;
  socket.on('data', (chunk: Buffer) => {
    bytes = Buffer.concat([bytes, chunk.subarray(Math.min(left, chunk.length))]);
    left -= Math.min(left, chunk.length);
    while (bytes.length >= 9) {
      const end = 9 + bytes.readUIntBE(0, 3);
      if (bytes.length < end) return;
      const payload = bytes.subarray(9, end);
      onFrame(bytes.readUInt8(3), bytes.readUInt8(4), bytes.readUInt32BE(5), payload);
      bytes = bytes.subarray(end);
    }
  });
}

/** Node's client as an encoder. */
export class NodeEncoder {
  readonly #server = net.createServer();

  static async open(t: Teardown): Promise<NodeEncoder> {
    const encoder = new NodeEncoder();
    encoder.#server.listen(0, '127.0.0.1');
    await once(encoder.#server, 'listening');
    t.teardown(() => encoder.#server.close());
    return encoder;
  }

  /**
   * The header blocks of requests with these fields, one after the other on one connection.
   *
   * @param tableBytes the SETTINGS_HEADER_TABLE_SIZE that the client is told before its first request.
   */
  async blocks(requests: readonly (readonly string[])[], tableBytes = 4096): Promise<Buffer[]> {
    const blocks: Buffer[] = [];
    const complete = Promise.withResolvers<void>();
    this.#server.once('connection', (socket: Socket) => {
      socket.on('error', () => {});
      socket.write(settingsFrame([[1, tableBytes]]));
      let block: Buffer = Buffer.alloc(0);
      readFrames(socket, preface.length, (frameType, flags, _streamId, payload) => {
        if (frameType === type.settings && (flags & flag.ack) === 0) socket.write(frame(type.settings, flag.ack, 0));
        if (frameType === type.headers) {
          if ((flags & flag.padded) !== 0) complete.reject(new Error('a padded frame'));
          block = Buffer.from(payload.subarray((flags & flag.priority) !== 0 ? 5 : 0));
        } else if (frameType === type.continuation) {
          block = Buffer.concat([block, payload]);
        } else {
          return;
        }
        if ((flags & flag.endHeaders) === 0) return;
        blocks.push(block);
        if (blocks.length === requests.length) complete.resolve();
      });
    });
    const client = http2.connect(`http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`);
    client.on('error', complete.reject);
    // A search that is over leaves its last run behind, and closes the server under it.
    complete.promise.catch(() => {});
    await once(client, 'remoteSettings');
    for (const fields of requests) {
      const request = client.request([...fields] as unknown as http2.OutgoingHttpHeaders, { endStream: true });
      request.on('error', () => {});
    }
    try {
      await complete.promise;
    } finally {
      client.destroy();
    }
    return blocks;
  }
}

export interface NodeReading {
  /** The fields of each block, flat; null for those that it refused or did not come to. */
  readonly fields: readonly (readonly string[] | null)[];
  /** The error that ended the connection. */
  readonly goaway: number | null;
}

/** Node's server as a decoder. */
export class NodeDecoder {
  readonly #server = http2.createServer();
  readonly #streams = new Map<number, Map<number, readonly string[]>>();

  static async open(t: Teardown): Promise<NodeDecoder> {
    const decoder = new NodeDecoder();
    const server = decoder.#server;
    server.on('sessionError', () => {});
    server.on('stream', (stream, _headers, _flags, rawHeaders) => {
      stream.on('error', () => {});
      const port = stream.session?.socket?.remotePort;
      if (port !== undefined && stream.id !== undefined) decoder.#streams.get(port)?.set(stream.id, rawHeaders);
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    t.teardown(() => server.close());
    return decoder;
  }

  /** What it makes of these header blocks, as requests on one connection. */
  async read(blocks: readonly Buffer[]): Promise<NodeReading> {
    const socket = net.connect((this.#server.address() as AddressInfo).port, '127.0.0.1');
    await once(socket, 'connect');
    const port = socket.localPort as number;
    const streams = new Map<number, readonly string[]>();
    this.#streams.set(port, streams);
    let goaway: number | null = null;
    const over = new Promise<void>((resolve) => {
      readFrames(socket, 0, (frameType, flags, _streamId, payload) => {
        if (frameType === type.goaway) goaway = payload.readUInt32BE(4);
        if (frameType === type.goaway || (frameType === type.ping && (flags & flag.ack) !== 0)) resolve();
      });
      socket.on('error', () => resolve());
      socket.on('close', () => resolve());
    });
    // The acknowledgement of the PING comes when all before it was read.
    socket.write(
      Buffer.concat([
        preface,
        settingsFrame([]),
        ...blocks.map((block, i) => frame(type.headers, flag.endHeaders | flag.endStream, 2 * i + 1, block)),
        frame(type.ping, 0, 0, Buffer.alloc(8)),
      ]),
    );
    await over;
    socket.destroy();
    this.#streams.delete(port);
    return { fields: blocks.map((_, i) => streams.get(2 * i + 1) ?? null), goaway };
  }
}
