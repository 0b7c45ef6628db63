import { byteSet, tokenChar } from '../token.ts';
import { Opening } from './opening.ts';

/**
 * What the first bytes of a (decrypted) connection say about its protocol. `request-like`: none that we would serve, but
 * somebody could. `other`: so far no request to anybody; its `Opening` must go on looking.
 */
export type HttpGuess = 'http/1' | 'http/2' | 'request-like' | 'other';

/** The first line of HTTP/2 decides alone: no HTTP/1 server may accept it (RFC 9113 3.4). */
const preface = Buffer.from('PRI * HTTP/2.0', 'latin1');

function mayBeHttp2(bytes: Buffer): boolean {
  const shared = Math.min(bytes.length, preface.length);
  return bytes.compare(preface, 0, shared, 0, shared) === 0;
}

/**
 * The HTTP that these first bytes are, where the port has been declared to speak the other one. Null where they are what
 * was declared, none at all, or cannot be told yet: for a word in the log, and nothing that decides.
 */
export function otherHttp(declared: 'http/1' | 'http/2', bytes: Buffer): 'http/1' | 'http/2' | null {
  if (declared === 'http/1') return bytes.length >= preface.length && mayBeHttp2(bytes) ? 'http/2' : null;
  if (mayBeHttp2(bytes)) return null;
  return new HttpScan().guess(bytes) === 'http/1' ? 'http/1' : null;
}

/** A request line without an end by now goes to the HTTP engine, which knows how to refuse it. */
const maxRequestLine = 8192;

/** What may stand before a request line, and what some servers take for the space in it (RFC 9112 2.2, 3). */
const blank = byteSet(' \t\v\f\r\x1c\x1d\x1e\x1f\x85\xa0');

/** Behind the method: the version, however carelessly it is spelled. */
const version = /[ \t\v\f\r]HTTP\//i;

/** No part of a request line that is served; its CR is the end of it. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it looks for.
const controlInLine = /[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]/;

const CR = 13;
const LF = 10;

/** A longer request line is looked at by the rules below. */
const ordinaryLine = 1024;

/** What follows the target of an ordinary request, but for its last digit. */
const ordinaryVersion = [...' HTTP/1.'].map((character) => character.charCodeAt(0));

/**
 * Whether the first line is whole, and the one that nearly all requests have: a method in capitals, a target without blanks,
 * HTTP/1.0 or 1.1, CRLF, one space between. A shortcut: the rules below would say `http/1` of it, too. They have more to say
 * of what begins like the preface of HTTP/2 or the PROXY protocol.
 */
function beginsOrdinarily(bytes: Buffer): boolean {
  const end = Math.min(bytes.length, ordinaryLine);
  let at = 0;
  while (at < end && (bytes[at] as number) >= 0x41 && (bytes[at] as number) <= 0x5a) at++;
  if (at === 0 || at === end || bytes[at] !== 0x20 || (bytes[0] === 0x50 && bytes[1] === 0x52)) return false;
  const target = ++at;
  while (at < end && (bytes[at] as number) > 0x20 && (bytes[at] as number) < 0x7f) at++;
  if (at === target || at + ordinaryVersion.length + 3 > bytes.length) return false;
  for (const expected of ordinaryVersion) if (bytes[at++] !== expected) return false;
  return (bytes[at] === 0x30 || bytes[at] === 0x31) && bytes[at + 1] === CR && bytes[at + 2] === LF;
}

/**
 * Guesses from a growing prefix of the stream, looking at each byte once. The answer never depends on how the bytes were
 * cut into packets: it is open until the request line tells. (Linkerd looks at one read only; then packet timing picks
 * the protocol, and with it the policy that applies.)
 *
 * Leading empty lines are skipped as RFC 9112 2.2 lets servers do, so that they cannot turn HTTP into opaque bytes. A
 * line that says `HTTP/` behind a method is called HTTP/1, however careless: the engine refuses it. So is a first line
 * that is too long to tell.
 */
export class HttpScan {
  /** Most connections say in one piece that they are HTTP, and never need it. */
  #opening: Opening | null = null;
  #examined = 0;
  /** Where the first line begins: behind blanks and empty lines. */
  #start = 0;
  #method: 'before' | 'in' | 'over' | 'none' = 'before';
  readonly #isUndeclared: boolean;
  /** Whether what has come of the first line can be one that is served. */
  #line: 'servable' | 'unservable' | 'over' = 'servable';

