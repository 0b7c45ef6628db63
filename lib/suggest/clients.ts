import { type IpAddress, parseIp } from '../ip.ts';
import { cidrOf, contains, parseCidr } from '../policy/networks.ts';
import { serviceAccountIdentity, type Workload } from '../policy/workload.ts';
import { type Caller, type ClientUse, callerKey, note, type Seen } from './evidence.ts';

/** What of the pod and its cluster a suggestion depends on. */
export type ClientFacts = Pick<Workload, 'controlPlaneNamespace' | 'trustDomain' | 'ips' | 'probeNetworks'>;

export interface ServiceAccount {
  readonly namespace: string;
  readonly name: string;
}

/** One network that a suggestion lets in. */
export interface NetworkBlock {
  /** A CIDR, or `podClusterIp`. */
  readonly cidr: string;
  /** Addresses that were seen in it. */
  readonly addresses: number;
  /** How wide it may be by the rule; null where it is what was seen. */
  readonly widest: number | null;
}

/** What one AuthorizationPolicy asks for; of `both`, both. */
export type Grant =
  | {
      readonly kind: 'both';
      readonly names: readonly string[];
      readonly blocks: readonly NetworkBlock[];
      readonly seen: readonly ClientSeen[];
    }
  | { readonly kind: 'identities'; readonly names: readonly string[]; readonly seen: readonly ClientSeen[] }
  | { readonly kind: 'networks'; readonly blocks: readonly NetworkBlock[]; readonly seen: readonly ClientSeen[] };

/** One client, and how often it was there. */
export interface ClientSeen extends Seen {
  readonly text: string;
}

/** As many addresses of one network make it a network, and no wider one. */
const networkRule = { addresses: 4, v4: 24, v6: 64 } as const;

/** What a set of callers needs: at most one grant of each kind. Nobody needs none. */
export function grantsFor(uses: Iterable<ClientUse>, facts: ClientFacts, exactNetworks: boolean): readonly Grant[] {
  const callers = new Map<string, { readonly caller: Caller; readonly seen: ClientSeen }>();
  for (const use of uses) {
    const key = callerKey(use.caller);
    let known = callers.get(key);
    if (known === undefined) {
      known = { caller: use.caller, seen: { text: callerText(use.caller, facts), count: 0, first: null, last: null } };
      callers.set(key, known);
    }
    note(known.seen, use);
  }
  const names: string[] = [];
  const addresses: IpAddress[] = [];
  const seen: Record<Caller['kind'], ClientSeen[]> = { identity: [], address: [], probe: [] };
  for (const { caller, seen: client } of callers.values()) {
    seen[caller.kind].push(client);
    if (caller.kind === 'identity') names.push(caller.name);
    else if (caller.kind === 'address') addresses.push(parseIp(caller.ip) as IpAddress);
  }
  for (const list of Object.values(seen)) list.sort((a, b) => b.count - a.count || (a.text < b.text ? -1 : 1));
  const grants: Grant[] = [];
  if (names.length > 0) grants.push({ kind: 'identities', names: names.sort(), seen: seen.identity });
  if (addresses.length > 0) {
    grants.push({ kind: 'networks', blocks: blocksOf(addresses, facts, exactNetworks), seen: seen.address });
  }
  if (seen.probe.length > 0) {
    // The kubelet of another node has another address.
    const blocks = facts.probeNetworks.map((cidr) => ({ cidr, addresses: 0, widest: null }));
    grants.push({ kind: 'networks', blocks, seen: seen.probe });
  }
  return grants;
}

