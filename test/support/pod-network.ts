import { type ChildOptions, type Finished, missing, runToEnd, type Teardown } from './children.ts';
import { createNamespace, type Namespace, namespacesUnavailable } from './namespace.ts';
import { type Environment, type Sallyport, sallyportCommand, startSallyport } from './sallyport.ts';
import { patience } from './until.ts';

/**
 * A small cluster: a pod and a meshed client on the bridge of a node, which is also the way to the rest of the world.
 *
 * ```text
 *   pod 10.42.0.7 ──┐
 *                 bridge of the node 10.42.0.1, its public address 203.0.113.9 ── outsider 198.51.100.66
 *   client 10.42.0.20 ──┘
 * ```
 */
export interface PodNetwork {
  readonly pod: Place;
  /** Where the kubelet runs. Its probes may come from the node's public address. */
  readonly node: Place;
  readonly client: Place;
  readonly outsider: Place;
}

export interface Place {
  readonly namespace: Namespace;
  /** Runs a program there to its end. */
  run(command: string, ...args: readonly string[]): Promise<Finished>;
}

export const address = {
  pod: '10.42.0.7',
  pod6: 'fd00:42::7',
  node: '10.42.0.1',
  node6: 'fd00:42::1',
  nodePublic: '203.0.113.9',
  client: '10.42.0.20',
  client6: 'fd00:42::20',
  outsider: '198.51.100.66',
  outsider6: '2001:db8:51::66',
} as const;

/** The device by which the pod is reached. */
export const podDevice = 'eth0';

/** The device on the node's side of it. */
export const nodePodDevice = 'vpod';

/** Why these tests cannot run here; false where they can. */
export async function podNetworkUnavailable(t: Teardown, ...programs: string[]): Promise<string | false> {
  const needed = ['iptables-nft', 'iptables-legacy', 'ip6tables-nft', 'setpriv', 'sysctl', 'curl', ...programs];
  return namespacesUnavailable() ?? (await missing(t, ...needed));
}

export async function createPodNetwork(t: Teardown): Promise<PodNetwork> {
  const [pod, node, client, outsider] = await Promise.all([place(t), place(t), place(t), place(t)]);
  const ip = (at: Place, ...args: string[]): Promise<void> => mustRun(at, 'ip', ...args);

  await mustRun(node, 'sysctl', '-q', '-w', 'net.ipv4.ip_forward=1', 'net.ipv6.conf.all.forwarding=1');
  await ip(node, 'link', 'add', 'br0', 'type', 'bridge');
  await ip(node, 'link', 'set', 'br0', 'up');
  await give(node, 'br0', `${address.node}/24`, `${address.node6}/64`);
  await give(node, 'lo', `${address.nodePublic}/32`);
  await wire(pod, podDevice, node, nodePodDevice);
  await wire(client, 'eth0', node, 'vclient');
  await wire(outsider, 'eth0', node, 'vworld');
  for (const device of [nodePodDevice, 'vclient']) await ip(node, 'link', 'set', device, 'master', 'br0');
  await give(pod, podDevice, `${address.pod}/24`, `${address.pod6}/64`);
  await give(client, 'eth0', `${address.client}/24`, `${address.client6}/64`);
  await give(outsider, 'eth0', `${address.outsider}/24`, `${address.outsider6}/64`);
  await give(node, 'vworld', '198.51.100.1/24', '2001:db8:51::1/64');
  for (const [at, gateway, gateway6] of [
    [pod, address.node, address.node6],
    [client, address.node, address.node6],
    [outsider, '198.51.100.1', '2001:db8:51::1'],
  ] as const) {
    await ip(at, 'route', 'add', 'default', 'via', gateway);
    await ip(at, '-6', 'route', 'add', 'default', 'via', gateway6);
  }
  return { pod, node, client, outsider };
}

