import { token } from '../../http-message.ts';
import { jsonText } from '../../printable.ts';
import { endOfLine } from '../http/field-lines.ts';

/** What is wrong with an app's response, in words for the log: the rule, and the field where it is one's. */
export interface ResponseFault {
  readonly kind: 'fault';
  /** Printable, and bounded: what it quotes of the app is cut. */
  readonly fault: string;
}

/** Characters of what an app has sent that a fault quotes. */
const mostQuoted = 40;

function quoted(text: string): string {
  return jsonText(text.length > mostQuoted ? `${text.slice(0, mostQuoted)}…` : text);
}

function faultOf(fault: string): ResponseFault {
  return { kind: 'fault', fault };
}

export const bareLineFeed = faultOf('a line of its head that ends with LF alone');

/** Of bytes that are no beginning of a response, or too many for a head. */
export function beginningFault(bytes: Buffer): ResponseFault {
  const begins = bytes.toString('latin1', 0, mostQuoted + 1);
  if (/^HTTP\/1\./.test(begins)) return faultOf('a head that is too long');
  if (/^\r?\n/.test(begins)) return faultOf('an empty line before the status line');
  return faultOf(`no HTTP/1: it begins with ${quoted(begins)}`);
}

/** @param text a head that does not begin with a status line. */
export function statusLineFault(text: string): ResponseFault {
  const line = text.slice(0, endOfLine(text, 0));
  if (/^[\r\n]/.test(text)) return faultOf('an empty line before the status line');
  if (line.includes('\n')) return bareLineFeed;
  if (!line.startsWith('HTTP/1.')) return faultOf(`no HTTP/1: it begins with ${quoted(line)}`);
  const version = /^HTTP\/1\.[01](?: |$)/.test(line) ? '' : ', in its version';
  const status = /^HTTP\/1\.[01] (?![1-9][0-9]{2}(?: |$))/.test(line) ? ', in its status' : '';
  return faultOf(`a status line that is none${version || status}: ${quoted(line)}`);
}

/** @param section CRLF-ended lines of which one at least is no field. */
export function sectionFault(section: string): ResponseFault {
  let before = '';
  for (let at = 0; at < section.length; ) {
    const end = endOfLine(section, at);
    const line = section.slice(at, end);
    at = end + 2;
    const colon = line.indexOf(':');
    const name = line.slice(0, colon);
    if (line.includes('\n')) return bareLineFeed;
    if (/^[ \t]/.test(line)) return faultOf(`a folded field: ${quoted(before)}`);
    if (colon === -1) return faultOf(`a line without a colon: ${quoted(line)}`);
    if (!token.test(name)) return faultOf(`a field whose name is none: ${quoted(name)}`);
    if (!/^[\t\x20-\x7e\x80-\xff]*$/.test(line.slice(colon))) {
      return faultOf(`a field with a control character: ${quoted(name)}`);
    }
    before = name;
  }
  return faultOf('a field section that is none');
}
