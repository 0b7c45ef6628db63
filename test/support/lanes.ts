import { parseIp } from '../../lib/ip.ts';
import type { Authorizer, HeaderChanges, PortProtocol, RequestFacts } from '../../lib/policy/decision.ts';
import { type Listener, listen } from '../../lib/proxy/accept/listener.ts';
import { serveConnection } from '../../lib/proxy/connection.ts';
import type { ConnectionServices } from '../../lib/proxy/connection-services.ts';
import { BufferBudget } from '../../lib/proxy/fairness/buffer-budget.ts';
import { LiveConnections } from '../../lib/proxy/fairness/live-connections.ts';
import type { Application } from '../../lib/proxy/http/application.ts';
import { type Destination, RequestPipeline } from '../../lib/proxy/http/request-pipeline.ts';
import type { Http1Engine } from '../../lib/proxy/http1/engine.ts';
import { FastLane } from '../../lib/proxy/http1/fast/lane.ts';
import { LibraryLane } from '../../lib/proxy/http1/library/lane.ts';
import type { Http2Engine } from '../../lib/proxy/http2/engine.ts';
import { Http2Lane } from '../../lib/proxy/http2/lane.ts';
import type { Incoming } from '../../lib/proxy/incoming.ts';
import type { Limits } from '../../lib/proxy/limits.ts';
import type { ConnectionScope, Recorder } from '../../lib/proxy/recorder.ts';
import { hasUnread, peerOf, tryLoadSocketCalls } from '../../lib/proxy/socket-calls.ts';
import type { TlsTermination } from '../../lib/proxy/tls/termination.ts';
import { Upstreams } from '../../lib/proxy/upstream/upstreams.ts';
import type { Teardown } from './children.ts';
import { lanePolicy } from './lane-policy.ts';
import { defaultLimits } from './limits.ts';
import { NodeHttp2Lane } from './node-http2/server.ts';
import './spoilt-loans.ts';
import { patience } from './until.ts';

/**
 * Two engines that must not be told apart from outside: for HTTP/1 both are the product's; for HTTP/2 the library's is
 * the measure of the other.
 */
export const engines = ['fast', 'library'] as const;
export type Engine = (typeof engines)[number];

/** What the data plane told its recorder. */
export interface Counts {
  decided: number;
  started: number;
  heads: number;
  ended: number;
  /** Requests that ended with an error. */
  failed: number;
  /** Their error labels. */
  errors: string[];
  badRequests: string[];
  httpErrors: string[];
  /** What the log is told of them, and of responses that broke off. */
  details: string[];
  /** Codes of responses that broke off. */
  broken: string[];
  /** Statuses that were answered in place of the app's. */
  refusals: number[];
  /** Paths of what a later policy ended. */
  terminated: string[];
  /** Limits that were reached. */
  limits: string[];
  /** Ports of which the log is told that nobody can tell what they speak. */
  notRecognized: number[];
  /** Open connections of clients that carry something. */
  sources: number;
  /** Open connections to the app. */
  destinations: number;
  /** Connections that the library lane has taken over from the fast lane. */
  handedOver: number;
}

/** What there is of a connection when it is served. */
export type ArrivalKind =
  /** Whatever has come by then, as on an idle machine. */
  | 'at once'
  /** Something that its client has said, or all, as under load, when it has to wait before it is accepted. */
  | 'with bytes'
  /** It is a stream already. */
  | 'as a stream';

export interface LaneOptions {
  /** For HTTP/1. */
  readonly engine: Engine;
  /** For HTTP/2; the fast one unless it is named. */
  readonly http2Engine?: Engine;
  readonly app: number;
  readonly appHost?: string;
  /** Inside this process, in place of the app. */
  readonly application?: Application;
  readonly protocol?: PortProtocol;
  readonly tls?: TlsTermination;
  readonly headerChanges?: HeaderChanges;
  readonly maxInFlight?: number;
  readonly limits?: Partial<Limits>;
  readonly connectTimeoutMs?: number;
  readonly detectTimeoutMs?: number;
  readonly access?: NonNullable<Recorder['access']>;
  /** See `Arrival`. */
  readonly stillLeads?: () => boolean;
  /** By turns unless it is named. */
  readonly arrivals?: ArrivalKind;
  /** In place of the one that looks at paths alone. */
  readonly authorizer?: Authorizer;
  /** Told of what each decision was made on; `again`: of what was under way. */
  readonly onFacts?: (facts: RequestFacts, when: 'at first' | 'again') => void;
  /** Told of each request that was sound enough to be decided. */
  readonly onDecided?: (request: string) => void;
  /** Told when a connection has been decided that carries bytes without requests. */
  readonly onTunnel?: () => void;
}

