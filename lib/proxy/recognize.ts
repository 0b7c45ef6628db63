import type { Socket } from 'node:net';
import type { ClientTls } from '../client.ts';
import type { IpAddress } from '../ip.ts';
import { now } from '../moment.ts';
import type { ConnectionProbes, PortPolicy } from '../policy/decision.ts';
import { type ClientHello, type HelloResult, HelloScan, handshakeRecord, notTls } from './detect/client-hello.ts';
import { type HttpGuess, HttpScan, otherHttp } from './detect/http-guess.ts';
import { Opening } from './detect/opening.ts';
import { type Peek, peek } from './detect/peek.ts';
import { sourceOf } from './fairness/sources.ts';
import { type Ending, guarded } from './guard.ts';
import { endWithStatus } from './http/last-bytes.ts';
import { Incoming } from './incoming.ts';
import type { ConnectionScope, HandshakeFailure } from './recorder.ts';
import type { Handshake } from './tls/handshake.ts';
import type { PeerSession } from './tls/peer-session.ts';
import type { AlpnPreference, TlsTermination } from './tls/termination.ts';
import type { WatchedReads } from './tls/watched-reads.ts';

/** A connection whose client and protocol are not known yet. At most one of the last three is called, once. */
export interface Unrecognized extends Ending {
  readonly incoming: Incoming;
  /** What it is as a stream; it need not be one. */
  readonly socket: Socket;
  /** Of the client. */
  readonly ip: IpAddress;
  /** Milliseconds for the first bytes. */
  readonly detectTimeoutMs: number;
  /** Policy is read anew at each step: it may have changed while we waited for bytes. */
  policy(): PortPolicy;
  /** What it may be although nothing authorizes it. */
  probes(): ConnectionProbes;
  /** Whether bytes without requests in them would go on. */
  isAuthorized(): boolean;
  /** Null where this proxy has no identity. */
  termination(): TlsTermination | null;
  /** Counts a handshake in; false where there are too many. */
  mayHandshake(): boolean;
  /** TLS that does not end here, though it does for `ours`. `outcome`: in words. */
  helloNotForUs(serverName: string | null, ours: ReadonlySet<string>, outcome: string): void;
  /** The client speaks the other HTTP than the port is declared to speak, and will not be understood. */
  speaksOtherHttp(spoken: 'http/1' | 'http/2'): void;
  /** In the time for detection it has said nothing that tells what it is. */
  notRecognized(seconds: number): void;
  /** Nobody knows who the client is. */
  handshakeFailed(serverName: string, failure: HandshakeFailure): void;
  /** The handshake has succeeded; what comes is read from this stream. */
  secured(stream: Incoming, session: PeerSession | null, reads: WatchedReads): void;
  /** TLS has verified who the client is, or that it shows no certificate. */
  identify(tls: ClientTls): ConnectionScope;
  /** As `TlsTermination.accept`, with a certificate that nobody knows. */
  probeHandshake(unread: Buffer, hello: ClientHello, done: (result: Handshake) => void): void;
  /** What comes from this socket are requests, of which only HTTPS probes are let in. */
  probing(stream: Incoming, alpn: AlpnPreference, scope: ConnectionScope): void;
  http1(stream: Incoming, bytes: Buffer, scope: ConnectionScope, policy: PortPolicy): void;
  http2(stream: Incoming, bytes: Buffer, scope: ConnectionScope, policy: PortPolicy): void;
  /** @param opening has read `bytes`, and goes on reading; null where the port's protocol is declared. */
  tcp(stream: Incoming, scope: ConnectionScope, bytes: Buffer, opening: Opening | null): void;
}

const nothing = Buffer.alloc(0);

export const noTls: ClientTls = { kind: 'none', reason: 'no_tls_from_remote' };

/** Finds out who the client is and what it speaks, as far as policy wants to know. */
export function recognize(connection: Unrecognized): void {
  const policy = connection.policy();
  if (policy.protocol !== 'opaque') {
    detectTls(connection);
    return;
  }
  const scope = connection.identify({ kind: 'none', reason: 'port_skipped' });
  const { silence, tls } = connection.probes();
  if (connection.isAuthorized() || !(silence || tls)) connection.tcp(connection.incoming, scope, nothing, null);
  else awaitProbe(connection, scope);
}

/** Nothing authorizes it: it is a probe if it ends without a word or speaks TLS, and else as denied as it was. */
function awaitProbe(connection: Unrecognized, scope: ConnectionScope): void {
  peek(connection.incoming, nothing, connection.detectTimeoutMs, lookForTls(), (result) => {
    const { kind, bytes } = result;
    if (kind === 'ended' && bytes.length === 0) endedSilent(connection, scope);
    else if (kind === 'seen' && result.value.kind === 'hello' && mayProbeInTls(connection, result.value.hello)) {
      takeProbe(connection, bytes, result.value.hello);
    } else connection.tcp(connection.incoming, scope, bytes, null);
  });
}

/** TLS for others that would not go on as bytes. */
function mayProbeInTls(connection: Unrecognized, hello: ClientHello): boolean {
  return connection.probes().tls && !isForUs(connection, hello) && !connection.isAuthorized();
}