async function place(t: Teardown): Promise<Place> {
  const namespace = await createNamespace(t);
  const [command = '', ...within] = namespace.within;
  const options: ChildOptions & { timeoutMs: number } = { timeoutMs: 60_000 };
  return { namespace, run: (program, ...args) => runToEnd(t, command, [...within, program, ...args], options) };
}

async function wire(one: Place, device: string, other: Place, otherDevice: string): Promise<void> {
  const peer = ['peer', 'name', otherDevice, 'netns', other.namespace.name];
  await mustRun(one, 'ip', 'link', 'add', device, 'type', 'veth', ...peer);
  await mustRun(one, 'ip', 'link', 'set', device, 'up');
  await mustRun(other, 'ip', 'link', 'set', otherDevice, 'up');
}

async function give(at: Place, device: string, ...addresses: string[]): Promise<void> {
  for (const one of addresses) await at.namespace.addAddress(one, device);
}

/** Fails the test where the program does. */
export async function mustRun(at: Place, command: string, ...args: readonly string[]): Promise<void> {
  const done = await at.run(command, ...args);
  if (done.code !== 0) throw new Error(`${command} ${args.join(' ')}: ${done.stderr.trim()}`);
}

/** `sallyport iptables …` inside the pod, as its init container runs it: root with the capability NET_ADMIN. */
export function iptables(pod: Place, ...args: readonly string[]): Promise<Finished> {
  return pod.run(sallyportCommand, 'iptables', ...args);
}

export async function applyRules(pod: Place, ...flags: readonly string[]): Promise<void> {
  await mustRun(pod, sallyportCommand, 'iptables', '--apply', '--ipv6', ...flags);
}

/**
 * The image's user, with one capability more than it has there: to read the checkout, which may lie in a folder that is
 * root's alone. That it needs none is proven where the package itself is tested.
 */
const asProxyUser: readonly string[] = [
  ...['setpriv', '--reuid=2102', '--regid=2102', '--clear-groups', '--no-new-privs'],
  ...(['bounding-set', 'inh-caps', 'ambient-caps'] as const).map((set) => `--${set}=-all,+dac_read_search`),
];

/** The sidecar, on the ports that it has in a pod, for both families. */
export function startSidecar(t: Teardown, { pod }: PodNetwork, env: Environment): Promise<Sallyport> {
  return startSallyport(t, {
    within: [...pod.namespace.within, ...asProxyUser],
    health: async (path, port) => status(await curl(pod, `http://127.0.0.1:${port}${path}`)),
    env: {
      SALLYPORT_INBOUND_LISTEN: '[::]:4143',
      SALLYPORT_ADMIN_LISTEN: '[::]:4191',
      SALLYPORT_HEALTH_LISTEN: '[::]:4192',
      SALLYPORT_POD_NAMESPACE: 'shop',
      ...env,
    },
  });
}

export interface Curled extends Finished {
  /** 0 where there was no response. */
  readonly status: number;
  readonly body: string;
}

/** curl, at most ten seconds, as patience counts them; `code` is its own exit status. */
export async function curl(at: Place, url: string, ...args: readonly string[]): Promise<Curled> {
  const quiet = ['--silent', '--show-error', '--max-time', `${10 * patience()}`, '--noproxy', '*', '--globoff'];
  const done = await at.run('curl', ...quiet, '--write-out', '\n%{http_code}', ...args, url);
  const cut = done.stdout.lastIndexOf('\n');
  return { ...done, status: Number(done.stdout.slice(cut + 1)), body: done.stdout.slice(0, Math.max(0, cut)) };
}

function status(curled: Curled): number | undefined {
  return curled.status === 0 ? undefined : curled.status;
}

/** `http://10.42.0.7:8080/` or `http://[fd00:42::7]:8080/`. */
export function at(host: string, port: number, path = '/', scheme = 'http'): string {
  return `${scheme}://${host.includes(':') ? `[${host}]` : host}:${port}${path}`;
}
