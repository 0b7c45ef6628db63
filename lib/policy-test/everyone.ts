import { type IpAddress, ipv4, ipv6, parseIp } from '../ip.ts';
import { networkSetOf, parseCidr } from '../policy/networks.ts';
import { serviceAccountIdentity, type Workload } from '../policy/workload.ts';

/** One kind of client of `everyone`, in the words of a question. */
export interface Stranger {
  readonly who: string;
  readonly asks: { readonly client: string; readonly tls?: 'anonymous'; readonly identity?: string };
}

/** The ServiceAccount that no policy names. */
const account = 'stranger';
const elsewhere = 'elsewhere';

/** Addresses for documentation (RFC 5737, RFC 3849): nobody has them. */
const outsiders = ['203.0.113.77', '198.51.100.77', '192.0.2.77', '2001:db8::77'];

/**
 * `everyone`: a client of each kind that a policy can tell apart without naming anybody: without TLS, from inside and outside
 * the cluster networks; with mesh TLS and no certificate; a ServiceAccount of the pod's namespace and one of another, which no
 * policy names; and an identity of another trust domain. Where there is no address outside the cluster networks, or none
 * inside, kinds that need one are left out. Loopback, which is the pod itself, and TLS for other names are not among them.
 */
export function everyone(
  workload: Pick<Workload, 'namespace' | 'clusterNetworks' | 'trustDomain' | 'controlPlaneNamespace'>,
): readonly Stranger[] {
  const { namespace, clusterNetworks, trustDomain, controlPlaneNamespace } = workload;
  const inside = insideOf(clusterNetworks);
  const cluster = networkSetOf(clusterNetworks);
  const outside = outsiders.find((text) => {
    const ip = parseIp(text);
    return ip !== undefined && !cluster.contains(ip);
  });
  const foreign = {
    trustDomain: trustDomain === 'foreign.test' ? 'other.test' : 'foreign.test',
    controlPlaneNamespace,
  };
  const near = inside ?? outside;
  const far = outside ?? inside;
  const strangers: Stranger[] = [];
  const add = (who: string, client: string | undefined, asks: Omit<Stranger['asks'], 'client'> = {}): void => {
    if (client !== undefined) strangers.push({ who, asks: { client, ...asks } });
  };
  add('without TLS, inside the cluster', inside);
  add('without TLS, outside the cluster', outside);
  add('TLS without a certificate', near, { tls: 'anonymous' });
  add('a ServiceAccount of the namespace', near, { identity: serviceAccountIdentity(workload, namespace, account) });
  add('a ServiceAccount of another namespace', near, {
    identity: serviceAccountIdentity(workload, elsewhere, account),
  });
  add('an identity of another trust domain', far, { identity: serviceAccountIdentity(foreign, elsewhere, account) });
  return strangers;
}

/** The last address but one of the first network: nobody expects a Service or a gateway there. */
function insideOf(networks: readonly string[]): string | undefined {
  for (const text of networks) {
    const cidr = parseCidr(text);
    if (typeof cidr === 'string') continue;
    const value = cidr.first === cidr.last ? cidr.last : cidr.last - 1n;
    return addressOf(cidr.family, value).text;
  }
  return undefined;
}

function addressOf(family: 4 | 6, value: bigint): IpAddress {
  if (family === 4) return ipv4(Number(value));
  const word = (shift: bigint): number => Number((value >> shift) & 0xffff_ffffn);
  return ipv6(word(96n), word(64n), word(32n), word(0n));
}
