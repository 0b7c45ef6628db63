import type { Client } from '../../../client.ts';
import { noOddNames, oddNamesOf, type RequestFacts, type RequestPermit } from '../../../policy/decision.ts';
import { remembered } from '../../../remembered.ts';
import { isTargetText, readTarget } from '../../../request-target.ts';
import type { Admitted } from '../../http/admitted.ts';
import type { Decided, Request } from '../../http/exchange.ts';
import { fieldPairs, fieldValues } from '../../http/field-lines.ts';
import { type AppHop, appHop, isLastRequest } from '../../http/last-request.ts';
import { outgoingLines } from '../../http/outgoing-fields.ts';
import { type Repeatable, repeatable } from '../../http/retry.ts';
import type { Limits } from '../../limits.ts';
import { latin1Slice } from '../../node-internals.ts';
import { isPlainMethod, requestLine } from '../request-line.ts';
import type { ContentFraming } from './content.ts';
import { type PlainFields, readPlainFields, type Version, withHost } from './plain-fields.ts';

/*
 * What the fast lane takes: requests whose framing and routing leave nothing to interpret. Everything here is narrower
 * than the grammar of RFC 9112, and narrower than what Node's parser accepts; whatever does not fit goes, untouched, to
 * the library lane, which serves or refuses it. So nothing here ever has to refuse anything, only to recognize.
 */

/** A field whose name holds anything but letters, digits and hyphens, anywhere in CRLF-ended lines. */
const oddFieldName = /(?:^|\n)[A-Za-z0-9-]*[^A-Za-z0-9:\r\n-]/;

const oddNamesIn = remembered((lines) => (oddFieldName.test(lines) ? oddNamesOf(fieldPairs(lines)) : noOddNames));

const LF = 10;

/** A request head longer than this is not plain. */
export const maxPlainHead = 64 * 1024;

/** A longer one is read again when it comes again: what each connection remembers, nobody counts. */
export const maxKnownHead = 16 * 1024;
/** The same of what the app got of it. */
const maxKeptOutgoing = 8 * 1024;

export interface PlainHead {
  /** The whole of it. */
  readonly text: string;
  /** The request line for the app, which is asked in origin-form whatever its client wrote. */
  readonly line: string;
  readonly method: string;
  /** In origin-form; `*` for OPTIONS. */
  readonly target: string;
  /** The one that counts: an absolute target's authority, or Host. */
  readonly host: string;
  /** Of `fields`, with that Host. */
  readonly forward: string;
  readonly fields: PlainFields;
}

/**
 * Recognizes a plain request head; null for anything that needs a full parser.
 *
 * @param text a whole head with its empty line, one character per byte.
 * @param known the fields of this connection's previous request.
 */
export function readPlainHead(text: string, known: PlainFields | null): PlainHead | null {
  const match = requestLine.exec(text);
  if (match === null) return null;
  const [received, method, form, minor] = match as unknown as [string, string, string, string];
  // The empty line must be there besides the request line: HTTP/1.0 needs no field between the two.
  if (!isPlainMethod(method) || text.length < received.length + 2 || !isTargetText(form)) return null;
  const version: Version = minor === '1' ? 'HTTP/1.1' : 'HTTP/1.0';
  const section = text.slice(received.length, -2);
  const isKnown = known !== null && known.version === version && known.text === section;
  const fields = isKnown ? known : readPlainFields(section, version);
  if (fields === null || (fields.framing.kind === 'tunnel' && method !== 'GET')) return null;
  const { host, forward } = fields;
  if (!form.startsWith('h')) {
    return { text, line: received, method, target: form, host, forward, fields };
  }
  const absolute = readTarget(method, form);
  if (absolute === null || absolute.authority === null) return null;
  const { target, authority } = absolute;
  const line = `${method} ${target} ${version}\r\n`;
  return { text, line, method, target, host: authority, forward: withHost(forward, authority), fields };
}

