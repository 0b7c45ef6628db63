import { nearestName } from '../nearest.ts';
import { linkerdGroup, networkPolicyGroup, policyTest } from './types.ts';

/*
 * `kind: Sever`, `kind: server`, `apiVersion: policy.linkerd.oi/v1beta3`: to the API server such a document is unknown, and
 * is refused. In a file it must not pass for one of the many kinds that are no policy, or a slip would take a rule away.
 */

interface Named {
  readonly group: string;
  readonly kind: string;
}

/** Kinds that exist and are no slips, though they look like ones of ours: of the Gateway API, of Kubernetes, of meshes. */
const foreignKinds: ReadonlySet<string> = new Set([
  'TCPRoute',
  'TLSRoute',
  'UDPRoute',
  'MeshHTTPRoute',
  'MeshTCPRoute',
  'EgressNetwork',
  'HTTPRouteFilter',
  'HTTPRouteGroup',
  'NetworkPolicyPeer',
  'GlobalNetworkPolicy',
  'AdminNetworkPolicy',
  'BaselineAdminNetworkPolicy',
  'ClusterNetworkPolicy',
  'CiliumNetworkPolicy',
  'Node',
  'Job',
]);

/** Of Kubernetes' ObjectMeta, with what older versions had. */
const metadataFields: ReadonlySet<string> = new Set([
  'name',
  'generateName',
  'namespace',
  'selfLink',
  'uid',
  'resourceVersion',
  'generation',
  'creationTimestamp',
  'deletionTimestamp',
  'deletionGracePeriodSeconds',
  'labels',
  'annotations',
  'ownerReferences',
  'finalizers',
  'managedFields',
  'clusterName',
  'initializers',
]);

/** Where and to what a document applies: misspelt, one of them would make it apply where it was not meant to. */
const decidingMetadata = ['name', 'namespace', 'labels', 'creationTimestamp'];

/** The fields of a document's metadata that there are not, each with the one that decides and was most likely meant, if any. */
export function strayMetadata(metadata: unknown): readonly (readonly [field: string, meant: string | undefined])[] {
  return Object.keys(metadata ?? {})
    .filter((field) => !metadataFields.has(field))
    .map((field) => [field, nearestName(field, decidingMetadata)] as const);
}

/** Files that lie beside policy and are none, by name and by what they hold. Of these none has a kind. */
const otherFiles: readonly {
  readonly what: string;
  readonly name: RegExp;
  readonly hint: string;
  holds(fields: Readonly<Record<string, unknown>>): boolean;
}[] = [
  {
    what: 'a kustomization',
    name: /^kustomization(?:\.ya?ml)?$/i,
    hint: 'Give what it is rendered to (kubectl kustomize); the files beside it are read as they stand.',
    holds: (fields) => Object.keys(fields).every((field) => kustomizeFields.test(field)),
  },
  {
    what: 'a Helm chart',
    name: /^Chart\.ya?ml$/i,
    hint: 'Give what it is rendered to (helm template).',
    holds: ({ name, version }) => typeof name === 'string' && version !== undefined,
  },
  {
    what: 'values of a Helm chart',
    name: /^values(?:[._-].*)?\.ya?ml$/i,
    hint: 'Give what the chart is rendered to (helm template).',
    holds: () => true,
  },
  {
    what: 'a Compose file',
    name: /^(?:docker-)?compose(?:[._-].*)?\.ya?ml$/i,
    hint: 'Take it out of the folder.',
    holds: ({ services }) => typeof services === 'object',
  },
  {
    what: 'a package of npm',
    name: /^package(?:-lock)?\.json$/,
    hint: 'Take it out of the folder.',
    holds: ({ name, version, dependencies, scripts, lockfileVersion }) =>
      [name, version, dependencies, scripts, lockfileVersion].some((field) => field !== undefined),
  },
];

const kustomizeFields =
  /^(?:apiVersion|resources|bases|components|crds|namespace|name(?:Prefix|Suffix)|labels|common(?:Labels|Annotations)|images|replicas|patches\w*|(?:configMap|secret)Generator|generator(?:s|Options)|transformers|validators|replacements|vars|configurations|helm\w+|openapi|buildMetadata|sortOptions|inventory|metadata)$/;

