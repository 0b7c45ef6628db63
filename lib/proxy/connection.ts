import type { Socket } from 'node:net';
import { type ClientTls, clientId } from '../client.ts';
import { systemErrorCode } from '../errors/coded-error.ts';
import { hostPort, type IpAddress } from '../ip.ts';
import { connectionCosts } from '../memory-plan.ts';
import type { ConnectionPermit, ConnectionProbes, PortPolicy } from '../policy/decision.ts';
import type { ConnectionFacts } from './connection-facts.ts';
import type { Arrival, ConnectionServices } from './connection-services.ts';
import { type Carrying, ConnectionWatch } from './connection-watch.ts';
import type { ClientHello } from './detect/client-hello.ts';
import type { Opening } from './detect/opening.ts';
import { TunnelGuard } from './detect/tunnel-guard.ts';
import { EarlyBytes } from './fairness/early-bytes.ts';
import type { Line } from './fairness/line.ts';
import type { LiveConnection, Spareable } from './fairness/live-connections.ts';
import type { Rechecked, Slice } from './fairness/rechecks.ts';
import { type Source, sourceOf } from './fairness/sources.ts';
import { guarded, internalFault } from './guard.ts';
import type { Destination, HttpConnection } from './http/request-pipeline.ts';
import type { Http2Session } from './http2/engine.ts';
import type { Follower, Incoming } from './incoming.ts';
import type { Keeper } from './kept.ts';
import type { ProbeTls } from './probe-tls.ts';
import { noTls, recognize, type Unrecognized } from './recognize.ts';
import type { ConnectionScope, HandshakeFailure, TransportScope, UnknownClient } from './recorder.ts';
import type { SocketEnd } from './socket-calls.ts';
import { forwardTcp, type TcpForwarding } from './tcp/forward.ts';
import type { Handshake } from './tls/handshake.ts';
import { renewListeners } from './tls/node-tls.ts';
import type { PeerSession } from './tls/peer-session.ts';
import type { AlpnPreference, TlsTermination } from './tls/termination.ts';
import type { WatchedReads } from './tls/watched-reads.ts';

/** Takes an accepted connection through its life: admission, TLS, detection, decision, forwarding. */
export function serveConnection(
  services: ConnectionServices,
  incoming: Incoming,
  client: SocketEnd,
  arrival: Arrival,
): void {
  const connection = new InboundConnection(services, incoming, client, arrival);
  if (connection.isAdmitted('new') && services.live.admit(connection)) connection.start();
  else incoming.destroy();
}

type Stage =
  | { readonly kind: 'detecting' }
  | { readonly kind: 'http1' }
  | { readonly kind: 'http2'; readonly session: Http2Session }
  | { readonly kind: 'tcp'; policy: PortPolicy; readonly scope: ConnectionScope; readonly forwarding: TcpForwarding }
  | { readonly kind: 'over' };

const detecting: Stage = { kind: 'detecting' };
const http1: Stage = { kind: 'http1' };
const over: Stage = { kind: 'over' };

class InboundConnection implements LiveConnection, Unrecognized, Follower, Carrying {
  rosterPlace = -1;
  line: Line<LiveConnection> | null = null;
  earlier: LiveConnection | null = null;
  later: LiveConnection | null = null;
  source: Source | null = null;
  weight = 0;
  readonly ip: IpAddress;
  readonly isInternal: boolean;
  readonly #services: ConnectionServices;
  readonly incoming: Incoming;
  readonly #arrival: Arrival;
  readonly #clientPort: number;
  /** Without identity until TLS has verified one. */
  #facts: ConnectionFacts;
  /** The client side as telemetry sees it, where HTTP is carried; TCP tells by itself when it is over. */
  #transport: TransportScope | null = null;
  /** From when on it carries something. */
  #watch: ConnectionWatch | null = null;
  #handshakeSince = 0;
  /** The app as it speaks TLS, where a probe asks for that. */
  #secured: Destination | null = null;
  /** What the client says within TLS. */
  #decrypted: Incoming | null = null;
  /** What the client's identity rests on. */
  #session: PeerSession | null = null;
  #reads: WatchedReads | null = null;
  http: HttpConnection | null = null;
  /** What the connection has become; decides what recheck and drain mean. */
  #stage: Stage = detecting;

