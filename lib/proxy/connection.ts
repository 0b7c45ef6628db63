import type { Socket } from 'node:net';
import { type ClientTls, clientId } from '../client.ts';
import { systemErrorCode } from '../errors/coded-error.ts';
import { type IpAddress, parseIp } from '../ip.ts';
import type { Authorizer, ConnectionPermit, PortPolicy } from '../policy/decision.ts';
import type { ConnectionFacts } from './connection-facts.ts';
import { ConnectionWatch, type WatchServices } from './connection-watch.ts';
import { type ClientHello, type HelloResult, HelloScan } from './detect/client-hello.ts';
import { type HttpGuess, HttpScan } from './detect/http-guess.ts';
import { Opening } from './detect/opening.ts';
import { type Peek, peek, putBack } from './detect/peek.ts';
import { TunnelGuard } from './detect/tunnel-guard.ts';
import type { Line } from './fairness/line.ts';
import type { LiveConnection, LiveConnections, Spareable } from './fairness/live-connections.ts';
import { type Source, sourceOf } from './fairness/sources.ts';
import { guarded } from './guard.ts';
import type { Destination, HttpConnection, Occupant } from './http/request-pipeline.ts';
import type { Http1Engine } from './http1/engine.ts';
import type { Http2Engine, Http2Session } from './http2/engine.ts';
import type { ConnectionScope, Recorder, TransportScope } from './recorder.ts';
import { forwardTcp } from './tcp/forward.ts';
import type { PeerSession } from './tls/peer-session.ts';
import type { AlpnPreference, Handshake, TlsTermination } from './tls/termination.ts';
import type { Upstreams } from './upstream/upstreams.ts';

export interface ConnectionServices {
  readonly authorizer: Authorizer;
  readonly recorder: Recorder;
  readonly http1: Http1Engine;
  readonly http2: Http2Engine;
  readonly upstreams: Upstreams;
  readonly live: LiveConnections;
  /** The current one; null when this proxy has no identity. */
  readonly tls: () => TlsTermination | null;
  readonly watch: WatchServices;
  /** Milliseconds until a connection that sends nothing is closed, or counts as not TLS. */
  readonly detectTimeoutMs: number;
}

/** Where a connection was meant to go, known at accept. */
export interface Arrival {
  readonly targetIp: string;
  readonly policyPort: number;
  readonly destination: Destination;
}

const nothing = Buffer.alloc(0);
const badRequest = 'HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n';
const noTls: ClientTls = { kind: 'none', reason: 'no_tls_from_remote' };

/** Takes an accepted connection through its life: admission, TLS, detection, decision, forwarding. */
export function serveConnection(services: ConnectionServices, socket: Socket, arrival: Arrival): void {
  const ip = parseIp(socket.remoteAddress ?? '');
  // A peer that is gone already has no address any more.
  if (ip === undefined) {
    socket.destroy();
    return;
  }
  const connection = new InboundConnection(services, socket, arrival, ip);
  if (connection.isAdmitted('new') && services.live.admit(connection)) connection.start();
  else socket.destroy();
}

type Stage =
  | { readonly kind: 'detecting' }
  | { readonly kind: 'http1' }
  | { readonly kind: 'http2'; readonly session: Http2Session }
  | { readonly kind: 'tcp'; policy: PortPolicy; readonly scope: ConnectionScope; readonly destroy: () => void }
  | { readonly kind: 'over' };

const detecting: Stage = { kind: 'detecting' };
const http1: Stage = { kind: 'http1' };
const over: Stage = { kind: 'over' };

class InboundConnection implements LiveConnection {
  rosterPlace = -1;
  line: Line<LiveConnection> | null = null;
  earlier: LiveConnection | null = null;
  later: LiveConnection | null = null;
  source: Source | null = null;
  readonly ip: IpAddress;
  readonly isInternal: boolean;
  readonly #services: ConnectionServices;
  readonly #socket: Socket;
  readonly #arrival: Arrival;
  readonly #clientPort: number;
  /** Nobody in particular until TLS has told. */
  #facts: ConnectionFacts;
  #errno = '';
  /** The client side as telemetry sees it, where HTTP is carried; TCP tells by itself when it is over. */
  #transport: TransportScope | null = null;
  /** From when on it carries something. */
  #watch: ConnectionWatch | null = null;
  #handshakeSince = 0;
  /** What the client's identity rests on. */
  #session: PeerSession | null = null;
  /** What the connection has become; decides what recheck and drain mean. */
  #stage: Stage = detecting;

