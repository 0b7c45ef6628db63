import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { runToEnd, type Teardown } from './children.ts';

/** Why network namespaces cannot be used here, for tap's `skip`; null where they can. */
export function namespacesUnavailable(): string | null {
  if (process.platform !== 'linux') return 'network namespaces exist on Linux only';
  if (process.getuid?.() !== 0) return 'making a network namespace takes root';
  const tried = spawnSync('ip', ['netns', 'list'], { encoding: 'utf8' });
  if (tried.error !== undefined) return 'the ip command (iproute2) is not installed';
  if (tried.status !== 0) return `ip netns does not work here: ${tried.stderr.trim()}`;
  const name = uniqueName();
  const made = spawnSync('ip', ['netns', 'add', name], { encoding: 'utf8' });
  if (made.status !== 0) return `ip netns add is refused: ${made.stderr.trim()}`;
  spawnSync('ip', ['netns', 'del', name]);
  return null;
}

export interface Namespace {
  readonly name: string;
  /** Put before a command to run it inside. `ip netns exec` becomes the command, so signals and pid are the command's. */
  readonly within: readonly string[];
  addAddress(address: string, device?: string): Promise<void>;
  removeAddress(address: string, device?: string): Promise<void>;
  /** What happens to a pod that is given another address while it runs. */
  replaceAddress(old: string, next: string, device: string): Promise<void>;
}

/** A namespace whose loopback device holds all the addresses: each is then both a place to listen and a source. */
export async function createNamespace(t: Teardown, addresses: readonly string[] = []): Promise<Namespace> {
  deleteAbandoned();
  const name = uniqueName();
  await ip(t, ['netns', 'add', name]);
  t.teardown(() => spawnSync('ip', ['netns', 'del', name]));
  await ip(t, ['-n', name, 'link', 'set', 'lo', 'up']);
  const addAddress = (address: string, device = 'lo'): Promise<void> =>
    ip(t, ['-n', name, ...addressCommand('add', address, device)]);
  const removeAddress = (address: string, device = 'lo'): Promise<void> =>
    ip(t, ['-n', name, ...addressCommand('del', address, device)]);
  const namespace: Namespace = {
    name,
    within: ['ip', 'netns', 'exec', name],
    addAddress,
    removeAddress,
    replaceAddress: async (old, next, device) => {
      // Else the kernel removes the second address of a subnet together with the first.
      const promote = `echo 1 > /proc/sys/net/ipv4/conf/${device}/promote_secondaries`;
      await ip(t, ['netns', 'exec', name, 'sh', '-c', promote]);
      await addAddress(next, device);
      await removeAddress(old, device);
    },
  };
  for (const address of addresses) await namespace.addAddress(address);
  return namespace;
}

/** Connects two namespaces by a pair of devices with these addresses (`10.0.0.1/24`), each the other's default route. */
export async function connectNamespaces(
  t: Teardown,
  one: { readonly namespace: Namespace; readonly address: string },
  two: { readonly namespace: Namespace; readonly address: string },
): Promise<{ readonly oneDevice: string; readonly twoDevice: string }> {
  const suffix = randomBytes(3).toString('hex');
  const [oneDevice, twoDevice] = [`va${suffix}`, `vb${suffix}`];
  const peer = ['peer', 'name', twoDevice, 'netns', two.namespace.name];
  await ip(t, ['link', 'add', oneDevice, 'netns', one.namespace.name, 'type', 'veth', ...peer]);
  for (const [side, device] of [
    [one, oneDevice],
    [two, twoDevice],
  ] as const) {
    const inside = ['-n', side.namespace.name];
    await ip(t, [...inside, 'addr', 'add', side.address, 'dev', device]);
    await ip(t, [...inside, 'link', 'set', device, 'up']);
  }
  for (const [side, other, device] of [
    [one, two, oneDevice],
    [two, one, twoDevice],
  ] as const) {
    const gateway = other.address.split('/')[0] as string;
    await ip(t, ['-n', side.namespace.name, 'route', 'add', 'default', 'via', gateway, 'dev', device]);
  }
  return { oneDevice, twoDevice };
}

function addressCommand(verb: 'add' | 'del', address: string, device: string): string[] {
  const six = address.includes(':');
  const host = address.includes('/') ? address : `${address}/${six ? 128 : 32}`;
  // Without nodad an IPv6 address cannot be bound until duplicate detection has run.
  return ['addr', verb, host, 'dev', device, ...(six && verb === 'add' ? ['nodad'] : [])];
}

/** The name says whose it is, so that what a killed test left behind can be told from what is in use. */
function uniqueName(): string {
  return `sally-${process.pid}-${randomBytes(3).toString('hex')}`;
}

function deleteAbandoned(): void {
  const listed = spawnSync('ip', ['netns', 'list'], { encoding: 'utf8' }).stdout ?? '';
  for (const [name, pid] of listed.matchAll(/^sally-(\d+)-[0-9a-f]{6}\b/gm)) {
    if (!existsSync(`/proc/${pid}`)) spawnSync('ip', ['netns', 'del', name]);
  }
}

async function ip(t: Teardown, args: readonly string[]): Promise<void> {
  const done = await runToEnd(t, 'ip', args);
  if (done.code !== 0) throw new Error(`ip ${args.join(' ')}: ${done.stderr.trim()}`);
}