export interface Lane {
  readonly engine: Engine;
  readonly port: number;
  readonly counts: Counts;
  readonly http1: Http1Engine;
  readonly http2: Http2Engine;
  readonly live: LiveConnections;
  /** What waits for somebody slow. */
  heldBytes(): number;
  /** Of heads that are counted. */
  headBytes(): number;
  /** Another policy, which refuses these paths; what is under way is decided again. */
  change(refuses: (path: string) => boolean): void;
}

function noCounts(): Counts {
  return {
    decided: 0,
    started: 0,
    heads: 0,
    ended: 0,
    failed: 0,
    errors: [],
    badRequests: [],
    httpErrors: [],
    details: [],
    broken: [],
    refusals: [],
    terminated: [],
    limits: [],
    notRecognized: [],
    sources: 0,
    destinations: 0,
    handedOver: 0,
  };
}

/** The proxy's sockets and lanes as lib/app.ts joins them, behind a policy that permits every path but /DENIED. */
export async function startLane(t: Teardown, options: LaneOptions): Promise<Lane> {
  const counts = noCounts();
  const recorder = countingRecorder(counts, options);
  const { protocol = 'http1', headerChanges = null, detectTimeoutMs } = options;
  const own = lanePolicy(protocol, headerChanges, options.onFacts, detectTimeoutMs);
  const { change } = own;
  const authorizer = options.authorizer ?? own.authorizer;
  const limits: Limits = { ...defaultLimits, maxInFlight: options.maxInFlight ?? 1000, ...options.limits };
  const upstreams = new Upstreams({
    connectTimeoutMs: options.connectTimeoutMs ?? 1000 * patience(),
    limits,
    recorder,
    isOwn: () => false,
  });
  const budget = new BufferBudget(limits, recorder);
  const live = new LiveConnections(limits, recorder);
  const pipeline = new RequestPipeline({ authorizer, recorder, limits, budget });
  const library = new LibraryLane({ pipeline, upstreams });
  const http1: Http1Engine =
    options.engine === 'fast'
      ? new FastLane({ pipeline, upstreams, library: countingTakeovers(library, counts) })
      : library;
  const http2: Http2Engine =
    options.http2Engine === 'library'
      ? new NodeHttp2Lane({ pipeline, upstreams })
      : new Http2Lane({ pipeline, upstreams });
  const services: ConnectionServices = {
    authorizer,
    recorder,
    http1,
    http2,
    upstreams,
    live,
    tls: () => options.tls ?? null,
    probeTls: () => Promise.reject(new Error('no HTTPS probes here')),
    watch: {
      budget,
      limits,
      limitReached: recorder.limitReached,
      anchors: () => options.tls?.anchors ?? null,
    },
    detectTimeoutMs: options.detectTimeoutMs ?? 1000 * patience(),
  };
  authorizer.onChange(() => live.recheckAll());
  const arrivals = new Arrivals(options.arrivals ?? null, (incoming) => serve(services, incoming, options));
  const listener: Listener = await listen({
    at: { host: '127.0.0.1', port: 0 },
    isAlone: true,
    onConnection: (incoming) => arrivals.take(incoming),
    onError: (error) => {
      throw error;
    },
  });
  t.teardown(async () => {
    arrivals.close();
    const closed = listener.close();
    await live.drain(0);
    await closed;
    await http1.close();
    http2.close();
    budget.close();
    live.close();
  });
  return {
    engine: options.engine,
    port: listener.address.port,
    counts,
    http1,
    http2,
    live,
    heldBytes: () => budget.bytes,
    headBytes: () => pipeline.heads.bytes,
    change: (refuses) => {
      change(refuses);
      live.recheckAll();
    },
  };
}

/** Milliseconds after which a client is served that has sent nothing. */
const lateMs = 30;

/** Without a kind, every second connection is served at once, and every other with bytes. */
class Arrivals {
  readonly #kind: ArrivalKind | null;
  readonly #serve: (incoming: Incoming) => void;
  #count = 0;
  #stage: 'open' | 'closed' = 'open';