/** TLS ends here for a client that verifies nobody, so that each of its requests is decided. */
function takeProbe(connection: Unrecognized, bytes: Buffer, hello: ClientHello): void {
  if (!connection.mayHandshake()) {
    connection.incoming.destroy();
    return;
  }
  connection.socket.pause();
  const sni = hello.serverName ?? '';
  const established = (handshake: Handshake): void => {
    if (handshake.kind === 'failed') {
      connection.handshakeFailed(sni, handshake.failure);
      connection.incoming.destroy();
      return;
    }
    const { socket, reads } = handshake;
    const decrypted = Incoming.stream(socket);
    connection.secured(decrypted, null, reads);
    const scope = connection.identify({ kind: 'passthrough', sni });
    connection.probing(decrypted, socket.alpnProtocol === 'h2' ? 'h2' : 'http/1.1', scope);
  };
  connection.probeHandshake(bytes, hello, guarded('the TLS handshake of a probe', connection, established));
}

/** Policy may have changed meanwhile. */
function endedSilent(connection: Unrecognized, scope: ConnectionScope): void {
  if (connection.probes().silence) scope.probed(connection.policy());
  connection.incoming.destroy();
}

function detectTls(connection: Unrecognized): void {
  const { incoming } = connection;
  peek(incoming, incoming.receive(), connection.detectTimeoutMs, lookForTls(), (result) => {
    const { bytes } = result;
    if (result.kind === 'ended') {
      if (bytes.length === 0 && connection.probes().silence) endedSilent(connection, connection.identify(noTls));
      else connection.incoming.destroy();
    } else if (result.kind === 'timeout') {
      connection.identify(noTls).tcpError('tls detection timeout', null);
      connection.incoming.destroy();
    } else if (result.value.kind === 'hello' && mayProbeInTls(connection, result.value.hello)) {
      takeProbe(connection, bytes, result.value.hello);
    } else if (result.value.kind === 'hello' && result.value.hello.serverName !== null) {
      takeHello(connection, bytes, result.value.hello, result.value.hello.serverName);
    } else {
      // Linkerd takes a ClientHello without a name for plaintext: it can be meant for nobody but the app.
      if (result.value.kind === 'hello') tellNotForUs(connection, null);
      recognizePlain(connection, incoming, bytes, noTls, null);
    }
  });
}

function isForUs(connection: Unrecognized, { serverName }: ClientHello): boolean {
  return serverName !== null && connection.termination()?.names.has(serverName) === true;
}

function takeHello(connection: Unrecognized, bytes: Buffer, hello: ClientHello, serverName: string): void {
  const { protocol } = connection.policy();
  const termination = connection.termination();
  if (termination === null || !termination.names.has(serverName)) {
    tellNotForUs(connection, serverName);
    passThrough(connection, bytes, connection.identify({ kind: 'passthrough', sni: serverName }));
    return;
  }
  if (!connection.mayHandshake()) {
    connection.incoming.destroy();
    return;
  }
  connection.socket.pause();
  const prefer: AlpnPreference = protocol === 'http2' || protocol === 'grpc' ? 'h2' : 'http/1.1';
  const established = (handshake: Handshake): void => {
    if (handshake.kind === 'failed') {
      connection.handshakeFailed(serverName, handshake.failure);
      connection.incoming.destroy();
      return;
    }
    const { socket, identity, session, reads } = handshake;
    const decrypted = Incoming.stream(socket);
    connection.secured(decrypted, session, reads);
    const alpn = socket.alpnProtocol === false ? null : socket.alpnProtocol;
    recognizePlain(connection, decrypted, nothing, { kind: 'mesh', identity }, alpn);
  };
  const done = guarded('a TLS handshake', connection, established);
  termination.accept(connection.socket, sourceOf(connection.ip), bytes, hello, prefer, done);
}

/** Who configures an identity expects TLS to end here. Where the port's TLS is declared to be the app's, nothing is odd. */
function tellNotForUs(connection: Unrecognized, serverName: string | null): void {
  const termination = connection.termination();
  if (termination === null || connection.policy().protocol === 'tls') return;
  const outcome =
    serverName === null
      ? 'without a name it is taken for plaintext: no identity, and no HTTP'
      : 'passed through unread as opaque TLS: decided as a connection, without an identity';
  connection.helloNotForUs(serverName, termination.names, outcome);
}

/** TLS for somebody else: its requests cannot be seen. A hello is bytes like any; some would read a request in it. */
function passThrough(connection: Unrecognized, bytes: Buffer, scope: ConnectionScope): void {
  const policy = connection.policy();
  if (policy.protocol !== 'detect') {
    connection.tcp(connection.incoming, scope, bytes, null);
    return;
  }
  scope.detected(policy, 'not_http', 0);
  const opening = new Opening();
  opening.read(bytes);
  connection.tcp(connection.incoming, scope, bytes, opening);
}