  constructor(services: ConnectionServices, socket: Socket, arrival: Arrival, ip: IpAddress) {
    this.#services = services;
    this.#socket = socket;
    this.#arrival = arrival;
    this.isInternal = arrival.destination.kind === 'in-process';
    this.ip = ip;
    this.#clientPort = socket.remotePort ?? 0;
    this.#facts = this.#factsOf(noTls);
  }

  start(): void {
    const { live } = this.#services;
    this.#socket.on('error', (error) => {
      this.#errno = systemErrorCode(error);
      this.#socket.destroy();
    });
    const closed = (): void => {
      this.#stage = over;
      live.remove(this);
      this.#watch?.close();
      this.#transport?.closed(this.#errno);
    };
    this.#socket.on('close', guarded('the end of a connection', null, closed));
    const policy = this.#policy();
    if (policy.protocol === 'opaque') {
      this.#tcp(this.#socket, this.#scope({ kind: 'none', reason: 'port_skipped' }), nothing, null);
    } else {
      this.#detectTls(policy);
    }
  }

  /** Whether NetworkPolicies let the connection in, or in still; records a refusal. Asked before any byte is read. */
  isAdmitted(connection: 'new' | 'open'): boolean {
    const { authorizer, recorder } = this.#services;
    const { policyPort, targetIp } = this.#arrival;
    const admission = authorizer.admits(policyPort, this.ip);
    if (admission.kind === 'admitted') return true;
    recorder.networkRefused(
      this.#policy(),
      {
        clientIp: this.ip,
        clientPort: this.#clientPort,
        targetIp,
        targetPort: policyPort,
        policies: admission.policies,
        connection,
      },
      () => authorizer.admissionReasons(policyPort, this.ip),
    );
    return false;
  }

  /** Policy is read anew at each step: it may have changed while we waited for bytes. */
  #policy(): PortPolicy {
    return this.#services.authorizer.port(this.#arrival.policyPort);
  }

  #detectTls(policy: PortPolicy): void {
    peek(this.#socket, nothing, this.#services.detectTimeoutMs, lookForTls(), (result) => {
      const { bytes } = result;
      if (result.kind === 'ended') {
        this.#socket.destroy();
      } else if (result.kind === 'timeout') {
        this.#scope(noTls).tcpError('tls detection timeout');
        this.#socket.destroy();
      } else if (result.value.kind === 'hello' && result.value.hello.serverName !== null) {
        this.#hello(policy, bytes, result.value.hello, result.value.hello.serverName);
      } else {
        // Linkerd takes a ClientHello without a name for plaintext: it can be meant for nobody but the app.
        this.#decrypted(this.#socket, bytes, noTls, null);
      }
    });
  }

  #hello(policy: PortPolicy, bytes: Buffer, hello: ClientHello, serverName: string): void {
    const termination = this.#services.tls();
    if (termination === null || !termination.names.has(serverName)) {
      this.#passThrough(bytes, this.#scope({ kind: 'passthrough', sni: serverName }));
      return;
    }
    if (!this.#services.live.handshake(this)) {
      this.#socket.destroy();
      return;
    }
    this.#handshakeSince = performance.now();
    putBack(this.#socket, bytes);
    const prefer: AlpnPreference = policy.protocol === 'http2' || policy.protocol === 'grpc' ? 'h2' : 'http/1.1';
    const established = (handshake: Handshake): void => {
      if (handshake.kind === 'failed') {
        this.#scope({ kind: 'mesh', identity: null }).tcpError('i/o');
        this.#socket.destroy();
        return;
      }
      const { socket, identity, session } = handshake;
      this.#session = session;
      socket.on('error', (error) => {
        this.#errno = systemErrorCode(error);
        socket.destroy();
      });
      const alpn = socket.alpnProtocol === false ? null : socket.alpnProtocol;
      this.#decrypted(socket, nothing, { kind: 'mesh', identity }, alpn);
    };
    termination.accept(this.#socket, hello, prefer, guarded('a TLS handshake', this, established));
  }

  /** TLS for somebody else: its requests cannot be seen. A hello is bytes like any; some would read a request in it. */
  #passThrough(bytes: Buffer, scope: ConnectionScope): void {
    const policy = this.#policy();
    if (policy.protocol !== 'detect') {
      this.#tcp(this.#socket, scope, bytes, null);
      return;
    }
    scope.detected(policy, 'not_http', 0);
    const opening = new Opening();
    opening.read(bytes);
    this.#tcp(this.#socket, scope, bytes, opening);
  }

  /** The bytes that the client means for the app are readable now; the first of them may have been read. */
  #decrypted(stream: Socket, bytes: Buffer, tls: ClientTls, alpn: string | null): void {
    const policy = this.#policy();
    const scope = this.#scope(tls);
    switch (policy.protocol) {
      case 'opaque':
      case 'tls':
        this.#tcp(stream, scope, bytes, null);
        return;
      case 'http2':
      case 'grpc':
        this.#http2(stream, bytes, scope, policy);
        return;
      case 'http1':
        // Without TLS the Server's word is taken; a meshed peer may send HTTP/2 (Linkerd's orig-proto).
        if (tls.kind === 'none') this.#http1(stream, bytes, scope, policy);
        else this.#detectHttp(stream, bytes, scope, policy, alpn);
        return;
      case 'detect':
        this.#detectHttp(stream, bytes, scope, policy, alpn);
    }
  }

  #detectHttp(stream: Socket, before: Buffer, scope: ConnectionScope, policy: PortPolicy, alpn: string | null): void {
    // What was agreed on is spoken, or nothing.
    if (alpn === 'h2') {
      scope.detected(policy, 'http/2', 0);
      this.#http2(stream, before, scope, policy);
      return;
    }
    if (alpn === 'http/1.1') {
      scope.detected(policy, 'http/1', 0);
      this.#http1(stream, before, scope, policy);
      return;
    }
    const startedAt = performance.now();
    const scan = new HttpScan();
    const look = (bytes: Buffer): HttpGuess | undefined => scan.guess(bytes);
    peek(stream, before, policy.detectTimeoutMs, look, (result) =>
      this.#detected(stream, scope, result, scan, (performance.now() - startedAt) / 1000),
    );
  }

  #detected(stream: Socket, scope: ConnectionScope, result: Peek<HttpGuess>, scan: HttpScan, seconds: number): void {
    // Policy may have changed meanwhile; what was detected is then judged by the new one.
    const now = this.#policy();
    const { bytes } = result;
    scope.detected(now, detectResult(result), seconds);
    if (result.kind === 'ended' && bytes.length === 0) {
      stream.destroy();
    } else if (result.kind === 'seen' && result.value === 'http/2') {
      this.#http2(stream, bytes, scope, now);
    } else if (result.kind === 'seen' && result.value === 'http/1') {
      this.#http1(stream, bytes, scope, now);
    } else if (now.protocol === 'http1' && !(result.kind === 'seen' && result.value === 'other')) {
      // The Server's word, where nothing speaks against it (Linkerd).
      this.#http1(stream, bytes, scope, now);
    } else if (now.protocol === 'detect') {
      this.#undeclared(stream, scope, result, scan.rest(bytes), now);
    } else {
      this.#tcp(stream, scope, bytes, null);
    }
  }

  /** Not HTTP as we know it, on a port that does not say what it is. */
  #undeclared(
    stream: Socket,
    scope: ConnectionScope,
    { kind, bytes }: Peek<HttpGuess>,
    opening: Opening,
    policy: PortPolicy,
  ): void {
    if (!opening.endsAsRequest) {
      this.#tcp(stream, scope, bytes, opening);
      return;
    }
    scope.badRequest(policy, 'what some servers would take for a request, though it is none');
    if (kind === 'seen') stream.end(badRequest);
    stream.destroySoon();
  }

  #http1(stream: Socket, bytes: Buffer, scope: ConnectionScope, policy: PortPolicy): void {
    const connection = this.#http(stream, scope, policy);
    this.#stage = http1;
    this.#services.http1.serve(connection, stream, bytes);
  }

  #http2(stream: Socket, bytes: Buffer, scope: ConnectionScope, policy: PortPolicy): void {
    const connection = this.#http(stream, scope, policy);
    const session = this.#services.http2.serve(connection, stream, bytes);
    this.#stage = { kind: 'http2', session };
    if (this.#services.live.draining) session.drain();
  }

  #http(stream: Socket, scope: ConnectionScope, policy: PortPolicy): HttpConnection {
    this.#transport = scope.openSource(policy, stream);
    const { policyPort, destination } = this.#arrival;
    const connection: HttpConnection = { facts: this.#facts, scope, policyPort, destination, occupant: null };
    const end = (): void => {
      stream.destroy();
      this.destroy();
    };
    this.#settle(stream, () => connection.occupant, end);
    return connection;
  }

  /**
   * Bytes without a request in them: decided once, and again whenever policy changes.
   *
   * @param bytes what was read already.
   * @param opening has read them, and goes on reading; null where the port's protocol is declared.
   */
  #tcp(stream: Socket, scope: ConnectionScope, bytes: Buffer, opening: Opening | null): void {
    const { authorizer, upstreams } = this.#services;
    const policy = this.#policy();
    const { client } = this.#facts;
    const decision = authorizer.connection(policy, client);
    scope.connectionDecided(policy, decision, () => authorizer.connectionReasons(policy, client));
    const { destination } = this.#arrival;
    if (decision.kind === 'deny' || destination.kind !== 'app') {
      stream.destroy();
      this.#socket.destroy();
      return;
    }
    const transport = scope.openSource(policy, stream);
    const permit: ConnectionPermit = decision;
    // What is read from here on waits for the app.
    stream.pause();
    const beginning = {
      asker: sourceOf(this.ip),
      bytes,
      guard: opening === null ? null : new TunnelGuard(opening),
      refused: () => scope.badRequest(policy, 'bytes in a tunnel became what some servers would take for a request'),
    };
    const onError = (): void => scope.tcpError('i/o');
    const closed = (errno: string): void => transport.closed(errno);
    const forwarding = forwardTcp(permit, stream, destination.endpoint, upstreams, beginning, onError, closed);
    this.#stage = { kind: 'tcp', policy, scope, destroy: () => forwarding.destroy() };
    this.#settle(
      stream,
      () => null,
      () => this.destroy(),
    );
  }

  /** It carries something from now on. */
  #settle(stream: Socket, occupant: () => Occupant | null, end: () => void): void {
    this.#services.live.settled(this);
    const hasIdentity = clientId(this.#facts.client) !== null;
    this.#watch = new ConnectionWatch(this.#services.watch, stream, this.ip, hasIdentity, this.#session, occupant, end);
  }

  spareable(): Spareable {
    return this.#watch?.spareable() ?? { kind: 'idle', sinceMs: this.#handshakeSince };
  }

  sweep(nowMs: number): void {
    this.#watch?.sweep(nowMs);
  }

  /** TLS has told who the client is, or that it says nothing of itself. */
  #scope(tls: ClientTls): ConnectionScope {
    if (tls !== noTls) this.#facts = this.#factsOf(tls);
    return this.#services.recorder.connection(this.#facts);
  }

  #factsOf(tls: ClientTls): ConnectionFacts {
    const { targetIp, policyPort } = this.#arrival;
    return { client: { ip: this.ip, tls }, clientPort: this.#clientPort, targetIp, targetPort: policyPort };
  }

  /** What NetworkPolicies no longer admit ends here, HTTP too: its next request would still be let in by none of them. */
  recheck(): void {
    if (this.#stage.kind !== 'over' && !this.isAdmitted('open')) {
      this.destroy();
      return;
    }
    if (this.#stage.kind !== 'tcp') return;
    const { policy, scope, destroy } = this.#stage;
    const now = this.#policy();
    if (now === policy) return;
    this.#stage.policy = now;
    const { authorizer } = this.#services;
    const { client } = this.#facts;
    if (authorizer.connection(now, client).kind === 'permit') return;
    scope.connectionTerminated(now, () => authorizer.connectionReasons(now, client));
    destroy();
    this.#socket.destroy();
  }

  announceDrain(): void {
    if (this.#stage.kind === 'http2') this.#stage.session.announce();
  }

  drain(): void {
    if (this.#stage.kind === 'detecting') this.#socket.destroy();
    else if (this.#stage.kind === 'http2') this.#stage.session.drain();
    // HTTP/1 is drained by its server, which knows who is idle; TCP and tunnels are waited for.
  }

  destroy(): void {
    if (this.#stage.kind === 'tcp') this.#stage.destroy();
    this.#socket.destroy();
  }
}

/** Undefined while it may still become one. */
function lookForTls(): (bytes: Buffer) => Exclude<HelloResult, { kind: 'partial' }> | undefined {
  const scan = new HelloScan();
  return (bytes) => {
    const result = scan.look(bytes);
    return result.kind === 'partial' ? undefined : result;
  };
}

function detectResult(result: Peek<HttpGuess>): 'http/1' | 'http/2' | 'not_http' | 'read_timeout' | 'error' {
  if (result.kind === 'ended') return 'error';
  if (result.kind === 'timeout') return 'read_timeout';
  return result.value === 'http/1' || result.value === 'http/2' ? result.value : 'not_http';
}