  constructor(kind: ArrivalKind | null, serve: (incoming: Incoming) => void) {
    tryLoadSocketCalls();
    this.#kind = kind;
    this.#serve = serve;
  }

  take(incoming: Incoming): void {
    this.#count++;
    const kind = this.#kind ?? (this.#count % 2 === 1 ? 'at once' : 'with bytes');
    if (kind === 'as a stream') incoming.socket.on('error', () => {});
    if (kind !== 'with bytes') this.#serve(incoming);
    else this.#look(incoming, performance.now() + lateMs * patience());
  }

  #look(incoming: Incoming, until: number): void {
    const { descriptor } = incoming;
    if (this.#stage === 'closed') incoming.destroy();
    else if (descriptor === null || hasUnread(descriptor) || performance.now() > until) this.#serve(incoming);
    else setImmediate(() => this.#look(incoming, until));
  }

  close(): void {
    this.#stage = 'closed';
  }
}

function serve(services: ConnectionServices, incoming: Incoming, options: LaneOptions): void {
  const { app, appHost = '127.0.0.1', application, stillLeads } = options;
  const client = peerOf(incoming);
  if (client === null) {
    incoming.destroy();
    return;
  }
  const endpoint = { host: appHost, port: app };
  const destination: Destination = application ? { kind: 'in-process', application } : { kind: 'app', endpoint };
  serveConnection(services, incoming, client, {
    ...{ targetIp: '127.0.0.1', policyPort: 8080, destination },
    ...(stillLeads === undefined ? {} : { stillLeads }),
  });
}

function countingTakeovers(library: Http1Engine, counts: Counts): Http1Engine {
  return {
    serve: (connection, socket, bytes) => {
      counts.handedOver++;
      library.serve(connection, socket, bytes);
    },
    drain: () => library.drain(),
    closeIdle: () => library.closeIdle(),
    close: () => library.close(),
  };
}

function countingRecorder(counts: Counts, options: LaneOptions): Recorder {
  const scope = (): ConnectionScope => ({
    connectionDecided: () => options.onTunnel?.(),
    connectionTerminated: () => {},
    openSource: () => {
      counts.sources++;
      return { closed: () => void counts.sources-- };
    },
    detected: () => {},
    probed: () => {},
    tcpError: () => {},
    brokenProtocol: () => {},
    requestDecided: (_policy, _decision, request) => {
      counts.decided++;
      options.onDecided?.(`${request.method} ${request.host}${request.path}`);
    },
    requestStarted: (_policy, _permit, _grpc, ended) => {
      counts.started++;
      let over = false;
      return {
        requestFrame: () => {},
        requestEnded: () => {},
        waitedMs: () => 0,
        responseHead: () => {
          counts.heads++;
        },
        refused: (status) => {
          counts.refusals.push(status);
        },
        responseFrame: () => {},
        responseEnded: (_grpcStatus, error) => {
          if (over) return;
          over = true;
          ended?.();
          counts.ended++;
          if (error === '') return;
          counts.failed++;
          counts.errors.push(error);
        },
      };
    },
    requestTerminated: (_policy, _decision, { path }) => void counts.terminated.push(path),
    badRequest: (_policy, reason) => {
      counts.badRequests.push(reason);
    },
    httpError: (_policy, { label, detail }) => {
      counts.httpErrors.push(label);
      counts.details.push(detail);
    },
    responseBroken: (_policy, { code, detail }) => {
      counts.broken.push(code);
      counts.details.push(detail);
    },
  });
  return {
    connection: scope,
    networkRefused: () => {},
    handshakeFailed: () => {},
    helloNotForUs: () => {},
    otherHttp: () => {},
    notRecognized: ({ targetPort }) => void counts.notRecognized.push(targetPort),
    limitReached: (limit) => {
      counts.limits.push(limit);
    },
    strayed: () => {},
    internalFault: ({ error }) => {
      throw error;
    },
    openDestination: () => {
      counts.destinations++;
      return {
        closed: () => {
          counts.destinations--;
        },
      };
    },
    access: options.access ?? null,
  };
}

/** An address as the proxy knows it. */
export function ip(text: string): NonNullable<ReturnType<typeof parseIp>> {
  const parsed = parseIp(text);
  if (parsed === undefined) throw new Error(`not an address: ${text}`);
  return parsed;
}
