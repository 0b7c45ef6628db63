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
 * is not what the Server declares: for each client and reason one a minute; and about ports whose protocol nobody can tell.
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

  /** Of a port and not of its clients: each of them waits as long, for the same reason. */
  notRecognized(client: UnknownClient, policy: PortPolicy, seconds: number): void {
    const { group, kind, name } = policy.server;
    const port = String(client.targetPort);
    this.#lines.tell('Protocol not recognized', { cause: port, client: port }, () => ({
      code: 'not-recognized',
      server: { group, kind, name },
      waited: `${Math.round(seconds)}s`,
      hint: 'Declare proxyProtocol in a Server of this port, opaque or TLS, or name it in the opaque ports.',
      ...clientFields(client),
    }));
  }
}

type Fields = Record<string, unknown>;

function reasonFields({ reason, detail, certificate, own, clockMs }: HandshakeFailure): Fields {
  return {
    reason,
    code: handshakeCodes[reason],
    detail,
    ...certificateFields(reason, certificate?.() ?? null, own),
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

function certificateFields(reason: HandshakeReason, shown: ShownCertificate | null, own: OwnCertificate): Fields {
  if (shown === null) return {};
  const { subject, names, issuer, authority, notBefore, notAfter } = shown;
  const certificate = { subject, names, issuer, authority, notBefore, notAfter };
  return reason === 'unknown_issuer' ? { certificate, hint: issuerHint(shown, own) } : { certificate };
}

/** Two authorities of one name look alike, and Linkerd's always do. */
function issuerHint({ authority: { name, keyId } }: ShownCertificate, { anchors }: OwnCertificate): string {
  const sameName = anchors.filter(({ subject }) => subject === name);
  const key = keyId === '' ? '' : ` (key ${keyId})`;
  if (sameName.some((anchor) => anchor.keyId === keyId && keyId !== '')) {
    return `Its certificates end at an anchor of ours${key}, but are not signed by it: have the client's certificate issued anew.`;
  }
  const add = `add that root's certificate to SALLYPORT_IDENTITY_TRUST_ANCHORS, or have the client's certificate issued under ours`;
  if (sameName.length === 0) {
    return `Its certificates end at ${name}${key}, which none of our anchors is: ${add}; or let it send its intermediates.`;
  }
  return `Its root has the name of an anchor of ours, but another key${key}: another installation, or a root made anew; ${add}.`;
}

function ownFields({ names, issuer, notAfter, trusts, anchors }: OwnCertificate): Fields {
  const shown = anchors.slice(0, maxNames).map(({ keyId, sha256 }) => ({ keyId, sha256 }));
  return { names: some(names), issuer, notAfter: notAfter.toISOString(), trusts: some(trusts), anchors: shown };
}
