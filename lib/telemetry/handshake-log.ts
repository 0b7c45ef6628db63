import type { PortPolicy } from '../policy/decision.ts';
import {
  type HandshakeFailure,
  type HandshakeReason,
  handshakeCodes,
  type OwnCertificate,
  type ShownCertificate,
  type UnknownClient,
} from '../proxy/recorder.ts';
import { type ClientLines, clientKey } from './client-lines.ts';
import type { Families } from './figures.ts';
import { type Cell, constantGroup } from './series.ts';

/** Names of ours in a line. */
const maxNames = 5;

/**
 * `sallyport_tls_failures_total`, and lines about TLS that does not end here as its client may have meant it, or HTTP that
 * is not what the Server declares: for each client and reason one a minute.
 */
export class HandshakeLog {
  readonly #cells: ReadonlyMap<HandshakeReason, Cell>;
  readonly #lines: ClientLines;

  constructor(families: Families, lines: ClientLines) {
    this.#lines = lines;
    const family = families.counter(
      'sallyport_tls_failures_total',
      'TLS handshakes for our name that failed, by reason.',
    );
    const reasons = Object.keys(handshakeCodes) as HandshakeReason[];
    this.#cells = new Map(reasons.map((reason) => [reason, family.at(constantGroup({ reason }))]));
  }

  failed(client: UnknownClient, serverName: string, failure: HandshakeFailure): void {
    const cell = this.#cells.get(failure.reason);
    if (cell !== undefined) cell.value++;
    this.#lines.tell(
      'TLS handshake failed',
      { cause: failure.reason, client: clientKey(client.clientIp, client.targetPort) },
      () => ({ ...reasonFields(failure), ...clientFields(client), sni: serverName }),
    );
  }

  notForUs(client: UnknownClient, serverName: string | null, ours: readonly string[], outcome: string): void {
    // Whatever the name: a client makes up as many as it likes.
    this.#lines.tell(
      'TLS not for our names',
      { cause: '', client: clientKey(client.clientIp, client.targetPort) },
      () => ({ code: 'tls-not-for-us', sni: serverName, ours: some(ours), outcome, ...clientFields(client) }),
    );
  }

  otherHttp(client: UnknownClient, policy: PortPolicy, spoken: 'http/1' | 'http/2'): void {
    const { group, kind, name } = policy.server;
    this.#lines.tell(
      'Not the HTTP that the Server declares',
      { cause: `${name} ${spoken}`, client: clientKey(client.clientIp, client.targetPort) },
      () => ({
        code: 'other-http',
        server: { group, kind, name },
        protocol: policy.protocol,
        spoken,
        hint: 'Correct proxyProtocol of the Server, or leave it out.',
        ...clientFields(client),
      }),
    );
  }
}

type Fields = Record<string, unknown>;

function reasonFields({ reason, detail, certificate, own, clockMs }: HandshakeFailure): Fields {
  return {
    reason,
    code: handshakeCodes[reason],
    detail,
    ...(certificate === null ? {} : { certificate: shownFields(certificate()) }),
    own: ownFields(own),
    clock: new Date(clockMs).toISOString(),
  };
}

/** Whose it is nobody knows, so that there is neither `id` nor `tls`. */
function clientFields({ clientIp, clientPort, targetIp, targetPort }: UnknownClient): Fields {
  return {
    client: { ip: clientIp.text, port: clientPort },
    target: { ip: targetIp, port: targetPort },
  };
}

function some(texts: readonly string[]): string[] {
  return texts.slice(0, maxNames);
}

function shownFields({ subject, names, issuer, notBefore, notAfter }: ShownCertificate): Fields {
  return { subject, names, issuer, notBefore, notAfter };
}

function ownFields({ names, issuer, notAfter, trusts }: OwnCertificate): Fields {
  return { names: some(names), issuer, notAfter: notAfter.toISOString(), trusts: some(trusts) };
}
