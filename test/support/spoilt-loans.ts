/*
 * With this, a buffer into which a socket reads on loan holds other bytes as soon as a read has been dealt with: what was kept
 * of it without a copy arrives spoilt. Without it, that takes another read just in time. For every socket of the process.
 */
import { connect, type Socket } from 'node:net';
import { PassThrough } from 'node:stream';
import { TLSSocket } from 'node:tls';

interface LendingHandle {
  useUserBuffer(buffer: Buffer): void;
  onread(...result: unknown[]): unknown;
}

/** No byte of a head, of a chunk's size, or of what a test sends. */
const spoilt = 0xee;

/** Reads that were spoilt. */
export let spoiltReads = 0;

function handleClassOf(socket: Socket): LendingHandle {
  const { _handle } = socket as unknown as { readonly _handle: object };
  socket.on('error', () => {});
  socket.destroy();
  return Object.getPrototypeOf(_handle) as LendingHandle;
}

function accessorOf(holder: object, name: string): PropertyDescriptor {
  const own = Object.getOwnPropertyDescriptor(holder, name);
  return own ?? accessorOf(Object.getPrototypeOf(holder) as object, name);
}

function spoil(handleClass: LendingHandle): void {
  const { set: setRead } = accessorOf(handleClass, 'onread');
  const { useUserBuffer } = handleClass;
  handleClass.useUserBuffer = function (buffer) {
    useUserBuffer.call(this, buffer);
    let read = this.onread;
    const become = (next: LendingHandle['onread']): void => {
      read = next;
      setRead?.call(this, (...result: unknown[]) => {
        const into = next.apply(this, result);
        buffer.fill(spoilt);
        spoiltReads++;
        return into;
      });
    };
    become(read);
    // Who lends may take the reads over afterwards.
    Object.defineProperty(this, 'onread', { configurable: true, get: () => read, set: become });
  };
}

spoil(handleClassOf(connect({ host: '127.0.0.1', port: 9 })));
spoil(handleClassOf(new TLSSocket(new PassThrough())));
