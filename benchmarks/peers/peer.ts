import type { Program } from '../programs.ts';
import type { Command, Workbench } from '../workbench.ts';

/** What is carried from client to app. `http2-to-http1`: the client speaks HTTP/2, the app HTTP/1.1. */
export type Carriage = 'http1' | 'websocket' | 'http2' | 'http2-to-http1' | 'grpc' | 'tcp';

export interface Way {
  readonly carriage: Carriage;
  /** The client's side is TLS and the client shows a certificate of our authority. */
  readonly mutualTls: boolean;
}

/** One proxy's place in a scenario. */
export interface Site extends Way {
  readonly bench: Workbench;
  /** For file names; unique within the run. */
  readonly name: string;
  readonly listenPort: number;
  readonly appPort: number;
}

export interface Prepared extends Command {
  /** Where its metrics tell of pauses of its event loop; absent where it has none. */
  readonly metricsPort?: number;
}

export interface Peer {
  /** `before`: another checkout of Sallyport. */
  readonly name: 'sallyport' | 'before' | 'haproxy' | 'nginx' | 'caddy';
  /** Null where nothing has to be installed. */
  readonly program: Program | null;
  /** False where the proxy cannot do this, or not with Debian's build. */
  can(way: Way): boolean;
  /** Writes its configuration and says how to start it: one process, one thread for traffic, in the foreground. */
  configure(site: Site): Promise<Prepared>;
}
