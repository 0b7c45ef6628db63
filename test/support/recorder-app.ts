import type { Socket } from 'node:net';
import type { Teardown } from './children.ts';
import { lenientParser, type RecordedRequest, type RequestParser, strictParser } from './request-parsers.ts';
import { startSocketApp } from './socket-app.ts';
import { until } from './until.ts';

export interface RecordedConnection {
  readonly requests: readonly RecordedRequest[];
  /** Every byte the proxy sent on it. */
  bytes(): Buffer;
  /** A message has begun and is neither complete nor given up. */
  readonly midMessage: boolean;
  /** The connection ended in the middle of a message: what an aborted request looks like to an app. */
  readonly aborted: boolean;
  /** Why the strict parser gave up on it; null otherwise. */
  readonly malformed: string | null;
  readonly closed: boolean;
}

/** A moment in the recording, to ask later what came after it. */
export interface Mark {
  readonly connections: number;
  readonly requests: readonly number[];
  readonly lengths: readonly number[];
}

export interface RecorderApp {
  readonly port: number;
  readonly connections: readonly RecordedConnection[];
  mark(): Mark;
  /** Completed messages since the mark, over all connections, old and new. */
  requestsSince(mark: Mark): RecordedRequest[];
  bytesSince(mark: Mark): Buffer;
  /** Connections, since the mark, on which a message was cut short. */
  abortedSince(mark: Mark): number;
  malformedSince(mark: Mark): string[];
  /** Waits until no connection is inside a message: what was begun has been completed or aborted. */
  settled(timeoutMs?: number): Promise<void>;
}

class Recording implements RecordedConnection {
  requests: RecordedRequest[] = [];
  chunks: Buffer[] = [];
  pending: Buffer = Buffer.alloc(0);
  midMessage = false;
  aborted = false;
  malformed: string | null = null;
  closed = false;
  continued = false;
  length = 0;

  bytes(): Buffer {
    return Buffer.concat(this.chunks);
  }
}

/** An app that records the exact bytes of every connection and answers 200 without a body to each request it parses. */
export async function startRecorder(t: Teardown, reading: 'strict' | 'lenient'): Promise<RecorderApp> {
  const parse = reading === 'strict' ? strictParser : lenientParser;
  const connections: Recording[] = [];
  const serve = (socket: Socket): void => {
    const recording = new Recording();
    connections.push(recording);
    socket.setNoDelay(true);
    socket.on('data', (chunk: Buffer) => {
      recording.chunks.push(chunk);
      recording.length += chunk.length;
      if (recording.malformed !== null) return;
      recording.pending = recording.pending.length === 0 ? chunk : Buffer.concat([recording.pending, chunk]);
      advance(recording, parse, socket);
    });
    socket.on('close', () => {
      recording.closed = true;
      recording.aborted = recording.midMessage;
      recording.midMessage = false;
    });
  };
  const app = (port: number): RecorderApp => ({
    port,
    connections,
    mark: () => ({
      connections: connections.length,
      requests: connections.map((connection) => connection.requests.length),
      lengths: connections.map((connection) => connection.length),
    }),
    requestsSince: (mark) => connections.flatMap((connection, i) => connection.requests.slice(mark.requests[i] ?? 0)),
    bytesSince: (mark) =>
      Buffer.concat(connections.map((connection, i) => connection.bytes().subarray(mark.lengths[i] ?? 0))),
    abortedSince: (mark) =>
      connections.filter((connection, i) => connection.aborted && connection.length > (mark.lengths[i] ?? 0)).length,
    malformedSince: (mark) =>
      connections.flatMap((connection, i) =>
        connection.malformed !== null && connection.length > (mark.lengths[i] ?? 0) ? [connection.malformed] : [],
      ),
    settled: async (timeoutMs = 3_000) => {
      await until(
        'the app to see every begun message completed or aborted',
        () => !connections.some((c) => c.midMessage),
        {
          timeoutMs,
          lastSeen: () =>
            JSON.stringify(
              connections.filter((c) => c.midMessage).map((c) => c.pending.toString('latin1').slice(0, 200)),
            ),
        },
      );
    },
  });
  const { port } = await startSocketApp(t, serve);
  return app(port);
}

function advance(recording: Recording, parse: RequestParser, socket: Socket): void {
  for (;;) {
    const progress = parse(recording.pending);
    recording.midMessage = progress.kind === 'begun';
    switch (progress.kind) {
      case 'idle':
        return;
      case 'begun':
        if (progress.wants100 && !recording.continued) {
          recording.continued = true;
          socket.write('HTTP/1.1 100 Continue\r\n\r\n');
        }
        return;
      case 'malformed':
        recording.malformed = progress.why;
        socket.end('HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n');
        return;
      case 'complete':
        recording.requests.push(progress.request);
        recording.pending = recording.pending.subarray(progress.end);
        recording.continued = false;
        socket.write('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n');
        if (recording.pending.length === 0) return;
    }
  }
}
