import { readFileSync } from 'node:fs';
import { hostname, networkInterfaces } from 'node:os';

/** What is read of the machine besides the environment; replaced in tests. */
export interface Host {
  readFile(path: string): string;
  hostname(): string;
  /** Addresses of the host's own interfaces, without loopback and link-local ones. */
  addresses(): readonly string[];
}

export const thisHost: Host = {
  readFile: (path) => readFileSync(path, 'utf8'),
  hostname,
  addresses: () =>
    Object.values(networkInterfaces())
      .flatMap((addresses) => addresses ?? [])
      .filter((address) => !address.internal && !/^fe[89ab]/i.test(address.address))
      .map((address) => address.address),
};
