import type { Socket } from 'node:net';
import { lendData } from '../../lent-data.ts';

/** Who is told of what happens to a client's socket. Nothing of it may throw. */
export interface ClientEvents {
  read(chunk: Buffer): void;
  /** @returns false where it does not want these bytes, which are only lent. */
  readLent(bytes: Buffer): boolean;
  readEnd(): void;
  mayWrite(): void;
}

/** Under this a socket keeps who that is. */
const told = Symbol('fast lane');

interface Telling extends Socket {
  [told]?: ClientEvents | null;
}

/* The same functions for all sockets: a connection that does nothing keeps all that is its own. */

function onData(this: Telling, chunk: Buffer): void {
  this[told]?.read(chunk);
}

function onLent(bytes: Buffer, socket: Telling): boolean {
  return socket[told]?.readLent(bytes) === true;
}

function onEnd(this: Telling): void {
  this[told]?.readEnd();
}

function onDrain(this: Telling): void {
  this[told]?.mayWrite();
}

export function hear(socket: Socket, events: ClientEvents): void {
  (socket as Telling)[told] = events;
  socket.on('data', onData);
  socket.on('end', onEnd);
  socket.on('drain', onDrain);
}

/** What is read from now on is lent, where it can be. */
export function hearLent(socket: Socket): void {
  lendData(socket, onLent);
}

/** The socket is somebody else's from now on. */
export function hearNoMore(socket: Socket): void {
  (socket as Telling)[told] = null;
  socket.removeListener('data', onData);
  socket.removeListener('end', onEnd);
  socket.removeListener('drain', onDrain);
}
