import { createRequire } from 'node:module';
import type { Socket } from 'node:net';
import { endianness } from 'node:os';
import { type IpAddress, ipv4, ipv6, parseIp } from '../ip.ts';
import { descriptorOf } from './node-handles.ts';

/*
 * System calls on a socket that Node does not make, or makes at a price: it tells an address as text, which takes three
 * times as long as to ask for it, and a connection with a single request asks twice.
 */

/** One end of a connection. */
export interface SocketEnd {
  readonly ip: IpAddress;
  readonly port: number;
}

type NameCall = (fd: number, address: Buffer, length: Buffer) => number;

/** An accepted connection. */
export interface HasEnds {
  /** Who is at the other end, where the system has said so; null where it is to be asked. */
  readonly peer?: SocketEnd | null;
  /** Null once it is closed. */
  readonly descriptor: number | null;
  /** As Node knows it. */
  readonly socket: Socket;
}

interface Calls {
  readonly getpeername: NameCall;
  readonly getsockname: NameCall;
  getsockopt(fd: number, level: number, name: number, value: Buffer, length: Buffer): number;
  setsockopt(fd: number, level: number, name: number, value: Buffer, length: number): number;
  accept4(fd: number, address: Buffer, length: Buffer, flags: number): number;
  close(fd: number): number;
  recv(fd: number, bytes: Buffer, length: number, flags: number): number;
  send(fd: number, bytes: Buffer, length: number, flags: number): number;
  poll(polled: Buffer, count: number, timeoutMs: number): number;
}

const SOL_IP = 0;
const SOL_TCP = 6;
const SOL_IPV6 = 41;
const TCP_CORK = 3;
const TCP_INFO = 11;
const SO_ORIGINAL_DST = 80;
const AF_INET = 2;
const AF_INET6 = 10;
const POLLIN = 0x1;
const POLLRDHUP = 0x2000;
const MSG_PEEK = 0x2;
const MSG_DONTWAIT = 0x40;
const MSG_NOSIGNAL = 0x4000;
const MSG_MORE = 0x8000;
const SOCK_NONBLOCK = 0x800;
const SOCK_CLOEXEC = 0x80000;

/** A last response is seldom longer. */
const mostUnread = 16 * 1024;

const isLittle = endianness() === 'LE';
/** A `sockaddr_in6`, the larger one, and what else a call reads and writes. Each call is over before the next begins. */
const address = Buffer.allocUnsafeSlow(28);
const length = Buffer.allocUnsafeSlow(4);
const one = int(1, Buffer.allocUnsafeSlow(4));
/** A `pollfd`. */
const polled = Buffer.alloc(8);

function int(value: number, into: Buffer): Buffer {
  if (isLittle) into.writeInt32LE(value);
  else into.writeInt32BE(value);
  return into;
}

let calls: Calls | null = null;

/**
 * Makes the calls possible, once for the process: some milliseconds, 3 MB of memory. Until then, and where there is no
 * such library, Node is asked.
 *
 * @throws when koffi or the C library cannot be loaded.
 */
export function loadSocketCalls(): void {
  if (calls !== null) return;
  const koffi = createRequire(import.meta.url)('koffi') as typeof import('koffi');
  const libc = koffi.load('libc.so.6');
  calls = {
    getpeername: libc.func('int getpeername(int fd, void *address, void *length)'),
    getsockname: libc.func('int getsockname(int fd, void *address, void *length)'),
    getsockopt: libc.func('int getsockopt(int fd, int level, int name, void *value, void *length)'),
    setsockopt: libc.func('int setsockopt(int fd, int level, int name, void *value, uint32_t length)'),
    accept4: libc.func('int accept4(int fd, void *address, void *length, int flags)'),
    close: libc.func('int close(int fd)'),
    recv: libc.func('int64_t recv(int fd, void *bytes, uint64_t length, int flags)'),
    send: libc.func('int64_t send(int fd, void *bytes, uint64_t length, int flags)'),
    poll: libc.func('int poll(void *polled, unsigned long count, int timeout)'),
  };
}

/** The same where nothing depends on them. */
export function tryLoadSocketCalls(): void {
  try {
    loadSocketCalls();
  } catch {
    // Node runs on musl, and elsewhere; what the calls save is no condition for anything.
  }
}

/** What the last call has written to `address`; null where it is no Internet address. */
function written(): SocketEnd | null {
  const family = isLittle ? address.readUInt16LE(0) : address.readUInt16BE(0);
  const port = address.readUInt16BE(2);
  if (family === AF_INET) return { ip: ipv4(address.readUInt32BE(4)), port };
  if (family !== AF_INET6) return null;
  const word = (at: number): number => address.readUInt32BE(at);
  return { ip: ipv6(word(8), word(12), word(16), word(20)), port };
}

function nameBy(call: NameCall, fd: number): SocketEnd | null {
  return call(fd, address, int(address.length, length)) === 0 ? written() : null;
}