/** The same where one client was let in from here and refused from there: identities only from where they came. */
export function tellingGrants(uses: readonly ClientUse[], facts: ClientFacts): readonly Grant[] {
  const [identified, others] = [
    uses.filter(({ caller }) => caller.kind === 'identity'),
    uses.filter(({ caller }) => caller.kind !== 'identity'),
  ];
  const both = identified.flatMap((use) =>
    grantsFor([use], facts, true).map((grant): Grant => {
      const addresses = [...use.addresses].flatMap((text) => parseIp(text) ?? []);
      const blocks = blocksOf(addresses, facts, true);
      return grant.kind === 'identities' ? { ...grant, kind: 'both', blocks } : grant;
    }),
  );
  return [...both, ...grantsFor(others, facts, true)];
}

function callerText(caller: Caller, facts: ClientFacts): string {
  if (caller.kind === 'probe') return 'probes, from where SALLYPORT_PROBE_NETWORKS says';
  if (caller.kind === 'address') return caller.ip;
  const account = accountOf(caller.name, facts);
  return account === null ? caller.name : `${account.namespace}/${account.name}`;
}

/** The ServiceAccount that has this identity in the pod's own mesh; null for every other name. */
export function accountOf(
  identity: string,
  facts: Pick<ClientFacts, 'controlPlaneNamespace' | 'trustDomain'>,
): ServiceAccount | null {
  const [, name = '', namespace = ''] = /^([^.]+)\.([^.]+)\.serviceaccount\.identity\./.exec(identity) ?? [];
  if (name === '' || serviceAccountIdentity(facts, namespace, name) !== identity) return null;
  return { namespace, name };
}

function blocksOf(addresses: readonly IpAddress[], { ips }: ClientFacts, exact: boolean): readonly NetworkBlock[] {
  const blocks: NetworkBlock[] = [];
  const others = addresses.filter((ip) => !ips.some((own) => own.text === ip.text));
  const own = addresses.length - others.length;
  if (own > 0) blocks.push({ cidr: 'podClusterIp', addresses: own, widest: null });
  const near = new Map<string, IpAddress[]>();
  for (const ip of others) {
    const widest = widestOf(ip);
    const key = exact ? ip.text : prefixText(ip, widest);
    near.set(key, [...(near.get(key) ?? []), ip]);
  }
  for (const together of near.values()) {
    if (exact || together.length < networkRule.addresses) blocks.push(...together.map(single));
    else blocks.push(joint(together));
  }
  return blocks.sort((a, b) => (a.cidr < b.cidr ? -1 : 1));
}

function widestOf({ family }: IpAddress): number {
  return family === 4 ? networkRule.v4 : networkRule.v6;
}

function widthOf({ family }: IpAddress): number {
  return family === 4 ? 32 : 128;
}

function single(ip: IpAddress): NetworkBlock {
  return { cidr: `${ip.text}/${widthOf(ip)}`, addresses: 1, widest: null };
}

/** The smallest network that holds them all. */
function joint(addresses: readonly IpAddress[]): NetworkBlock {
  const [first] = addresses as [IpAddress];
  let prefix = widthOf(first);
  const holds = (length: number): boolean => {
    const block = parseCidr(`${first.text}/${length}`);
    return typeof block !== 'string' && addresses.every((ip) => contains(block, cidrOf(ip)));
  };
  while (prefix > widestOf(first) && !holds(prefix)) prefix -= 1;
  return { cidr: `${prefixText(first, prefix)}/${prefix}`, addresses: addresses.length, widest: widestOf(first) };
}

/** The first address of the network of that length which holds an address. */
function prefixText(ip: IpAddress, length: number): string {
  const words = ip.family === 4 ? [ip.value] : [...ip.words];
  const kept = words.map((word, at) => {
    const bits = Math.min(32, Math.max(0, length - 32 * at));
    return bits === 0 ? 0 : (word & (-1 << (32 - bits))) >>> 0;
  });
  const text =
    ip.family === 4
      ? [24, 16, 8, 0].map((shift) => ((kept[0] as number) >>> shift) & 255).join('.')
      : kept.map((word) => `${(word >>> 16).toString(16)}:${(word & 0xffff).toString(16)}`).join(':');
  return parseIp(text)?.text ?? text;
}
