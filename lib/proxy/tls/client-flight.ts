import { createDecipheriv, hash } from 'node:crypto';
import { mostBytes, type Objection, objectionTo, tooLong } from './shown-certificates.ts';

/*
 * What a client of TLS 1.3 sends behind its ClientHello is encrypted, its certificates above all, and OpenSSL reads them as soon
 * as it has them. Its keys are told to whoever listens for them ('keylog'), so they are read here before (RFC 8446 section 5.2).
 */

const alert = 21;
const handshake = 22;
const applicationData = 23;
const headerBytes = 5;
const tagBytes = 16;
/** Of a record's content, encrypted (RFC 8446 section 5.2). */
const mostRecordBytes = 16_384 + 256;
/** RFC 8446 section 4. */
const certificateType = 11;
const messageHeaderBytes = 4;

/** Behind the ClientHello, until all of the certificates are here: a client that cuts them into 512 bytes each sends 48. */
const mostRecords = 64;
/**
 * What TLS reads unseen: a client without a certificate sends 110 bytes in all, and what costs takes twice as many as this. To
 * open them takes a fifteenth of a handshake.
 */
const mostUnseen = 200;
/** What is kept of them between two reads: the certificates, and what shares the last record with them. */
const mostHeld = mostBytes + 8192;

const nothing: Buffer = Buffer.alloc(0);

interface Suite {
  readonly cipher: 'aes-128-gcm' | 'aes-256-gcm' | 'chacha20-poly1305';
  readonly keyBytes: number;
  readonly hash: 'sha256' | 'sha384';
  /** Of the hash. */
  readonly blockBytes: number;
}

/** Those of TLS 1.3 that are offered, by the length of their secrets: which of them has been agreed on shows when a record opens. */
const suites: ReadonlyMap<number, readonly Suite[]> = new Map<number, readonly Suite[]>([
  [
    32,
    [
      { cipher: 'aes-128-gcm', keyBytes: 16, hash: 'sha256', blockBytes: 64 },
      { cipher: 'chacha20-poly1305', keyBytes: 32, hash: 'sha256', blockBytes: 64 },
    ],
  ],
  [48, [{ cipher: 'aes-256-gcm', keyBytes: 32, hash: 'sha384', blockBytes: 128 }]],
]);

/** HKDF-Expand-Label without a context, for no more than one block (RFC 8446 section 7.1). */
const label = (text: string, length: number): Buffer =>
  Buffer.from(`\0${String.fromCharCode(length, text.length)}${text}\0\x01`, 'latin1');
const keyLabels: ReadonlyMap<number, Buffer> = new Map([16, 32].map((length) => [length, label('tls13 key', length)]));
const ivBytes = 12;
const ivLabel = label('tls13 iv', ivBytes);

/** HMAC (RFC 2104) by two hashes: an object for each that V8 has to collect takes as long again. */
function hmac({ hash: name, blockBytes }: Suite, secret: Buffer, text: Buffer): Buffer {
  const inner = Buffer.alloc(blockBytes + text.length, 0x36);
  const outer = Buffer.alloc(blockBytes + secret.length, 0x5c);
  for (let i = 0; i < secret.length; i++) {
    const byte = secret[i] ?? 0;
    inner[i] = byte ^ 0x36;
    outer[i] = byte ^ 0x5c;
  }
  text.copy(inner, blockBytes);
  hash(name, inner, 'buffer').copy(outer, blockBytes);
  return hash(name, outer, 'buffer');
}

/** Opens records by the keys that follow from a secret. */
class Opener {
  readonly #cipher: Suite['cipher'];
  readonly #key: Buffer;
  readonly #nonce: Buffer;

  constructor(suite: Suite, secret: Buffer) {
    this.#cipher = suite.cipher;
    this.#key = hmac(suite, secret, keyLabels.get(suite.keyBytes) ?? nothing).subarray(0, suite.keyBytes);
    this.#nonce = hmac(suite, secret, ivLabel).subarray(0, ivBytes);
  }