/** Who is at the other end; null once nobody is. */
export function peerOf(connected: HasEnds): SocketEnd | null {
  if (connected.peer != null) return connected.peer;
  const fd = calls === null ? null : connected.descriptor;
  if (calls !== null && fd !== null) return nameBy(calls.getpeername, fd);
  const { socket } = connected;
  return asNodeSays(socket.remoteAddress, socket.remotePort);
}

/** A connection as the system has it, and nobody else yet. */
export interface Accepted {
  readonly fd: number;
  readonly peer: SocketEnd;
}

/** Accepts a connection that has come already; null where none has, or none can be accepted. */
export function acceptNow(listening: number): Accepted | null {
  if (calls === null) return null;
  const fd = calls.accept4(listening, address, int(address.length, length), SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd < 0) return null;
  const peer = written();
  if (peer !== null) return { fd, peer };
  calls.close(fd);
  return null;
}

/** How many wait at a listening socket to be accepted; 0 where nobody knows. */
export function waitingAt(listening: number): number {
  if (calls === null) return 0;
  if (calls.getsockopt(listening, SOL_TCP, TCP_INFO, address, int(address.length, length)) !== 0) return 0;
  // `tcpi_unacked`, which of a listener is the length of its queue.
  return isLittle ? address.readUInt32LE(24) : address.readUInt32BE(24);
}

/** Only for what `acceptNow` has accepted, and nobody has made anything of. */
export function closeNow(fd: number): void {
  calls?.close(fd);
}

/** Where a connection has arrived. */
export function arrivedAt(connected: HasEnds): SocketEnd | null {
  const fd = calls === null ? null : connected.descriptor;
  if (calls !== null && fd !== null) return nameBy(calls.getsockname, fd);
  const { socket } = connected;
  return asNodeSays(socket.localAddress, socket.localPort);
}

function asNodeSays(text: string | undefined, port: number | undefined): SocketEnd | null {
  const ip = parseIp(text ?? '');
  return ip === undefined ? null : { ip, port: port ?? 0 };
}

/**
 * Where a redirected connection was meant to go (netfilter's SO_ORIGINAL_DST); null where the kernel knows no other
 * destination.
 *
 * @param family of the client: an IPv4 connection on a listener of both needs the call of IPv4.
 */
export function redirectedFrom(connected: HasEnds, family: 4 | 6): SocketEnd | null {
  const fd = connected.descriptor;
  if (calls === null || fd === null) return null;
  const [level, size] = family === 4 ? [SOL_IP, 16] : [SOL_IPV6, address.length];
  return calls.getsockopt(fd, level, SO_ORIGINAL_DST, address, int(size, length)) === 0 ? written() : null;
}

/**
 * What is written from here on leaves with the end of the connection, for as far as it does not fill a packet, or after
 * 200 ms (TCP_CORK). A client that sees its last response before the end of the connection often closes first, and then has
 * to keep the port.
 */
export function holdBack(socket: Socket): void {
  if (calls === null) return;
  const fd = descriptorOf(socket);
  if (fd !== null) calls.setsockopt(fd, SOL_TCP, TCP_CORK, one, one.length);
}

/** Reads what has come, without waiting: how many bytes; 0 at the end; -1 where nothing has come, or nothing ever will. */
export function receiveNow(fd: number, into: Buffer): number {
  return calls === null ? -1 : calls.recv(fd, into, into.length, MSG_DONTWAIT);
}

/** What has come and nobody has read, or the beginning of it; of a socket that is about to be closed. */
export function unreadOf(socket: Socket): Buffer {
  const fd = calls === null ? null : descriptorOf(socket);
  if (fd === null) return Buffer.alloc(0);
  const bytes = Buffer.allocUnsafe(mostUnread);
  return bytes.subarray(0, Math.max(0, receiveNow(fd, bytes)));
}

/** Whether bytes have come that nobody has read. Without the calls nobody knows. */
export function hasUnread(fd: number): boolean {
  return calls === null || calls.recv(fd, address, 1, MSG_DONTWAIT | MSG_PEEK) > 0;
}

/**
 * Whether its peer has said nothing that nobody has read, and not its end either; nor is the connection broken. False where
 * nobody knows.
 */
export function isQuiet(socket: Socket): boolean {
  const fd = calls === null ? null : descriptorOf(socket);
  if (calls === null || fd === null) return false;
  int(fd, polled);
  if (isLittle) polled.writeInt16LE(POLLIN | POLLRDHUP, 4);
  else polled.writeInt16BE(POLLIN | POLLRDHUP, 4);
  return calls.poll(polled, 1, 0) === 0;
}

/** Whether its peer has said something that nobody has read. False where nobody knows. */
export function hasSpoken(socket: Socket): boolean {
  const fd = calls === null ? null : descriptorOf(socket);
  return fd !== null && hasUnread(fd);
}

/** As what is written behind `holdBack`, without waiting: how many bytes the kernel has taken; -1 where there is an error. */
export function sendHeldBack(fd: number, bytes: Buffer, length: number): number {
  return calls === null ? -1 : calls.send(fd, bytes, length, MSG_DONTWAIT | MSG_NOSIGNAL | MSG_MORE);
}
