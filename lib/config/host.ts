import { readFileSync } from 'node:fs';
import { hostname, networkInterfaces } from 'node:os';
import type { readManifest } from './manifest.ts';
import type { Environment } from './variables.ts';

/** What is read of the machine besides the environment; replaced in tests. */
export interface Host {
  readFile(path: string): string;
  hostname(): string;
  /** Addresses of the host's own interfaces, without loopback and link-local ones. */
  addresses(): readonly string[];
  /** Null where nobody names a Pod manifest: what reads YAML and checks its shape takes 6 MB of memory. */
  readonly readManifest: typeof readManifest | null;
}

export const thisHost: Host = {
  readFile: (path) => readFileSync(path, 'utf8'),
  hostname,
  addresses: () =>
    Object.values(networkInterfaces())
      .flatMap((addresses) => addresses ?? [])
      .filter((address) => !address.internal && !/^fe[89ab]/i.test(address.address))
      .map((address) => address.address),
  readManifest: null,
};

/** This host, with all that the environment asks for. */
export async function hostFor(env: Environment): Promise<Host> {
  if ((env.SALLYPORT_POD_MANIFEST ?? '') === '') return thisHost;
  const { readManifest } = await import('./manifest.ts');
  return { ...thisHost, readManifest };
}
