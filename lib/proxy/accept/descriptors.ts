import { createRequire } from 'node:module';

/** As fcntl(2) of Linux numbers it. */
const F_DUPFD_CLOEXEC = 1030;

export interface Descriptors {
  /** Another descriptor of the same socket; null where none is left. */
  duplicate(fd: number): number | null;
  close(fd: number): void;
}

/**
 * Node lets threads share what listens only by its number, and closes it with the first that is done with it.
 *
 * @throws when koffi or the C library cannot be loaded; called once a thread.
 */
export function loadDescriptors(): Descriptors {
  const koffi = createRequire(import.meta.url)('koffi') as typeof import('koffi');
  const libc = koffi.load('libc.so.6');
  const fcntl = libc.func('int fcntl(int fd, int command, int argument)');
  const close = libc.func('int close(int fd)');
  return {
    duplicate(fd) {
      const copy = fcntl(fd, F_DUPFD_CLOEXEC, 0) as number;
      return copy < 0 ? null : copy;
    },
    close: (fd) => void close(fd),
  };
}