/** A file of another tool, and what to do about it; null for what may have been meant as policy. */
export function otherFile(file: string, value: unknown): { readonly what: string; readonly hint: string } | null {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return null;
  const fields = value as Readonly<Record<string, unknown>>;
  // What has either was hardly written for another tool.
  if (fields.kind !== undefined || fields.spec !== undefined) return null;
  const name = file.slice(file.lastIndexOf('/') + 1);
  return otherFiles.find((other) => other.name.test(name) && other.holds(fields)) ?? null;
}

/** What to do about a document without apiVersion and kind. */
export function hintFor(value: unknown): string {
  const isTest = typeof value === 'object' && value !== null && 'cases' in value && 'policy' in value;
  if (!isTest) return 'Write it as for kubectl apply.';
  return `A policy test in a folder of policy needs apiVersion: ${policyTest.apiVersion} and kind: ${policyTest.kind}.`;
}

/**
 * The kind that a document of an unknown one most likely was meant to be; undefined where it is simply none of ours. Both
 * parts must be right or nearly so, and case alone never counts as far.
 */
export function nearMiss<Known extends Named>(group: string, kind: string, known: readonly Known[]): Known | undefined {
  const groups = new Set(known.map((each) => each.group).filter((each) => each !== ''));
  const kinds = new Set(known.map((each) => each.kind));
  const meantGroups = groupsMeant(group, groups);
  if (meantGroups.length === 0) return undefined;
  const meantKind = foreignKinds.has(kind) ? undefined : kinds.has(kind) ? kind : nearestName(kind, kinds);
  if (meantKind === undefined) return undefined;
  const candidates = known.filter((each) => each.kind === meantKind);
  const meant = candidates.find((each) => meantGroups.includes(each.group));
  if (meant !== undefined) return meant;
  // A group of ours and a kind of ours that do not belong together: one of the two is another's.
  const named = group === '' || kind.toLowerCase() === meantKind.toLowerCase();
  return named
    ? (candidates.find((each) => group !== '' && each.group.endsWith(`.${group}`)) ?? candidates[0])
    : undefined;
}

/** Kinds of Linkerd's policy group that say nothing of what comes in. */
const outboundKinds: ReadonlySet<string> = new Set(['EgressNetwork', 'EgressNetworkList']);

/**
 * Whether a kind that is neither known nor nearly so must have been meant for inbound policy all the same: nothing but
 * policy is in that group, and a list by a wrong name holds nobody knows what. `items`: the field of that name.
 */
export function isPolicyOfUnknownKind(group: string, kind: string, items: unknown): boolean {
  if (group === linkerdGroup) return !outboundKinds.has(kind);
  return (
    (group === '' && nearestName(kind, ['List']) !== undefined) || (Array.isArray(items) && items.some(isDocument))
  );
}

function isDocument(value: unknown): boolean {
  const { apiVersion, kind } = (value ?? {}) as { readonly apiVersion?: unknown; readonly kind?: unknown };
  return typeof apiVersion === 'string' && typeof kind === 'string';
}

/** Every group that may have been meant: the very one, a near one, one of which this is only a part, or that is part of it. */
function groupsMeant(group: string, groups: ReadonlySet<string>): readonly string[] {
  // `v1beta3` alone, or `v1`: the group was left out, or it is Kubernetes' own.
  if (group === '') return ['', ...groups];
  if (groups.has(group)) return [group];
  // Where NetworkPolicies were until Kubernetes 1.16.
  if (group === 'extensions') return [networkPolicyGroup];
  const near = nearestName(group, groups);
  if (near !== undefined) return [near];
  const labels = group.toLowerCase().split('.');
  const inside = [...groups].filter((each) => group.endsWith(`.${each}`));
  if (inside.length > 0) return inside;
  return [...groups].filter((each) => labels.every((label) => each.split('.').includes(label)) && labels[0] !== 'io');
}
