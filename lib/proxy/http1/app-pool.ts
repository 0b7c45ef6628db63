import type { Endpoint } from '../endpoint.ts';
import { eachGuarded } from '../guard.ts';
import type { PendingConnect, Upstreams } from '../upstream.ts';
import { AppConnection } from './app-connection.ts';

/** Longest idle life of a connection to the app (Linkerd's figure): many apps close theirs after 5 s. */
const maxIdleMs = 3000;

/** One for all: a read is handed on, or copied, before the next one can happen. */
const readBuffer = Buffer.allocUnsafeSlow(64 * 1024);

function isStale({ idleSince, idleMs }: AppConnection, now: number): boolean {
  return now - idleSince > Math.min(idleMs, maxIdleMs);
}

/** Idle keep-alive connections to one app address; the one used last is taken first, so the rest can age. */
export class AppPool {
  readonly #endpoint: Endpoint;
  readonly #upstreams: Upstreams;
  readonly #idle: AppConnection[] = [];

  constructor(endpoint: Endpoint, upstreams: Upstreams) {
    this.#endpoint = endpoint;
    this.#upstreams = upstreams;
  }

  /** An idle connection, or null. */
  take(): AppConnection | null {
    const now = performance.now();
    for (;;) {
      const connection = this.#idle.pop();
      if (connection === undefined) return null;
      const { socket } = connection;
      if (socket.destroyed || !socket.writable) continue;
      // Sweeps come late, and an app that closes as promised would take a request with it that must not be repeated.
      if (!isStale(connection, now)) return connection;
      socket.destroy();
    }
  }

  connect(done: (error: Error | null, connection: AppConnection | null) => void): PendingConnect {
    let connection: AppConnection | null = null;
    const onread = {
      buffer: readBuffer,
      callback: (length: number): boolean => connection?.receive(readBuffer.subarray(0, length)) ?? false,
    };
    return this.#upstreams.connect(
      this.#endpoint,
      (error, socket) => {
        if (error === null) connection = new AppConnection(socket, this);
        done(error, connection);
      },
      onread,
    );
  }

  release(connection: AppConnection): void {
    connection.idleSince = performance.now();
    this.#idle.push(connection);
  }

  forget(connection: AppConnection): void {
    const at = this.#idle.lastIndexOf(connection);
    if (at !== -1) this.#idle.splice(at, 1);
  }

  /** Closes what has been idle too long. */
  sweep(now: number): void {
    const stale = this.#idle.filter((idle) => isStale(idle, now));
    eachGuarded('idle connections to the app', stale, (connection) => connection.destroy());
  }

  close(): void {
    for (const { socket } of [...this.#idle]) socket.destroy();
  }
}
