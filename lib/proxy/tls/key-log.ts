import type { TLSSocket } from 'node:tls';

/** By these the log of keys calls what clients' records are encrypted with: in the handshake, and each time behind it. */
const ofHandshake = 'CLIENT_HANDSHAKE_TRAFFIC_SECRET';
const ofContent = 'CLIENT_TRAFFIC_SECRET_N';

/** Told of the keys of one client, from within OpenSSL. */
export interface KeyHeeder {
  /** @param secret the client's handshake traffic secret (RFC 8446 section 7.1); a copy. */
  handshakeKeys?(secret: Buffer): void;
  /** The client has made new ones. */
  newKeys(): void;
}

/** Under this a TLS socket keeps who is told. */
const kept = Symbol('key heeder');

interface Heeded extends TLSSocket {
  [kept]?: KeyHeeder;
}

/**
 * One for all sockets. OpenSSL says so while it reads, in every handshake, too. Of the keys themselves nothing is to stay,
 * unless Node was told to write them down (--tls-keylog).
 */
function onKeys(this: Heeded, line: Buffer): void {
  const label = line.toString('latin1', 0, line.indexOf(' '));
  // A label, the client's random number, the secret.
  const secret = label === ofHandshake ? secretOf(line) : null;
  if (this.listenerCount('keylog') === 1) line.fill(0);
  if (secret !== null) this[kept]?.handshakeKeys?.(secret);
  else if (label === ofContent) this[kept]?.newKeys();
}

function secretOf(line: Buffer): Buffer {
  return Buffer.from(line.toString('latin1', line.lastIndexOf(' ') + 1).trim(), 'hex');
}

/** @param secure new: what it was told before is not known. */
export function heedKeys(secure: TLSSocket, heeder: KeyHeeder): void {
  tellOfKeys(secure, heeder);
  secure.on('keylog', onKeys);
}

/** From now on somebody else is told. */
export function tellOfKeys(secure: TLSSocket, heeder: KeyHeeder): void {
  const heeded: Heeded = secure;
  heeded[kept] = heeder;
}
