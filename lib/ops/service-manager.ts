import { createRequire } from 'node:module';

const AF_UNIX = 1;
const SOCK_DGRAM = 2;
const SOCK_CLOEXEC = 0o2000000;

/**
 * Tells systemd that the service is up, where its unit says `Type=notify` (sd_notify(3): one datagram to the socket that
 * NOTIFY_SOCKET names). Node has no datagrams in the Unix domain, so these are foreign calls, once at the start. Yields
 * what went wrong; null where nothing did, or nobody asked.
 */
export function reportReady(env: Readonly<Record<string, string | undefined>>): string | null {
  const path = env.NOTIFY_SOCKET;
  if (path === undefined || path === '') return null;
  // An address is the family and up to 108 bytes; `@` stands for the zero of an abstract one.
  const name = Buffer.from(path.replace(/^@/, '\0'));
  if (name.length > 107) return `${path} is too long for a socket`;
  const koffi = createRequire(import.meta.url)('koffi') as typeof import('koffi');
  const libc = koffi.load('libc.so.6');
  const socket = libc.func('int socket(int domain, int type, int protocol)');
  const sendto = libc.func(
    'long sendto(int fd, const uint8_t *data, size_t length, int flags, const uint8_t *address, uint32_t size)',
  );
  const close = libc.func('int close(int fd)');
  const address = Buffer.concat([Buffer.from(Uint16Array.of(AF_UNIX).buffer), name]);
  const said = Buffer.from('READY=1');
  const fd: number = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return 'no socket can be had';
  try {
    return Number(sendto(fd, said, said.length, 0, address, address.length)) === said.length
      ? null
      : `${path} takes no message (errno ${koffi.errno()})`;
  } finally {
    close(fd);
  }
}
