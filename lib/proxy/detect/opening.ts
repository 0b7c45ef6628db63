import { byteSet } from '../token.ts';

/** What servers split a request line at: Python's `str.split` on Latin-1 is the most generous (RFC 9112 3 wants a space). */
const blank = byteSet(' \t\n\v\f\r\x1c\x1d\x1e\x1f\x85\xa0');

/** What java.net.URI refuses; with anything of this in it, a word names no resource even to the most generous. */
const illegal = new Uint8Array(256);
for (let byte = 0; byte < 256; byte++) {
  if (byte <= 0x20 || (byte >= 0x7f && byte <= 0xa0) || '"<>\\^`{|}'.includes(String.fromCharCode(byte)))
    illegal[byte] = 1;
}

const schemeChar = byteSet('abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+.-');

const CR = 13;
const LF = 10;
const SP = 32;

/** No server of the tests' matrix reads a longer head; Waitress, with 256 KiB, comes next. */
const longestHead = 320 * 1024;

/** The second line of the PROXY protocol's binary header, whose first bytes are an empty line. */
const proxySignature = Buffer.from('\r\n\r\n\0\r\nQUIT\n', 'latin1');

/** Protocols that Node's parser reads as HTTP; and, at the beginning of a connection, HAProxy's word about its client. */
const versions = ['http/', 'rtsp/', 'ice/'] as const;
const longestVersion = 5;

