import type net from 'node:net';

/** What is beneath the streams of Node: each call of these is one of the system. */
interface WritingHandle {
  writeBuffer(request: object, bytes: Buffer): number;
  writeLatin1String(request: object, text: string): number;
}

/** The lengths of what a connected socket writes from here on, one for each write of the system. */
export function systemWrites(socket: net.Socket): number[] {
  const { _handle: handle } = socket as unknown as { readonly _handle: WritingHandle };
  const lengths: number[] = [];
  const { writeBuffer, writeLatin1String } = handle;
  handle.writeBuffer = (request, bytes) => {
    lengths.push(bytes.length);
    return writeBuffer.call(handle, request, bytes);
  };
  handle.writeLatin1String = (request, text) => {
    lengths.push(text.length);
    return writeLatin1String.call(handle, request, text);
  };
  return lengths;
}