/** The bytes that the client means for the app are readable now; the first of them may have been read. */
function recognizePlain(
  connection: Unrecognized,
  stream: Incoming,
  bytes: Buffer,
  tls: ClientTls,
  alpn: string | null,
): void {
  const policy = connection.policy();
  const scope = connection.identify(tls);
  switch (policy.protocol) {
    case 'opaque':
    case 'tls':
      connection.tcp(stream, scope, bytes, null);
      return;
    case 'http2':
    case 'grpc':
      if (alpn !== 'h2') tellOtherHttp(connection, 'http/2', alpn === 'http/1.1' ? 'http/1' : null, bytes);
      connection.http2(stream, bytes, scope, policy);
      return;
    case 'http1':
      // Without TLS the Server's word is taken; a meshed peer may send HTTP/2 (Linkerd's orig-proto).
      if (tls.kind === 'none') {
        tellOtherHttp(connection, 'http/1', null, bytes);
        connection.http1(stream, bytes, scope, policy);
      } else detectHttp(connection, stream, bytes, scope, policy, alpn);
      return;
    case 'detect':
      detectHttp(connection, stream, bytes, scope, policy, alpn);
  }
}

/** The Server's word is taken nonetheless, and the connection will come to nothing. */
function tellOtherHttp(
  connection: Unrecognized,
  declared: 'http/1' | 'http/2',
  agreed: 'http/1' | null,
  bytes: Buffer,
): void {
  const spoken = agreed ?? otherHttp(declared, bytes);
  if (spoken !== null) connection.speaksOtherHttp(spoken);
}

function detectHttp(
  connection: Unrecognized,
  stream: Incoming,
  before: Buffer,
  scope: ConnectionScope,
  policy: PortPolicy,
  alpn: string | null,
): void {
  // What was agreed on is spoken, or nothing.
  if (alpn === 'h2') {
    scope.detected(policy, 'http/2', 0);
    connection.http2(stream, before, scope, policy);
    return;
  }
  if (alpn === 'http/1.1') {
    scope.detected(policy, 'http/1', 0);
    connection.http1(stream, before, scope, policy);
    return;
  }
  const startedAt = now();
  const scan = new HttpScan(policy.protocol === 'detect');
  const look = (bytes: Buffer): HttpGuess | undefined => scan.guess(bytes);
  peek(stream, before, policy.detectTimeoutMs, look, (result) =>
    concludeHttp(connection, stream, scope, result, scan, (now() - startedAt) / 1000),
  );
}

function concludeHttp(
  connection: Unrecognized,
  stream: Incoming,
  scope: ConnectionScope,
  result: Peek<HttpGuess>,
  scan: HttpScan,
  seconds: number,
): void {
  // Policy may have changed meanwhile; what was detected is then judged by the new one.
  const policy = connection.policy();
  const { bytes } = result;
  scope.detected(policy, detectResult(result), seconds);
  if (result.kind === 'ended' && bytes.length === 0) {
    stream.destroy();
  } else if (result.kind === 'seen' && result.value === 'http/2') {
    connection.http2(stream, bytes, scope, policy);
  } else if (result.kind === 'seen' && result.value === 'http/1') {
    connection.http1(stream, bytes, scope, policy);
  } else if (policy.protocol === 'http1' && !(result.kind === 'seen' && result.value === 'other')) {
    // The Server's word, where nothing speaks against it (Linkerd).
    connection.http1(stream, bytes, scope, policy);
  } else if (policy.protocol === 'detect') {
    if (result.kind === 'timeout') connection.notRecognized(seconds);
    undeclared(connection, stream, scope, result, scan.rest(bytes), policy);
  } else {
    connection.tcp(stream, scope, bytes, null);
  }
}

/** Not HTTP as we know it, on a port that does not say what it is. */
function undeclared(
  connection: Unrecognized,
  stream: Incoming,
  scope: ConnectionScope,
  { kind, bytes }: Peek<HttpGuess>,
  opening: Opening,
  policy: PortPolicy,
): void {
  if (!opening.endsAsRequest) {
    connection.tcp(stream, scope, bytes, opening);
    return;
  }
  scope.badRequest(policy, 'what some servers would take for a request, though it is none');
  if (kind === 'seen') endWithStatus(stream.socket, '400 Bad Request');
  else stream.socket.destroySoon();
}

/** Undefined while it may still become one. */
function lookForTls(): (bytes: Buffer) => Exclude<HelloResult, { kind: 'partial' }> | undefined {
  let scan: HelloScan | null = null;
  return (bytes) => {
    // Nearly all that is not TLS says so by its first byte.
    if (scan === null && bytes.length > 0 && bytes[0] !== handshakeRecord) return notTls;
    scan ??= new HelloScan();
    const result = scan.look(bytes);
    return result.kind === 'partial' ? undefined : result;
  };
}

function detectResult(result: Peek<HttpGuess>): 'http/1' | 'http/2' | 'not_http' | 'read_timeout' | 'error' {
  if (result.kind === 'ended') return 'error';
  if (result.kind === 'timeout') return 'read_timeout';
  return result.value === 'http/1' || result.value === 'http/2' ? result.value : 'not_http';
}
