import { familiesOf, type Listeners, listenerFor } from '../lib/config/listeners.ts';
import type { Complaint } from '../lib/errors/complaint.ts';
import { identityOfName } from '../lib/identity-name.ts';
import { hostPort, type IpAddress, parseIp } from '../lib/ip.ts';
import { parseCidr, withoutHostBits } from '../lib/policy/networks.ts';
import type { Workload } from '../lib/policy/workload.ts';
import { valueText } from '../lib/printable.ts';

/*
 * What a question can be answered without, and what the person who asks it should know: a name that no certificate gives, a
 * client that could not have come.
 */

/** A value as it is decided, and what there is to say of the one that was given. */
export interface Noted<T> {
  readonly value: T;
  readonly notes: readonly Complaint[];
}

/** The answer as JSON: notes where there are some. */
export function withNotes<Answer extends object>(
  answer: Answer,
  notes: readonly Complaint[],
): Answer & { readonly notes?: readonly Complaint[] } {
  return notes.length === 0 ? answer : { ...answer, notes };
}

type Trust = Pick<Workload, 'trustDomain' | 'controlPlaneNamespace'>;

/** The identity that a certificate with this name gives; null where it gives none. */
export function notedIdentity(given: string, trust: Trust): Noted<string | null> {
  const identity = identityOfName(given);
  if (identity === null) {
    const message = `no certificate gives the identity ${valueText(given)}: this is decided for a client without one`;
    return { value: null, notes: [{ code: 'no-identity-name', message, hint: nameHint(given) }] };
  }
  const { name } = identity;
  const notes: Complaint[] = [];
  if (name !== given) {
    const message = `a certificate's DNS names count in lower case: this is decided for ${name}`;
    notes.push({ code: 'identity-spelling', message, hint: '' });
  }
  const foreign = foreignPart(name, trust);
  if (foreign !== null) {
    const hint = 'a grant must name it in full, and its CA must be among the trust anchors';
    notes.push({ code: 'other-trust-domain', message: foreign, hint });
  }
  return { value: name, notes };
}

function nameHint(given: string): string {
  if (/^[a-z]+:\/\//i.test(given)) return 'write spiffe://trust-domain/path, the trust domain in lower case';
  if (given.includes('*')) return 'a wildcard stands in policies, not in certificates of clients';
  if (/^[\w.-]+\/[\w-]+$|^system:serviceaccount:/.test(given)) {
    return 'of a ServiceAccount write --service-account NS/NAME, in JSON and in tests serviceAccount';
  }
  return parseIp(given) === undefined ? 'write a DNS name, or a SPIFFE ID' : 'an address is no identity; see --client';
}

/** What of an identity is not this proxy's, as a sentence; null where it is, or where the name does not say. */
function foreignPart(name: string, { trustDomain, controlPlaneNamespace }: Trust): string | null {
  const [, ofSpiffe] = /^spiffe:\/\/([^/]+)/.exec(name) ?? [];
  const [, plane, ofAccount] = /\.serviceaccount\.identity\.([^.]+)\.(.+)$/.exec(name) ?? [];
  const domain = ofSpiffe ?? ofAccount;
  if (domain !== undefined && domain !== trustDomain) {
    return `the identity is of the trust domain ${domain}, and this proxy is of ${trustDomain} (SALLYPORT_TRUST_DOMAIN)`;
  }
  if (plane !== undefined && plane !== controlPlaneNamespace) {
    return `the identity is of the control plane ${plane}, and this proxy is of ${controlPlaneNamespace} (SALLYPORT_CONTROL_PLANE_NAMESPACE)`;
  }
  return null;
}

/** The client's address; of a network the one that is written. Null where it is neither. */
export function notedClient(given: string): Noted<IpAddress> | null {
  const ip = parseIp(given);
  if (ip !== undefined) return { value: ip, notes: [] };
  const cidr = parseCidr(given);
  const written = parseIp(given.split('/')[0] ?? '');
  if (typeof cidr === 'string' || written === undefined) return null;
  if (cidr.first === cidr.last) return { value: written, notes: [] };
  const network = withoutHostBits(cidr);
  const what = network === null ? `${given} is a network` : `${given} has host bits, and is the network ${network}`;
  const message = `${what}: this is decided for ${written.text} alone`;
  return { value: written, notes: [{ code: 'client-network', message, hint: 'a client is one address' }] };
}

/** Whether a client could come to the port at all, as far as the environment says it. */
export function notesOfArrival(listeners: Listeners | null, port: number, client: IpAddress): readonly Complaint[] {
  if (listeners === null) return [];
  const found = listenerFor(listeners, port);
  if (found === null) {
    const message = `nothing listens for port ${port}: SALLYPORT_INBOUND_PORTS has no such port`;
    return [
      { code: 'no-listener', message, hint: 'add it there, or set SALLYPORT_INBOUND_LISTEN for redirected ports' },
    ];
  }
  const { variable, listen } = found;
  if (familiesOf(listen).includes(client.family)) return [];
  const where = `${variable} listens on ${hostPort(listen.host ?? '::', listen.port)}`;
  const message = `${client.text} cannot reach the proxy: ${where}, which takes IPv${client.family === 4 ? 6 : 4} alone`;
  return [{ code: 'other-family', message, hint: `write [::]:${listen.port}, which takes both` }];
}
