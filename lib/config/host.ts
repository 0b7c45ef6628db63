import { readFileSync } from 'node:fs';
import { availableParallelism, endianness, hostname, networkInterfaces, totalmem } from 'node:os';
import { getHeapStatistics } from 'node:v8';
import { readRegularFile } from '../regular-file.ts';
import { cpuLimit } from './cpu-limit.ts';
import type { readManifest } from './manifest.ts';
import { memoryBound } from './memory-limit.ts';
import type { Environment } from './variables.ts';

/** What is read of the machine besides the environment; replaced in tests. */
export interface Host {
  /** A regular file's text; throws with a `code` for anything else. */
  readFile(path: string): string;
  hostname(): string;
  /** Addresses of the host's own interfaces, without loopback and link-local ones. */
  addresses(): readonly string[];
  /** The default gateways, without link-local ones: where many network plugins let a node's own connections come from. */
  gateways(): readonly string[];
  /** How many file descriptors this process may have open. */
  descriptors(): number;
  /** Memory that this process may use: its container's limit, or the machine's. */
  memoryBytes(): number;
  /** Of it what V8 may use for each thread. */
  heapBytes(): number;
  /** Cores that this process may use, 1.5, say, as its cgroup limits them; null where nothing does. */
  cpuLimit(): number | null;
  /** How many threads can run at a time. */
  parallelism(): number;
  /** Null where nobody names a Pod manifest: what reads YAML and checks its shape takes 6 MB of memory. */
  readonly readManifest: typeof readManifest | null;
  /** Whether what a manifest gives the sidecar in it holds here, too: for a command that answers in the sidecar's place. */
  readonly answersForSidecar: boolean;
}

/** Where the limit cannot be read (no /proc): what most systems give at least. */
const fewDescriptors = 10_240;

export const thisHost: Host = {
  readFile: (path) => readRegularFile(path).toString('utf8'),
  hostname,
  addresses: () =>
    Object.values(networkInterfaces())
      .flatMap((addresses) => addresses ?? [])
      .filter((address) => !address.internal && !/^fe[89ab]/i.test(address.address))
      .map((address) => address.address),
  // Not by /proc/net, a link that is missing where /proc shows processes alone (ProcSubset=pid of systemd).
  gateways: () => [
    ...defaultGateways('/proc/self/net/route', readGateway),
    ...defaultGateways('/proc/self/net/ipv6_route', readGateway6),
  ],
  descriptors: () => {
    try {
      // Node has raised the soft limit to the hard one at its start.
      const [, soft] = /^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'latin1')) ?? [];
      return Number(soft ?? fewDescriptors);
    } catch {
      return fewDescriptors;
    }
  },
  memoryBytes: () => {
    return Math.min(memoryBound()?.limitBytes ?? Number.POSITIVE_INFINITY, totalmem());
  },
  heapBytes: () => getHeapStatistics().heap_size_limit,
  cpuLimit: () => cpuLimit(),
  parallelism: availableParallelism,
  readManifest: null,
  answersForSidecar: false,
};

/** Of the kernel's table of routes; none where there is no such table. */
function defaultGateways(table: string, read: (columns: readonly string[]) => string | null): readonly string[] {
  let text: string;
  try {
    text = readFileSync(table, 'latin1');
  } catch {
    // No Linux, or a family that the kernel does without.
    return [];
  }
  return [...new Set(text.split('\n').flatMap((line) => read(line.trim().split(/\s+/)) ?? []))];
}

/** Columns: device, destination, gateway, addresses in hexadecimal and in the machine's order of bytes (proc_net(5)). */
function readGateway([, destination, gateway = '']: readonly string[]): string | null {
  if (destination !== '00000000' || gateway === '00000000') return null;
  const bytes = Buffer.from(gateway, 'hex');
  return [...(endianness() === 'LE' ? bytes.reverse() : bytes)].join('.');
}

/** Columns: destination, length of its prefix, source, length of its prefix, next hop. */
function readGateway6([destination, length, , , gateway = '']: readonly string[]): string | null {
  if (length !== '00' || !/^0{32}$/.test(destination ?? '') || !/^[0-9a-f]{32}$/.test(gateway)) return null;
  if (/^0{32}$|^fe[89ab]/.test(gateway)) return null;
  return gateway.replaceAll(/.{4}(?=.)/g, '$&:');
}

/** This host, with all that the environment asks for. */
export async function hostFor(env: Environment): Promise<Host> {
  if ((env.SALLYPORT_POD_MANIFEST ?? '') === '') return thisHost;
  const { readManifest } = await import('./manifest.ts');
  return { ...thisHost, readManifest };
}
