import { createRequire } from 'node:module';

const AF_UNIX = 1;
const SOCK_DGRAM = 2;
const SOCK_CLOEXEC = 0o2000000;
/** A word that cannot be taken now is lost; nothing waits for systemd. */
const MSG_DONTWAIT = 0x40;

type Variables = Readonly<Record<string, string | undefined>>;

/**
 * Tells systemd that the service is up, where its unit says `Type=notify`, and from then on, where it says `WatchdogSec=`,
 * that the event loop turns (sd_notify(3): datagrams to the socket that NOTIFY_SOCKET names). Node has no datagrams in the
 * Unix domain, so these are foreign calls. Yields what went wrong; null where nothing did, or nobody asked.
 */
export function reportReady(env: Variables): string | null {
  const path = env.NOTIFY_SOCKET;
  if (path === undefined || path === '') return null;
  // An address is the family and up to 108 bytes; `@` stands for the zero of an abstract one.
  const name = Buffer.from(path.replace(/^@/, '\0'));
  if (name.length > 107) return `${path} is too long for a socket`;
  const say = connect(Buffer.concat([Buffer.from(Uint16Array.of(AF_UNIX).buffer), name]));
  const errno = say('READY=1');
  if (errno !== 0) return `${path} takes no message (errno ${errno})`;
  const everyMs = watchdogMs(env);
  // Who is not heard is killed and started again: what is lost here, systemd sees by itself.
  if (everyMs !== null) setInterval(() => say('WATCHDOG=1'), everyMs).unref();
  return null;
}

/** Half of what systemd waits for a sign of life, as it asks for; null where it waits for none of this process. */
function watchdogMs({ WATCHDOG_USEC, WATCHDOG_PID }: Variables): number | null {
  if (WATCHDOG_PID !== undefined && WATCHDOG_PID !== `${process.pid}`) return null;
  const ms = Number(WATCHDOG_USEC ?? '') / 2000;
  return ms >= 1 ? ms : null;
}

/** Sends a word; yields the error number of the system, 0 for none. */
function connect(address: Buffer): (word: string) => number {
  const koffi = createRequire(import.meta.url)('koffi') as typeof import('koffi');
  const libc = koffi.load('libc.so.6');
  const socket = libc.func('int socket(int domain, int type, int protocol)');
  const sendto = libc.func(
    'long sendto(int fd, const uint8_t *data, size_t length, int flags, const uint8_t *address, uint32_t size)',
  );
  const fd: number = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  return (word) => {
    const bytes = Buffer.from(word);
    const sent = fd < 0 ? -1 : Number(sendto(fd, bytes, bytes.length, MSG_DONTWAIT, address, address.length));
    return sent === bytes.length ? 0 : koffi.errno();
  };
}
