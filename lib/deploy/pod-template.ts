import { listedItems } from '../policy/documents/read.ts';
import { valueAt, type YamlPath } from './yaml-changes.ts';

/** A pod as some workload describes it: a Pod itself, or the template that a controller makes pods from. */
export interface PodTemplate {
  /** Leads from the document's root to what holds `metadata` and `spec`. */
  readonly path: YamlPath;
  readonly workload: { readonly kind: string; readonly namespace: string | null; readonly name: string };
  /** Where the workload itself begins. */
  readonly workloadPath: YamlPath;
  readonly pod: PodValue;
}

/** The fields of a pod that are read or written here, as decoded; everything else is left alone. */
export interface PodValue {
  readonly metadata?: {
    readonly annotations?: Readonly<Record<string, unknown>> | null;
    readonly labels?: Readonly<Record<string, unknown>> | null;
  } | null;
  readonly spec?: PodSpecValue | null;
}

export interface PodSpecValue {
  readonly hostNetwork?: unknown;
  readonly os?: { readonly name?: unknown } | null;
  readonly nodeSelector?: Readonly<Record<string, unknown>> | null;
  readonly terminationGracePeriodSeconds?: unknown;
  readonly securityContext?: SecurityContextValue | null;
  readonly containers?: readonly ContainerValue[] | null;
  readonly initContainers?: readonly ContainerValue[] | null;
  readonly volumes?: readonly { readonly name?: unknown }[] | null;
  readonly imagePullSecrets?: readonly { readonly name?: unknown }[] | null;
  readonly serviceAccountName?: unknown;
  /** The former name of that field, which is still read. */
  readonly serviceAccount?: unknown;
  /** What all containers have together. */
  readonly resources?: unknown;
}

export interface ContainerValue {
  readonly name?: unknown;
  readonly ports?:
    | readonly { readonly name?: unknown; readonly containerPort?: unknown; readonly protocol?: unknown }[]
    | null;
  readonly securityContext?: SecurityContextValue | null;
  readonly resources?: unknown;
}

export interface SecurityContextValue {
  readonly runAsUser?: unknown;
  readonly privileged?: unknown;
  readonly capabilities?: { readonly add?: readonly unknown[] | null } | null;
}

/** A document of a stream, or an item of a List, that could hold a pod but is of a kind that is not known. */
export interface UnknownWorkload {
  readonly path: YamlPath;
  readonly kind: string;
}

/** Where each kind keeps its pod template, by the API group that gives the kind its meaning. */
const kinds: ReadonlyMap<string, { readonly group: RegExp; readonly template: YamlPath }> = new Map([
  ['Pod', { group: /^v1$/, template: [] }],
  ['PodTemplate', { group: /^v1$/, template: ['template'] }],
  ['ReplicationController', { group: /^v1$/, template: ['spec', 'template'] }],
  ['Deployment', { group: /^(apps|extensions)\//, template: ['spec', 'template'] }],
  ['StatefulSet', { group: /^apps\//, template: ['spec', 'template'] }],
  ['DaemonSet', { group: /^(apps|extensions)\//, template: ['spec', 'template'] }],
  ['ReplicaSet', { group: /^(apps|extensions)\//, template: ['spec', 'template'] }],
  ['Job', { group: /^batch\//, template: ['spec', 'template'] }],
  ['CronJob', { group: /^batch\//, template: ['spec', 'jobTemplate', 'spec', 'template'] }],
]);

/** Every pod of one document, those in the items of Lists too. Other kinds are none of ours. */
export function podTemplates(value: unknown): {
  readonly templates: readonly PodTemplate[];
  readonly unknown: readonly UnknownWorkload[];
} {
  const templates: PodTemplate[] = [];
  const unknown: UnknownWorkload[] = [];
  const visit = (object: unknown, path: YamlPath): void => {
    const kind = valueAt(object, ['kind']);
    if (typeof kind !== 'string') return;
    const items = listedItems(object);
    if (items !== null) {
      for (const [index, item] of items.entries()) visit(item, [...path, 'items', index]);
      return;
    }
    const known = kinds.get(kind);
    const pod = known === undefined ? undefined : valueAt(object, known.template);
    if (known?.group.test(String(valueAt(object, ['apiVersion'])))) {
      if (typeof pod !== 'object' || pod === null) return;
      const name = valueAt(object, ['metadata', 'name']) ?? valueAt(object, ['metadata', 'generateName']);
      const namespace = valueAt(object, ['metadata', 'namespace']);
      templates.push({
        path: [...path, ...known.template],
        workload: {
          kind,
          namespace: typeof namespace === 'string' ? namespace : null,
          name: typeof name === 'string' ? name : '',
        },
        workloadPath: path,
        pod: pod as PodValue,
      });
    } else if (holdsContainers(object)) {
      unknown.push({ path, kind });
    }
  };
  visit(value, []);
  return { templates, unknown };
}

/** Whether a pod may be described in it, at any depth. An object that aliases repeat is looked at once. */
function holdsContainers(root: unknown): boolean {
  const seen = new Set<unknown>();
  const open: unknown[] = [root];
  while (open.length > 0) {
    const value = open.pop();
    if (typeof value !== 'object' || value === null || seen.has(value)) continue;
    seen.add(value);
    if (Array.isArray(valueAt(value, ['spec', 'containers']))) return true;
    for (const each of Object.values(value)) open.push(each);
  }
  return false;
}

/** All containers of a pod, with the way to each. */
export function containersOf(spec: PodSpecValue | null | undefined): { own: ContainerValue; at: YamlPath }[] {
  return (['initContainers', 'containers'] as const).flatMap((list) =>
    (spec?.[list] ?? []).map((own, index) => ({ own, at: ['spec', list, index] })),
  );
}

/** As Kubernetes reads it: nothing and an empty text are the namespace's `default`. */
export function serviceAccountOf(spec: PodSpecValue | null | undefined): string {
  const stated = [spec?.serviceAccountName, spec?.serviceAccount].find((name) => (name ?? '') !== '');
  return String(stated ?? 'default');
}