  /**
   * @param isUndeclared nothing but these bytes says what the port speaks: what no request that is served can begin with, is
   * none, at once. Whoever passes it on goes on looking (`Opening`); where HTTP is declared, such a line is refused instead.
   */
  constructor(isUndeclared = false) {
    this.#isUndeclared = isUndeclared;
  }

  /** @param stream all that has come, the earlier bytes included. Undefined while there is no telling. */
  guess(stream: Buffer): HttpGuess | undefined {
    // What lies beyond must not count: it may be here already, or not yet.
    const bytes = stream.length > maxRequestLine ? stream.subarray(0, maxRequestLine) : stream;
    if (bytes.length === 0) return undefined;
    if (this.#examined === 0 && beginsOrdinarily(bytes)) return 'http/1';
    if (mayBeHttp2(bytes)) return bytes.length >= preface.length ? 'http/2' : undefined;
    if (this.#method === 'before' || this.#method === 'in') this.#findMethod(bytes);
    if (this.#method === 'over') {
      // The target and version follow. Only a whole line tells, and the line of nearly all is whole at once.
      const end = bytes.indexOf(LF, Math.max(this.#start, this.#examined));
      if (end !== -1 || bytes.length >= maxRequestLine || this.#mayHoldVersion(bytes)) {
        const line = bytes.subarray(this.#start, end === -1 ? bytes.length : end).toString('latin1');
        const named = version.exec(line);
        const hasControl = named !== null && this.#isUndeclared && controlInLine.test(line.slice(0, named.index));
        if (named !== null && !hasControl) return this.#beforeVersion(bytes, line, named.index + named[0].length - 1);
      }
    }
    this.#lookForControl(bytes);
    const examined = this.#examined;
    this.#examined = bytes.length;
    this.#opening ??= new Opening();
    const opening = this.#opening;
    opening.read(bytes.subarray(examined));
    if (opening.isRequest) return 'request-like';
    if (this.#line === 'unservable') return 'other';
    if (bytes.length >= maxRequestLine && this.#method !== 'none' && !opening.isOver) return 'http/1';
    return this.#method === 'none' || opening.isOver ? 'other' : undefined;
  }

  /**
   * The version is complete with the next byte behind `length` bytes of the line; but some may have found a request before.
   * In the first line of nearly all they cannot, and nobody has to look.
   */
  #beforeVersion(bytes: Buffer, line: string, length: number): 'http/1' | 'request-like' {
    if (this.#start === 0 && !line.startsWith('PROXY') && !line.slice(0, length).includes('\r')) return 'http/1';
    const opening = this.rest(bytes.subarray(0, Math.max(this.#examined, this.#start + length)));
    return opening.isRequest ? 'request-like' : 'http/1';
  }

  /** The opening, with all of `stream` read. */
  rest(stream: Buffer): Opening {
    this.#opening ??= new Opening();
    this.#opening.read(stream.subarray(this.#examined));
    this.#examined = stream.length;
    return this.#opening;
  }

  /** LDAP, git and many a binary protocol say so by a byte or two: no request that we serve has a control character in its line. */
  #lookForControl(bytes: Buffer): void {
    if (!this.#isUndeclared || this.#line !== 'servable' || this.#method === 'before') return;
    const from = Math.max(this.#start, this.#examined);
    const end = bytes.indexOf(LF, from);
    const line = bytes.toString('latin1', from, end === -1 ? bytes.length : end);
    if (controlInLine.test(line)) this.#line = 'unservable';
    else if (end !== -1) this.#line = 'over';
  }

  #findMethod(bytes: Buffer): void {
    let at = this.#examined;
    if (this.#method === 'before') {
      while (at < bytes.length && (bytes[at] === CR || bytes[at] === LF || blank[bytes[at] as number] === 1)) at++;
      this.#start = at;
      if (at === bytes.length) return;
      this.#method = 'in';
    }
    while (at < bytes.length && tokenChar[bytes[at] as number] === 1) at++;
    if (at === bytes.length) return;
    const byte = bytes[at] as number;
    this.#method = at > this.#start && blank[byte] === 1 ? 'over' : 'none';
  }

  /** Whether what has come since the last look could hold the version, with the few bytes before it. */
  #mayHoldVersion(bytes: Buffer): boolean {
    const from = Math.max(this.#start, this.#examined - 6);
    return version.test(bytes.subarray(from).toString('latin1'));
  }
}
