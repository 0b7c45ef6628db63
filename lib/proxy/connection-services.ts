import type { Authorizer } from '../policy/decision.ts';
import type { WatchServices } from './connection-watch.ts';
import type { LiveConnections } from './fairness/live-connections.ts';
import type { Destination } from './http/request-pipeline.ts';
import type { Http1Engine } from './http1/engine.ts';
import type { Http2Engine } from './http2/engine.ts';
import type { ProbeTls } from './probe-tls.ts';
import type { Recorder } from './recorder.ts';
import type { TlsTermination } from './tls/termination.ts';
import type { Upstreams } from './upstream/upstreams.ts';

/** What all accepted connections share. */
export interface ConnectionServices {
  readonly authorizer: Authorizer;
  readonly recorder: Recorder;
  readonly http1: Http1Engine;
  readonly http2: Http2Engine;
  readonly upstreams: Upstreams;
  readonly live: LiveConnections;
  /** The current one; null when this proxy has no identity. */
  readonly tls: () => TlsTermination | null;
  /** Made when it is first needed: most pods have no HTTPS probe. */
  readonly probeTls: () => Promise<ProbeTls>;
  readonly watch: WatchServices;
  /** Milliseconds until a connection that sends nothing is closed, or counts as not TLS. */
  readonly detectTimeoutMs: number;
}

/** Where a connection was meant to go, known at accept. */
export interface Arrival {
  readonly targetIp: string;
  readonly policyPort: number;
  readonly destination: Destination;
  /** Whether a connection to that port would still be led there; left out where it always is. */
  readonly stillLeads?: (port: number) => boolean;
}