/** Whatever follows one of them in two words or more is a request to Apache where it is configured to be lenient. */
const methods = new Set(['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'CONNECT', 'OPTIONS', 'TRACE', 'PATCH']);

/** One word of the first line, as far as it has come. */
class Word {
  length = 0;
  /** Its first bytes, in lower case where letters. */
  #head = '';
  #printable = true;
  #hasControl = false;
  #legal = true;
  #path: 'scheme' | 'colon' | 'escape' | 'yes' | 'no' = 'scheme';

  clear(): void {
    this.length = 0;
    this.#head = '';
    this.#printable = true;
    this.#hasControl = false;
    this.#legal = true;
    this.#path = 'scheme';
  }

  add(byte: number): void {
    if (this.length < 8) this.#head += String.fromCharCode(byte);
    if (byte < 0x21 || byte > 0x7e) this.#printable = false;
    if (byte < 0x20 || byte === 0x7f) this.#hasControl = true;
    if (illegal[byte] === 1) this.#legal = false;
    if (this.#path === 'scheme') {
      if (this.length === 0 && (byte === 0x2f || byte === 0x3f || byte === 0x23)) this.#path = 'yes';
      else if (byte === 0x25 && this.length === 0) this.#path = 'escape';
      else if (byte === 0x3a && this.length > 0) this.#path = 'colon';
      else if (schemeChar[byte] !== 1) this.#path = 'no';
    } else if (this.#path === 'colon') {
      this.#path = byte === 0x2f ? 'yes' : 'no';
    } else if (this.#path === 'escape' && this.length === 2) {
      this.#path = /^%2f/i.test(this.#head) ? 'yes' : 'no';
    }
    this.length++;
  }

  /** Of a longer one its first 8 characters. */
  get text(): string {
    return this.#head;
  }

  /** Whether it is this very word, of at most 8 characters. */
  is(text: string): boolean {
    return this.length === text.length && this.#head === text;
  }

  get isVersion(): boolean {
    const head = this.#head.slice(0, longestVersion).toLowerCase();
    return versions.some((version) => head.startsWith(version));
  }

  get isPrintable(): boolean {
    return this.#printable;
  }

  /** One of ASCII's. No server takes a word with one for the method of HTTP/0.9, and every TLS handshake begins with one. */
  get hasControl(): boolean {
    return this.#hasControl;
  }

  /** `/x`, `%2fx`, `scheme:/x`; and `?x`, whose path is empty, which is the root to some. */
  get isPath(): boolean {
    return this.#path === 'yes' && this.#legal;
  }
}

/**
 * What a client sends first, judged byte by byte by whether anything that serves HTTP could take it for a request. The
 * rules are those of real servers (test/fuzz/detection.test.ts asks them), each a little wider than any of them:
 *
 * - any words, the last of which names a version of HTTP: http.server, wsgiref, Tornado, and all that are stricter;
 * - a method of HTTP and two words or more: Apache, configured to be lenient;
 * - `GET` and one word, or any word without control characters and a path: HTTP/0.9 to http.server, nginx, Apache, Node;
 * - text with a path in it that it does not begin with, and a blank on which servers differ: the second word of one is
 *   the third of another;
 * - three words or more, the second of which is a path: the JDK's server, which looks at neither method nor version, and
 *   which ends lines at CRLF alone;
 * - anything that ends in an empty line: Waitress;
 * - what a proxy would say of its client (the PROXY protocol), and a server that expects it would believe.
 *
 * Work is linear in the bytes, whatever the packets. Bytes that have become a request stay one.
 */
export class Opening {
  #request = false;
  #bytes = 0;
  /** Words of the first line that is not empty, the one under way included. */
  #words = 0;
  readonly #first = new Word();
  readonly #second = new Word();
  readonly #last = new Word();
  #inWord = false;
  /** Bytes of the line, what is no word included. */
  #lineBytes = 0;
  /** No text has a NUL, much else has. */
  #hasNul = false;
  /** A blank to some, and part of a word to others. */
  #hasOddBlank = false;
  /** The word under way is not what the line begins with. */
  #isLate = false;
  /** Such a word was a path. */
  #sawPath = false;
  /** The first line that is not empty has ended, and was no request. */
  #lineOver = false;
  /** How much of an empty line's CRLFCRLF has come. */
  #emptyLine = 0;
  /** Something has come that is no end of a line, be it a blank: Waitress finds a request in `\x1c\r\n\r\n`. */
  #hasContent = false;
  #signature = 0;
  /** By spaces and CRLF alone, as the JDK's server reads. */
  #spaces = 0;
  readonly #target = new Word();
  #strictLineOver = false;
  #strictLength = 0;
  #previous = 0;

  /** A request to somebody, whatever follows. */
  get isRequest(): boolean {
    return this.#request;
  }

  /** A request to somebody if nothing follows: some take the end of the stream for the end of the line. */
  get endsAsRequest(): boolean {
    return this.#request || (!this.#lineOver && this.#isRequestLine());
  }

  /** The first line is complete, or longer than any server reads. */
  get isOver(): boolean {
    return this.#lineOver || this.#bytes > longestHead;
  }

  /** Nothing that follows can make it a request. */
  get isHarmless(): boolean {
    return !this.#request && this.#bytes > longestHead;
  }

  read(chunk: Buffer): void {
    for (let at = 0; at < chunk.length && !this.#request; at++) {
      if (this.#bytes > longestHead) return;
      this.#readByte(chunk[at] as number);
    }
  }

  #readByte(byte: number): void {
    if (this.#bytes === this.#signature && byte === proxySignature[this.#signature]) {
      this.#signature++;
      if (this.#signature === proxySignature.length) this.#request = true;
    }
    this.#bytes++;
    if (!this.#lineOver) this.#readLine(byte);
    if (!this.#strictLineOver) this.#readStrictly(byte);
    if (byte === (this.#emptyLine % 2 === 0 ? CR : LF)) {
      this.#emptyLine++;
      if (this.#emptyLine === 4 && this.#hasContent) this.#request = true;
      if (this.#emptyLine === 4) this.#emptyLine = 2;
    } else {
      this.#emptyLine = byte === CR ? 1 : 0;
      if (byte !== CR && byte !== LF) this.#hasContent = true;
    }
    this.#previous = byte;
  }

  #readLine(byte: number): void {
    if (byte === 0) this.#hasNul = true;
    if (blank[byte] !== 1) {
      if (!this.#inWord) {
        this.#inWord = true;
        this.#isLate = this.#lineBytes > 0;
        this.#words++;
        this.#last.clear();
      }
      if (this.#words === 1) this.#first.add(byte);
      else if (this.#words === 2) this.#second.add(byte);
      if (this.#words > 1) this.#last.add(byte);
      this.#lineBytes++;
      return;
    }
    if (byte !== SP && byte !== CR && byte !== LF) this.#hasOddBlank = true;
    if (this.#isLatePath) this.#sawPath = true;
    this.#lineBytes = byte === LF ? 0 : this.#lineBytes + 1;
    if (this.#inWord && this.#words === 1 && this.#first.is('PROXY')) this.#request = true;
    this.#inWord = false;
    // A carriage return alone ends a line to some.
    if (byte !== LF && byte !== CR) return;
    if (this.#isRequestLine()) this.#request = true;
    else if (byte === LF && this.#words > 0) this.#lineOver = true;
  }

  get #isLatePath(): boolean {
    return this.#inWord && this.#isLate && (this.#words === 1 ? this.#first : this.#last).isPath;
  }

  #isRequestLine(): boolean {
    if (this.#hasOddBlank && !this.#hasNul && (this.#sawPath || this.#isLatePath)) return true;
    // Tornado takes even a line without method and target, if blanks stand for them.
    if (this.#words < 2) return this.#first.isVersion;
    if (this.#last.isVersion) return true;
    if (this.#words > 2) return (this.#second.isPath && this.#first.isPrintable) || methods.has(this.#first.text);
    return this.#first.is('GET') || (!this.#first.hasControl && (this.#second.isPath || this.#second.is('*')));
  }

  #readStrictly(byte: number): void {
    if (byte === LF && this.#previous === CR) {
      if (this.#strictLength === 1) {
        // Empty lines before the first are skipped.
        this.#strictLength = 0;
        return;
      }
      this.#strictLineOver = true;
      if (this.#spaces > 1 && this.#target.isPath) this.#request = true;
      return;
    }
    this.#strictLength++;
    if (byte === SP) this.#spaces++;
    else if (this.#spaces === 1) this.#target.add(byte);
    // Settled: the second word is no path, whatever follows.
    if (this.#spaces > 1 && !this.#target.isPath) this.#strictLineOver = true;
  }
}
