import { noOddNames, oddNamesOf, type RequestFacts } from '../../../policy/decision.ts';
import type { Decided, Request } from '../../http/exchange.ts';
import { fieldPairs, fieldValues } from '../../http/field-lines.ts';
import { isLastRequest } from '../../http/last-request.ts';
import { isPlainMethod, requestLine } from '../request-line.ts';
import { type PlainFields, readPlainFields } from './plain-fields.ts';

/*
 * What the fast lane takes: requests whose framing and routing leave nothing to interpret. Everything here is narrower
 * than the grammar of RFC 9112, and narrower than what Node's parser accepts; whatever does not fit goes, untouched, to
 * the library lane, which serves or refuses it. So nothing here ever has to refuse anything, only to recognize.
 */

/** A field whose name holds anything but letters, digits and hyphens, anywhere in CRLF-ended lines. */
const oddFieldName = /(?:^|\n)[A-Za-z0-9-]*[^A-Za-z0-9:\r\n-]/;

/** A request head longer than this is not plain. */
export const maxPlainHead = 16 * 1024;

export interface PlainHead {
  /** The whole of it. */
  readonly text: string;
  readonly line: string;
  readonly method: string;
  readonly target: string;
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
  if (match === null || !isPlainMethod(match[1] as string)) return null;
  const line = match[0];
  const section = text.slice(line.length, -2);
  const fields = known !== null && known.text === section ? known : readPlainFields(section);
  return fields === null ? null : { text, line, method: match[1] as string, target: match[2] as string, fields };
}

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
  readonly version = 'HTTP/1.1';
  readonly fields: PlainFields;
  /** On its connection to the app. */
  readonly isLast: boolean;
  /** What ends its head for the app: fields of that connection, and the empty line. */
  readonly ending: string;
  decided: Decided | null = null;

  constructor(head: PlainHead) {
    this.text = head.text;
    this.line = head.line;
    this.method = head.method;
    this.target = head.target;
    this.fields = head.fields;
    this.host = head.fields.host;
    this.carries = head.fields.framing.kind === 'none' ? 'nothing' : 'body';
    this.isLast = isLastRequest(head.method, this.carries === 'body');
    const coding = head.fields.framing.kind === 'chunked' ? 'transfer-encoding: chunked\r\n' : '';
    this.ending = `${coding}${this.isLast ? 'connection: close\r\n' : ''}\r\n`;
    const mark = head.target.indexOf('?');
    this.path = mark === -1 ? head.target : head.target.slice(0, mark);
    this.query = mark === -1 ? '' : head.target.slice(mark + 1);
  }

  get headBytes(): number {
    return 2 * this.text.length;
  }

  /** Values among the forwarded fields: policy and app see the same ones. */
  header(name: string): readonly string[] {
    return fieldValues(this.fields.forward, name);
  }

  get oddNames(): readonly string[] {
    const { forward } = this.fields;
    return oddFieldName.test(forward) ? oddNamesOf(fieldPairs(forward)) : noOddNames;
  }
}
