import { identityOfName } from '../identity-name.ts';
import type { Workload } from '../policy/workload.ts';

type TrustNames = Pick<Workload, 'controlPlaneNamespace' | 'trustDomain'>;

/**
 * Why no ServiceAccount has an identity that a document names in full or by its end; null where one may have it, and for what
 * another authority may have given out: names with dots outside the trust domain, and SPIFFE IDs.
 */
export function impossibleIdentity(text: string, { controlPlaneNamespace, trustDomain }: TrustNames): string | null {
  if (text === '*') return null;
  const name = text.replace(/^\*\./, '');
  const isSuffix = name !== text;
  if (!isSuffix && identityOfName(text) === null) return 'no certificate gives such a name';
  if (text.includes('://')) return null;
  if (!isSuffix && !name.includes('.')) {
    return 'its names have dots; name a ServiceAccount of the cluster under identityRefs or serviceAccounts';
  }
  if (/^(?:.+\.)?(?:svc|pod)\.[^.]+(?:\.[^.]+)*$/.test(name) && !name.includes('.serviceaccount.')) {
    const of = /(?:^|\.)svc\./.test(name) ? 'a Service' : 'a pod';
    if (name.endsWith(`.${trustDomain}`) || /\.cluster\.local$/.test(name)) return `it is the DNS name of ${of}`;
  }
  if (name !== trustDomain && !name.endsWith(`.${trustDomain}`)) return null;
  const base = `serviceaccount.identity.${controlPlaneNamespace}.${trustDomain}`;
  if (isSuffix && (base === name || base.endsWith(`.${name}`))) return null;
  const before = name.endsWith(`.${base}`) ? name.slice(0, -base.length - 1).split('.') : [];
  // Names of ServiceAccounts may have dots; the last part is the namespace.
  if (before.length > (isSuffix ? 0 : 1)) return null;
  if (before.length === 1) return `no namespace stands between the name and "${base}"`;
  const other = /(?:^|\.)serviceaccount\.identity\.(.+)$/.exec(name)?.[1];
  const plane = other?.slice(0, -trustDomain.length - 1);
  if (plane !== undefined && plane !== '' && plane !== controlPlaneNamespace) {
    return `the control plane is in namespace ${controlPlaneNamespace}, not in ${plane}`;
  }
  return `identities of the trust domain ${trustDomain} end with ".${base}"`;
}
