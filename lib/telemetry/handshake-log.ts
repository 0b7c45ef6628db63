import type { PortPolicy } from '../policy/decision.ts';
import {
  type HandshakeFailure,
  type HandshakeReason,
  handshakeCodes,
  type OwnCertificate,
  type ShownCertificate,
  type UnknownClient,
} from '../proxy/recorder.ts';
import { clip } from './decision-log.ts';
import type { Families } from './figures.ts';
import type { CodedLogger } from './log.ts';
import { type LineGate, occasionFields, Repeats } from './repeats.ts';
import { type Cell, constantGroup } from './series.ts';

const maxText = 256;
/** Names of ours in a line. */
const maxNames = 5;

/**
 * `sallyport_tls_failures_total`, and lines about TLS that does not end here as its client may have meant it, or HTTP that
 * is not what the Server declares: for each client and reason one a minute; and about ports whose protocol nobody can tell.
 */
export class HandshakeLog {
  readonly #cells: ReadonlyMap<HandshakeReason, Cell>;
  readonly #log: Pick<CodedLogger, 'info' | 'isLevelEnabled'>;
  readonly #failures: Repeats;
  readonly #notForUs: Repeats;
  readonly #otherHttp: Repeats;
  readonly #notRecognized: Repeats;

  constructor(
    families: Families,
    log: Pick<CodedLogger, 'info' | 'isLevelEnabled'>,
    nowMs: () => number,
    gate: LineGate,
  ) {
    this.#log = log;
    this.#failures = new Repeats('handshake failed', nowMs, gate);
    this.#notForUs = new Repeats('not for us', nowMs, gate);
    this.#otherHttp = new Repeats('other HTTP', nowMs, gate);
    this.#notRecognized = new Repeats('not recognized', nowMs, gate);
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
    if (!this.#log.isLevelEnabled('info')) return;
    const occasion = this.#failures.occasion(`${failure.reason} ${client.clientIp.text}`);
    if (occasion === null) return;
    const fields = { ...reasonFields(failure), ...clientFields(client), sni: clip(serverName, maxText) };
    this.#log.info({ ...fields, ...occasionFields(occasion) }, 'TLS handshake failed');
  }

  notForUs(client: UnknownClient, serverName: string | null, ours: readonly string[], outcome: string): void {
    if (!this.#log.isLevelEnabled('info')) return;
    // Whatever the name: a client makes up as many as it likes.
    const occasion = this.#notForUs.occasion(client.clientIp.text);
    if (occasion === null) return;
    const sni = serverName === null ? null : clip(serverName, maxText);
    const fields = {
      code: 'tls-not-for-us',
      sni,
      ours: some(ours),
      outcome,
      ...clientFields(client),
      ...occasionFields(occasion),
    };
    this.#log.info(fields, 'TLS not for our names');
  }

  otherHttp(client: UnknownClient, policy: PortPolicy, spoken: 'http/1' | 'http/2'): void {
    if (!this.#log.isLevelEnabled('info')) return;
    const occasion = this.#otherHttp.occasion(`${spoken} ${client.targetPort} ${client.clientIp.text}`);
    if (occasion === null) return;
    const { group, kind, name } = policy.server;
    const fields = {
      code: 'other-http',
      server: { group, kind, name },
      protocol: policy.protocol,
      spoken,
      hint: 'Correct proxyProtocol of the Server, or leave it out.',
      ...clientFields(client),
      ...occasionFields(occasion),
    };
    this.#log.info(fields, 'Not the HTTP that the Server declares');
  }

  notRecognized(client: UnknownClient, policy: PortPolicy, seconds: number): void {
    if (!this.#log.isLevelEnabled('info')) return;
    // Of a port and not of its clients: each of them waits as long, for the same reason.
    const occasion = this.#notRecognized.occasion(String(client.targetPort));
    if (occasion === null) return;
    const { group, kind, name } = policy.server;
    const fields = {
      code: 'not-recognized',
      server: { group, kind, name },
      waited: `${Math.round(seconds)}s`,
      hint: 'Declare proxyProtocol in a Server of this port, opaque or TLS, or name it in the opaque ports.',
      ...clientFields(client),
      ...occasionFields(occasion),
    };
    this.#log.info(fields, 'Protocol not recognized');
  }
}

type Fields = Record<string, unknown>;

function reasonFields({ reason, detail, certificate, own, clockMs }: HandshakeFailure): Fields {
  return {
    reason,
    code: handshakeCodes[reason],
    detail: clip(detail, maxText),
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
  return texts.slice(0, maxNames).map((text) => clip(text, maxText));
}

function shownFields({ subject, names, issuer, notBefore, notAfter }: ShownCertificate): Fields {
  return {
    subject: clip(subject, maxText),
    names: clip(names, maxText),
    issuer: clip(issuer, maxText),
    notBefore: clip(notBefore, maxText),
    notAfter: clip(notAfter, maxText),
  };
}

function ownFields({ names, issuer, notAfter, trusts }: OwnCertificate): Fields {
  return { names: some(names), issuer: clip(issuer, maxText), notAfter: notAfter.toISOString(), trusts: some(trusts) };
}