  /**
   * @param number of the record among those by these keys: there are few.
   * @returns its content, its type, and zeros; null for what is not encrypted by these keys.
   */
  open(record: Buffer, number: number): Buffer | null {
    const tagAt = record.length - tagBytes;
    if (tagAt < headerBytes) return null;
    const nonce = Buffer.from(this.#nonce);
    nonce.writeUInt8(nonce.readUInt8(nonce.length - 1) ^ number, nonce.length - 1);
    // One type of three overloads.
    const decipher = createDecipheriv(this.#cipher as 'aes-128-gcm', this.#key, nonce, { authTagLength: tagBytes });
    decipher.setAAD(record.subarray(0, headerBytes)).setAuthTag(record.subarray(tagAt));
    const content = decipher.update(record.subarray(headerBytes, tagAt));
    try {
      decipher.final();
    } catch {
      // The tag is another one.
      return null;
    }
    return content;
  }
}

/** What became of what a client has sent; an objection: nothing of it may be read any more. */
export interface Taken {
  /** For TLS to read now; what is kept comes with a later one. */
  readonly passed: Buffer;
  readonly state: 'going-on' | 'seen' | Objection;
}

const joined = (first: Buffer, second: Buffer): Buffer =>
  first.length === 0 ? second : Buffer.concat([first, second]);

/** TLS has its own word for these, which it says first. */
function malformed(detail: string): Objection {
  return { reason: 'malformed', detail };
}

const tooManyRecords: Objection = {
  reason: 'client_too_costly',
  detail: `the client's certificates come in more than ${mostRecords} records, or with too much beside them`,
};

/** Where the record ends that begins at `at`; beyond all bytes where nobody knows. */
function recordEnd(bytes: Buffer, at: number): number {
  return bytes.length - at < headerBytes ? Number.POSITIVE_INFINITY : at + headerBytes + bytes.readUInt16BE(at + 3);
}

/** What of a record is its type, and before that its content, behind which there may be zeros. */
function typeAt(opened: Buffer): number {
  let at = opened.length - 1;
  while (at >= 0 && opened[at] === 0) at--;
  return at;
}

/**
 * What a client sends from its ClientHello to the end of its Certificate message. TLS has no more than
 * 200 bytes of it before that message has been found to be affordable; what comes before it TLS reads, and judges, at once.
 */
export class ClientFlight {
  #secret: Buffer | null = null;
  #opener: Opener | null = null;
  /** Of all kinds, until the message is complete. */
  #records = 0;
  /** Those that are encrypted. */
  #opened = 0;
  /** Of a record that TLS reads as it comes: what of it has yet to come. */
  #passing = 0;
  /** Records from the message's first on, the last of which may be incomplete. */
  #held = nothing;
  /** Of these, what TLS has read unseen. */
  #given = 0;
  #isUnseenOver = false;
  /** How far they have been opened. */
  #openedTo = 0;
  /** The number of the first of them. */
  #first = 0;
  /** Of the message: its header, and how much of it has come. */
  #header = nothing;
  #messageBytes = 0;

  /** There are keys: what comes next is for `take`. */
  get isEncrypted(): boolean {
    return this.#secret !== null;
  }

  begin(secret: Buffer): void {
    this.#secret = secret;
  }

  /**
   * TLS has read something that came before the keys, or with which they came.
   *
   * @param isRecordEnd as far as the end of a record.
   */
  passed(isRecordEnd: boolean): Objection | null {
    if (isRecordEnd && ++this.#records > mostRecords) return tooManyRecords;
    // What has begun before would be read by keys that came behind it.
    return this.isEncrypted && !isRecordEnd ? malformed('the keys came within a record') : null;
  }

  /**
   * How much of what comes next TLS may read unseen, whole records only: nothing once that has been said, or `take` has been called.
   *
   * @param bytes from the beginning of a record.
   */
  unseen(bytes: Buffer): number {
    if (this.#isUnseenOver) return 0;
    let end = 0;
    for (let at = 0, next = recordEnd(bytes, 0); next <= bytes.length && this.#given + next <= mostUnseen; ) {
      // What is in the clear goes with what comes behind it.
      if (bytes[at] === applicationData) end = next;
      at = next;
      next = recordEnd(bytes, at);
    }
    this.#isUnseenOver = end === 0;
    // Of its own, since the handshake may wait.
    if (end > 0) this.#held = Buffer.concat([this.#held, bytes.subarray(0, end)]);
    this.#given = this.#held.length;
    return end;
  }

  /** @param bytes what comes next. */
  take(bytes: Buffer): Taken {
    const { passed, state } = this.#takeAll(bytes);
    // TLS has the beginning of it already.
    const given = Math.min(this.#given, passed.length);
    this.#given -= given;
    return { passed: passed.subarray(given), state };
  }

  /** From the first record on that is kept. */
  #takeAll(bytes: Buffer): Taken {
    this.#isUnseenOver = true;
    const all = joined(this.#held, bytes);
    let passed = Math.min(this.#passing, all.length);
    this.#passing -= passed;
    let at = Math.max(this.#openedTo, passed);
    while (all.length - at >= headerBytes) {
      const end = recordEnd(all, at);
      const isEncrypted = all[at] === applicationData;
      if (isEncrypted && end - at > headerBytes + mostRecordBytes)
        return { passed: all, state: malformed('a record is too long') };
      if (isEncrypted && end > all.length) break;
      if (++this.#records > mostRecords) return { passed: nothing, state: tooManyRecords };
      // In the clear there are no certificates.
      const state = isEncrypted ? this.#read(all, passed, at, end) : this.#aside();
      if (state === 'seen') return { passed: all, state };
      if (typeof state !== 'string') return { passed: state.reason === 'malformed' ? all : nothing, state };
      at = Math.min(end, all.length);
      if (state !== 'aside') continue;
      passed = at;
      this.#passing = end - at;
    }
    this.#openedTo = at - passed;
    // Of its own, or it would keep all that was read with it.
    this.#held = passed === all.length ? nothing : Buffer.from(all.subarray(passed));
    if (this.#held.length > mostHeld) return { passed: nothing, state: tooManyRecords };
    return { passed: all.subarray(0, passed), state: 'going-on' };
  }

  /** What is no part of the message; within it there is nothing else (RFC 8446 section 5.1). */
  #aside(): 'aside' | Objection {
    return this.#messageBytes === 0 ? 'aside' : malformed('something else comes within the certificates');
  }

  /** @param from where the message's first record begins, or this one. */
  #read(all: Buffer, from: number, at: number, end: number): 'aside' | 'going-on' | 'seen' | Objection {
    const opened = this.#open(all.subarray(at, end), this.#opened++);
    if (opened === null) return malformed('a record is not encrypted by the keys of the handshake');
    const contentEnd = typeAt(opened);
    if (opened[contentEnd] === alert) return this.#aside();
    // Nor may a part of it be empty (RFC 8446 section 5.1).
    if (opened[contentEnd] !== handshake || contentEnd === 0) return malformed('a record is no part of the handshake');
    if (this.#messageBytes === 0) this.#first = this.#opened - 1;
    this.#messageBytes += contentEnd;
    const missing = messageHeaderBytes - this.#header.length;
    if (missing > 0) this.#header = joined(this.#header, opened.subarray(0, Math.min(missing, contentEnd)));
    if (this.#header.length < messageHeaderBytes) return 'going-on';
    const length = this.#header.readUIntBE(1, 3);
    if (this.#header[0] !== certificateType) return malformed('the handshake goes on without a Certificate message');
    if (length > mostBytes) return tooLong(length);
    if (this.#messageBytes < messageHeaderBytes + length) return 'going-on';
    const isOne = this.#first === this.#opened - 1;
    const message = isOne ? opened.subarray(0, contentEnd) : this.#openedAgain(all.subarray(from, end));
    return objectionTo(message.subarray(messageHeaderBytes, messageHeaderBytes + length)) ?? 'seen';
  }

  #open(record: Buffer, number: number): Buffer | null {
    if (this.#opener !== null) return this.#opener.open(record, number);
    const secret = this.#secret ?? nothing;
    for (const suite of suites.get(secret.length) ?? []) {
      const opener = new Opener(suite, secret);
      const opened = opener.open(record, number);
      if (opened === null) continue;
      this.#opener = opener;
      return opened;
    }
    return null;
  }

  /** What the records say together: kept until now, it would be as much again. */
  #openedAgain(records: Buffer): Buffer {
    const contents: Buffer[] = [];
    let number = this.#first;
    for (let at = 0; at < records.length; ) {
      const end = recordEnd(records, at);
      const opened = this.#open(records.subarray(at, end), number++) ?? nothing;
      contents.push(opened.subarray(0, Math.max(0, typeAt(opened))));
      at = end;
    }
    return Buffer.concat(contents);
  }
}
