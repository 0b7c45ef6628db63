import { createRequire } from 'node:module';
import type { Socket } from 'node:net';

/*
 * How the bytes of a socket are had before those who read it: undocumented, and used where it is there. What
 * node-internals.ts says of the rest holds for this as well.
 */

/** What of Node's HTTP parser reads a socket in place of its other readers, and lets go of it again. */
interface SocketReader {
  initialize(type: number, resource: object): void;
  execute(bytes: Buffer): unknown;
  consume(handle: object): void;
  unconsume(): void;
  /** A copy of what is being read; nothing between reads. */
  getCurrentBuffer(): Buffer | undefined;
  /** By the number of an event. */
  [event: number]: (() => void) | null;
}

interface SocketReaderClass {
  new (): SocketReader;
  readonly REQUEST: number;
  /** After each read, whatever the bytes are. */
  readonly kOnExecute: number;
  readonly prototype: Partial<SocketReader>;
}

function findReader(): SocketReaderClass | null {
  try {
    // Its types are those of the documented modules alone.
    const { HTTPParser } = createRequire(import.meta.url)('node:_http_common') as {
      HTTPParser?: Partial<SocketReaderClass>;
    };
    const { prototype, REQUEST, kOnExecute } = HTTPParser ?? {};
    if (typeof REQUEST !== 'number' || typeof kOnExecute !== 'number' || prototype === undefined) return null;
    const { initialize, execute, consume, unconsume, getCurrentBuffer } = prototype;
    const needed = [initialize, execute, consume, unconsume, getCurrentBuffer];
    const isThere = needed.every((each) => typeof each === 'function');
    return isThere ? (HTTPParser as SocketReaderClass) : null;
  } catch {
    // A later Node may not have it.
    return null;
  }
}

let foundReader: SocketReaderClass | null | undefined;

function readerClass(): SocketReaderClass | null {
  if (foundReader === undefined) foundReader = findReader();
  return foundReader;
}

/** Whether `intercept` is more than nothing. */
export function canIntercept(): boolean {
  return findReader() !== null;
}

/** They take 3 KB each; more handshakes than that seldom begin before one has ended. */
const mostSpare = 64;
const spare: SocketReader[] = [];

/** What comes behind this is content for ever, which is not looked at. A byte that is no HTTP would cost an error in each read. */
const endless = Buffer.from(`POST / HTTP/1.1\r\nContent-Length: ${Number.MAX_SAFE_INTEGER}\r\n\r\n`);

function newReader(Found: SocketReaderClass): SocketReader {
  const reader = new Found();
  reader.initialize(Found.REQUEST, {});
  reader.execute(endless);
  return reader;
}

/** A socket whose bytes go another way. */
export interface Intercepted {
  /** They go their own way again, from the next read on. May be called more than once. */
  release(): void;
}

/**
 * From here on what is read of a socket goes to `take`, and not to whoever reads it, TLS that was made of it above all; the
 * end and errors still do, and so does all that is written. Where there is no way to do that nothing happens.
 *
 * @param take must not throw.
 */
export function intercept(socket: Socket, take: (bytes: Buffer) => void): Intercepted | null {
  const Found = readerClass();
  const handle = (socket as { readonly _handle?: object | null })._handle ?? null;
  if (Found === null || handle === null) return null;
  const reader = spare.pop() ?? newReader(Found);
  reader[Found.kOnExecute] = () => {
    const bytes = reader.getCurrentBuffer();
    if (bytes !== undefined) take(bytes);
  };
  reader.consume(handle);
  let isReleased = false;
  return {
    release: () => {
      if (isReleased) return;
      isReleased = true;
      reader.unconsume();
      reader[Found.kOnExecute] = null;
      if (spare.length < mostSpare) spare.push(reader);
    },
  };
}
