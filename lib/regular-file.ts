import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs';

/** Why a file was not read; `code` is the system's, or one of the two below. */
class UnreadableFile extends Error {
  readonly code: string;
  constructor(code: string, message: string) {
    super(message);
    this.name = 'UnreadableFile';
    this.code = code;
  }
}

/** A pipe, a socket, a device: opening one may take for ever, and what it yields is read once only. */
export const notRegular = 'ENOTREGULAR';
export const tooLarge = 'ETOOLARGE';

/** How many megabytes of text may be read as one file, unless the caller says otherwise. */
const mostBytes = 16 * 1024 * 1024;

/**
 * The bytes of a regular file (through symbolic links), as they stood at one moment: a file that is written to while it is
 * read is read again. Opened without blocking and looked at before a byte is read or room is made for it, so that neither
 * a pipe nor a huge file can hold up the reader.
 *
 * @throws UnreadableFile
 */
export function readRegularFile(path: string, limit: number = mostBytes): Buffer {
  const file = open(path);
  try {
    for (let attempt = 1; ; attempt++) {
      const before = fstatSync(file, { bigint: true });
      if (before.isDirectory()) throw new UnreadableFile('EISDIR', `${path} is a folder`);
      if (!before.isFile()) throw new UnreadableFile(notRegular, `${path} is no regular file`);
      if (before.size > limit) throw new UnreadableFile(tooLarge, `${path} is larger than ${limit} bytes`);
      const bytes = readAll(file, Number(before.size));
      const after = fstatSync(file, { bigint: true });
      const still = after.size === before.size && after.mtimeNs === before.mtimeNs && after.ctimeNs === before.ctimeNs;
      if ((still && BigInt(bytes.length) === before.size) || attempt === 5) return bytes;
    }
  } finally {
    closeSync(file);
  }
}

function open(path: string): number {
  try {
    return openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  } catch (error) {
    const { code = 'EIO', message } = error as NodeJS.ErrnoException;
    // What open(2) says of a socket.
    throw new UnreadableFile(code === 'ENXIO' ? notRegular : code, message);
  }
}

function readAll(file: number, size: number): Buffer {
  const bytes = Buffer.allocUnsafe(size);
  let length = 0;
  while (length < size) {
    const read = readSync(file, bytes, length, size - length, length);
    if (read === 0) break;
    length += read;
  }
  return bytes.subarray(0, length);
}
