import { listedItems } from '../policy/documents/read.ts';
import { type FieldPath, valueAt } from '../policy/field-path.ts';
import { templatePaths, type WorkloadKind } from '../policy/workload-kinds.ts';

/** A pod as some workload describes it: a Pod itself, or the template that a controller makes pods from. */
export interface PodTemplate {
  /** Leads from the document's root to what holds `metadata` and `spec`. */
  readonly path: FieldPath;
  readonly workload: { readonly kind: string; readonly namespace: string | null; readonly name: string };
  /** Where the workload itself begins. */
  readonly workloadPath: FieldPath;
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
  readonly path: FieldPath;
  readonly kind: string;
}

/**
 * Every pod of one document, those in the items of Lists too.
 *
 * @param more kinds besides those that are known (lib/policy/workload-kinds.ts).
 */
export function podTemplates(
  value: unknown,
  more: readonly WorkloadKind[] = [],
): {
  readonly templates: readonly PodTemplate[];
  readonly unknown: readonly UnknownWorkload[];
} {
  const templates: PodTemplate[] = [];
  const unknown: UnknownWorkload[] = [];
  const visit = (object: unknown, path: FieldPath): void => {
    const kind = valueAt(object, ['kind']);
    if (typeof kind !== 'string') return;
    const items = listedItems(object);
    if (items !== null) {
      for (const [index, item] of items.entries()) visit(item, [...path, 'items', index]);
      return;
    }
    const paths = templatePaths(object, more);
    const name = valueAt(object, ['metadata', 'name']) ?? valueAt(object, ['metadata', 'generateName']);
    const namespace = valueAt(object, ['metadata', 'namespace']);
    for (const template of paths ?? []) {
      templates.push({
        path: [...path, ...template],
        workload: {
          kind,
          namespace: typeof namespace === 'string' ? namespace : null,
          name: typeof name === 'string' ? name : '',
        },
        workloadPath: path,
        pod: valueAt(object, template) as PodValue,
      });
    }
    if (paths === null && holdsContainers(object)) unknown.push({ path, kind });
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
export function containersOf(spec: PodSpecValue | null | undefined): { own: ContainerValue; at: FieldPath }[] {
  return (['initContainers', 'containers'] as const).flatMap((list) =>
    (spec?.[list] ?? []).map((own, index) => ({ own, at: ['spec', list, index] })),
  );
}

/** As Kubernetes reads it: nothing and an empty text are the namespace's `default`. */
export function serviceAccountOf(spec: PodSpecValue | null | undefined): string {
  const stated = [spec?.serviceAccountName, spec?.serviceAccount].find((name) => (name ?? '') !== '');
  return String(stated ?? 'default');
}