  constructor(services: ConnectionServices, incoming: Incoming, client: SocketEnd, arrival: Arrival) {
    this.#services = services;
    this.incoming = incoming;
    this.#arrival = arrival;
    this.isInternal = arrival.destination.kind === 'in-process';
    this.ip = client.ip;
    this.#clientPort = client.port;
    this.#facts = this.#factsOf(noTls);
  }

  start(): void {
    // First of all: it is counted from now on, and whatever throws after this must not leave it counted.
    this.incoming.follow(this);
    this.incoming.payer = this;
    // A stop that has begun lets nobody in.
    if (!this.incoming.isOver) recognize(this);
  }

  streamed(): void {}

  ended(): void {
    this.#stage = over;
    this.#reads?.release();
    this.#services.live.remove(this);
    this.#watch?.close();
    this.#transport?.closed(this.incoming.errno || (this.#decrypted?.errno ?? ''));
  }

  get isStranger(): boolean {
    return clientId(this.#facts.client) === null;
  }

  get socket(): Socket {
    return this.incoming.socket;
  }

  /** Whether NetworkPolicies let the connection in, or in still; records a refusal. Asked before any byte is read. */
  isAdmitted(connection: 'new' | 'open'): boolean {
    const { authorizer, recorder } = this.#services;
    const { policyPort } = this.#arrival;
    const admission = authorizer.admits(policyPort, this.ip);
    if (admission.kind === 'admitted') return true;
    recorder.networkRefused(this.policy(), { ...this.#unknown(), policies: admission.policies, connection }, () =>
      authorizer.admissionReasons(policyPort, this.ip),
    );
    return false;
  }

  get detectTimeoutMs(): number {
    return this.#services.detectTimeoutMs;
  }

  termination(): TlsTermination | null {
    return this.#services.tls();
  }

  mayHandshake(): boolean {
    this.#handshakeSince = performance.now();
    return this.#services.live.handshake(this);
  }

  handshakeFailed(serverName: string, failure: HandshakeFailure): void {
    this.#services.recorder.handshakeFailed(this.#unknown(), serverName, failure);
  }

  helloNotForUs(serverName: string | null, ours: ReadonlySet<string>, outcome: string): void {
    this.#services.recorder.helloNotForUs(this.#unknown(), serverName, [...ours], outcome);
  }

  speaksOtherHttp(spoken: 'http/1' | 'http/2'): void {
    this.#services.recorder.otherHttp(this.#unknown(), this.policy(), spoken);
  }

  notRecognized(seconds: number): void {
    this.#services.recorder.notRecognized(this.#unknown(), this.policy(), seconds);
  }

  #unknown(): UnknownClient {
    const { policyPort, targetIp } = this.#arrival;
    return { clientIp: this.ip, clientPort: this.#clientPort, targetIp, targetPort: policyPort };
  }

  secured(stream: Incoming, session: PeerSession | null, reads: WatchedReads): void {
    this.#session = session;
    this.#decrypted = stream;
    stream.payer = this;
    this.#reads = reads;
    this.#services.live.secured(this, session === null ? 'stranger' : 'known');
    stream.heed();
    if (this.incoming.isOver) reads.release();
    const tooMany = (): void => {
      this.#services.recorder.limitReached('tls_key_updates', this.ip);
      stream.destroy();
      this.destroy();
    };
    reads.whenMany(guarded('too many KeyUpdates', this, tooMany));
  }

  /** What TLS reads of a client that has shown a certificate is watched until something of it is permitted; of others, always. */
  get #untilPermit(): WatchedReads | null {
    return this.#session === null ? null : this.#reads;
  }

  policy(): PortPolicy {
    return this.#services.authorizer.port(this.#arrival.policyPort);
  }

  probes(): ConnectionProbes {
    return this.#services.authorizer.probes(this.policy(), this.#facts.client);
  }

  isAuthorized(): boolean {
    return this.#services.authorizer.connection(this.policy(), this.#facts.client).kind === 'permit';
  }

  probeHandshake(unread: Buffer, hello: ClientHello, done: (result: Handshake) => void): void {
    const accept = (tls: ProbeTls): void => {
      const { destination } = this.#arrival;
      if (this.socket.destroyed || destination.kind !== 'app') {
        this.destroy();
        return;
      }
      const { endpoint } = destination;
      const source = sourceOf(this.ip);
      const application = tls.application(this.#services.upstreams, endpoint, source);
      this.#secured = { kind: 'app-in-tls', endpoint, application };
      tls.termination.accept(this.socket, source, unread, hello, 'http/1.1', done);
    };
    const failed = (error: unknown): void => internalFault('TLS for probes', this, error);
    this.#services.probeTls().then(guarded('TLS for probes', this, accept), failed);
  }

  probing(decrypted: Incoming, alpn: AlpnPreference, scope: ConnectionScope): void {
    if (alpn === 'h2') this.http2(decrypted, Buffer.alloc(0), scope, this.policy());
    else this.http1(decrypted, Buffer.alloc(0), scope, this.policy());
  }

  http1(stream: Incoming, bytes: Buffer, scope: ConnectionScope, policy: PortPolicy): void {
    if (this.#endedIn(stream, bytes)) return;
    const connection = this.#http(stream, scope, policy);
    this.#stage = http1;
    this.#services.http1.serve(connection, stream, bytes);
  }

  http2(stream: Incoming, bytes: Buffer, scope: ConnectionScope, policy: PortPolicy): void {
    if (this.#endedIn(stream, bytes)) return;
    const connection = this.#http(stream, scope, policy, connectionCosts.http2);
    const session = this.#services.http2.serve(connection, stream.socket, bytes);
    this.#stage = { kind: 'http2', session };
    if (this.#services.live.draining) session.drain();
  }

  /**
   * Its client may have gone while we found out what it is: it carries nothing then. Whatever began to, would never hear that
   * it is over, and would count as open for good. Nor does one that has ended its side without a word ask for anything.
   */
  #endedIn(stream: Incoming, bytes: Buffer): boolean {
    const isOver = stream.isOver || (bytes.length === 0 && !stream.isBare && stream.socket.readableEnded);
    if (isOver) this.incoming.destroy();
    return isOver;
  }

  #http(stream: Incoming, scope: ConnectionScope, policy: PortPolicy, more = 0): HttpConnection {
    this.#transport = scope.openSource(policy, stream);
    const keeper = this.#settle(stream, more);
    const { policyPort } = this.#arrival;
    const destination = this.#secured ?? this.#arrival.destination;
    const session = this.#session;
    const { watch } = this.#services;
    const connection: HttpConnection = {
      facts: this.#facts,
      scope,
      policyPort,
      destination,
      keeper,
      occupant: null,
      untilPermit: this.#untilPermit,
      isVouchedFor: session === null ? null : () => session.holds(watch.anchors()),
    };
    this.http = connection;
    return connection;
  }

  /**
   * Bytes without a request in them: decided once, and again whenever policy changes.
   *
   * @param bytes what was read already.
   * @param opening has read them, and goes on reading; null where the port's protocol is declared.
   */
  tcp(stream: Incoming, scope: ConnectionScope, bytes: Buffer, opening: Opening | null): void {
    const { authorizer, upstreams } = this.#services;
    const policy = this.policy();
    const { client } = this.#facts;
    const decision = authorizer.connection(policy, client);
    scope.connectionDecided(policy, decision, () => authorizer.connectionReasons(policy, client));
    const { destination } = this.#arrival;
    if (decision.kind === 'deny' || destination.kind !== 'app') {
      stream.destroy();
      this.incoming.destroy();
      return;
    }
    if (stream.isOver) return void this.incoming.destroy();
    this.#untilPermit?.release();
    const transport = scope.openSource(policy, stream);
    const permit: ConnectionPermit = decision;
    // What is read from here on waits for the app.
    stream.socket.pause();
    const beginning = {
      asker: sourceOf(this.ip),
      keeper: this.#settle(stream, connectionCosts.tunnel),
      bytes,
      guard: opening === null ? null : new TunnelGuard(opening),
      refused: () => scope.badRequest(policy, 'bytes in a tunnel became what some servers would take for a request'),
    };
    const { host, port } = destination.endpoint;
    const onError = (error: unknown): void =>
      scope.tcpError('i/o', { app: hostPort(host, port), errno: systemErrorCode(error) });
    const closed = (errno: string): void => transport.closed(errno);
    const forwarding = forwardTcp(permit, stream.socket, destination.endpoint, upstreams, beginning, onError, closed);
    this.#stage = { kind: 'tcp', policy, scope, forwarding };
  }

  /** It carries something from now on, for which it takes `more` bytes than one of HTTP/1. Who watches it pays for what is kept. */
  #settle(stream: Incoming, more: number): ConnectionWatch {
    this.#services.live.settled(this, more + (this.#decrypted === null ? connectionCosts.plain : connectionCosts.tls));
    if (this.#decrypted !== null) for (const { socket } of [this.incoming, this.#decrypted]) renewListeners(socket);
    const hasIdentity = clientId(this.#facts.client) !== null;
    this.#watch = new ConnectionWatch(this.#services.watch, stream, this.ip, hasIdentity, this.#session, this);
    return this.#watch;
  }

  earlyKeeper(): Keeper {
    return new EarlyBytes(this.#services.watch.budget, this.incoming, this.ip);
  }

  get heldForApp(): number {
    return this.#stage.kind === 'tcp' ? this.#stage.forwarding.heldBytes : 0;
  }

  spareable(): Spareable {
    return this.#watch?.spareable() ?? { kind: 'idle', sinceMs: this.#handshakeSince };
  }

  sweep(nowMs: number): void {
    this.#watch?.sweep(nowMs);
  }

  /** TLS has verified who the client is, or that it shows no certificate. */
  identify(tls: ClientTls): ConnectionScope {
    if (tls !== noTls) this.#facts = this.#factsOf(tls);
    return this.#services.recorder.connection(this.#facts);
  }

  #factsOf(tls: ClientTls): ConnectionFacts {
    const { targetIp, policyPort } = this.#arrival;
    return { client: { ip: this.ip, tls }, clientPort: this.#clientPort, targetIp, targetPort: policyPort };
  }

  /**
   * What NetworkPolicies no longer admit ends here, HTTP too: its next request would still be let in by none of them. Requests
   * are decided again one by one.
   */
  recheck(slice: Slice): Rechecked {
    if (this.#stage.kind === 'over') return 'done';
    if (!this.isAdmitted('open')) {
      this.destroy();
      return 'done';
    }
    const { stillLeads, policyPort } = this.#arrival;
    if (stillLeads?.(policyPort) === false) this.#leave();
    if (this.#stage.kind === 'tcp') this.#recheckTcp(this.#stage);
    return this.http?.occupant?.recheck(slice) ?? 'done';
  }

  #recheckTcp(stage: Extract<Stage, { kind: 'tcp' }>): void {
    const { policy, scope, forwarding } = stage;
    const now = this.policy();
    if (now === policy) return;
    stage.policy = now;
    const { authorizer } = this.#services;
    const { client } = this.#facts;
    if (authorizer.connection(now, client).kind === 'permit') return;
    scope.connectionTerminated(now, () => authorizer.connectionReasons(now, client));
    forwarding.destroy();
    this.incoming.destroy();
  }

  /** Requests are led where the connection was when it came: no more of them. Bytes, which are there already, go on. */
  #leave(): void {
    if (this.#stage.kind === 'detecting') this.destroy();
    else this.http?.occupant?.retire();
  }

  announceDrain(): void {
    if (this.#stage.kind === 'http2') this.#stage.session.announce();
  }

  drain(): void {
    if (this.#stage.kind === 'detecting') this.incoming.destroy();
    else if (this.#stage.kind === 'http2') this.#stage.session.drain();
    // HTTP/1 is drained by its server, which knows who is idle; TCP and tunnels are waited for.
  }

  destroy(): void {
    if (this.#stage.kind === 'tcp') this.#stage.forwarding.destroy();
    this.incoming.destroy();
  }
}