const carriedBy: Readonly<Record<ContentFraming['kind'], RequestFacts['carries']>> = {
  none: 'nothing',
  length: 'body',
  chunked: 'body',
  tunnel: 'upgrade',
};

const asksToSwitch = 'Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n';

/** A plain request as policy and logs see it. */
export class PlainRequest implements Request {
  readonly text: string;
  readonly line: string;
  readonly method: string;
  readonly target: string;
  readonly path: string;
  readonly query: string;
  readonly host: string;
  readonly grpc = false;
  readonly carries: RequestFacts['carries'];
  readonly version: Version;
  readonly fields: PlainFields;
  /** The fields that the app gets. */
  readonly forward: string;
  /** By a connection to the app that its client has for HEAD alone (../../http/last-request.ts says why). */
  readonly isApart: boolean;
  readonly hop: AppHop;
  /** What ends its head for the app: fields of that connection, and the empty line. */
  readonly ending: string;
  decided: Decided | null = null;
  noted: object | null = null;
  #outgoing = '';
  /** What it was made for. */
  #permit: RequestPermit | null = null;

  constructor(head: PlainHead) {
    this.text = head.text;
    this.line = head.line;
    this.method = head.method;
    this.target = head.target;
    this.fields = head.fields;
    this.version = head.fields.version;
    this.forward = head.forward;
    this.host = head.host;
    const { kind } = head.fields.framing;
    this.carries = carriedBy[kind];
    const hasContent = this.carries === 'body';
    this.isApart = head.method === 'HEAD' && !hasContent && head.fields.keepAlive;
    const isLast = kind === 'tunnel' || (!this.isApart && isLastRequest(head.method, hasContent));
    this.hop = appHop(this.version, head.fields.saysConnection, isLast);
    const coding = kind === 'chunked' ? 'transfer-encoding: chunked\r\n' : '';
    this.ending = kind === 'tunnel' ? asksToSwitch : `${coding}${this.hop.connectionLine}\r\n`;
    const mark = head.target.indexOf('?');
    this.path = mark === -1 ? head.target : head.target.slice(0, mark);
    this.query = mark === -1 ? '' : head.target.slice(mark + 1);
  }

  /**
   * The head for the app: the same as before where the same permit lets it through.
   *
   * @param client the one on whose connection it comes each time.
   */
  outgoing(client: Client, admitted: Admitted): string {
    const { permit } = admitted;
    if (permit === this.#permit) return this.#outgoing;
    const head = this.line + outgoingLines(client, admitted, this.forward) + this.ending;
    if (this.text.length <= maxKeptOutgoing) {
      this.#outgoing = head;
      this.#permit = permit;
    }
    return head;
  }

  /** Whether these bytes begin with the very same head. */
  begins(bytes: Buffer): boolean {
    const { length } = this.text;
    if (bytes.length < length || bytes[length - 1] !== LF || bytes[length - 3] !== LF) return false;
    return latin1Slice(bytes, 0, length) === this.text;
  }

  get repeatable(): Repeatable {
    return repeatable(this.method, this.carries !== 'nothing');
  }

  get isOld(): boolean {
    return this.version === 'HTTP/1.0';
  }

  /** HTTP/1.0 must be told that its connection stays (RFC 9112 C.2.2), in the lines of Node's server; who else asks is told nothing. */
  keptLines({ http1IdleTimeoutMs }: Pick<Limits, 'http1IdleTimeoutMs'>): string {
    if (!this.isOld) return '';
    // None where nothing is to be promised.
    const isPromised = Number.isFinite(http1IdleTimeoutMs);
    return `connection: keep-alive\r\n${isPromised ? `keep-alive: timeout=${Math.floor(http1IdleTimeoutMs / 1000)}\r\n` : ''}`;
  }

  get headBytes(): number {
    return 2 * this.text.length;
  }

  /** Values among the forwarded fields: policy and app see the same ones. */
  header(name: string): readonly string[] {
    return fieldValues(this.forward, name);
  }

  get oddNames(): readonly string[] {
    return oddNamesIn(this.forward);
  }
}
