import * as z from 'zod';
import { type FieldPath, valueAt } from '../policy/field-path.ts';
import type { PodTemplate } from './pod-template.ts';
import type { Removal } from './yaml-changes.ts';

/** The mark: the version of Sallyport that was put into the pod. PodMonitor selects by it. */
export const injectedAnnotation = 'sallyport.dev/injected';
/** What was added, as JSON: enough for any other version to take it out again. */
export const recordAnnotation = 'sallyport.dev/record';
/** `disabled` on a pod template or a Namespace: leave it as it is; `enabled` on the one against the other. */
export const injectAnnotation = 'sallyport.dev/inject';

/** The places of a pod template to which something is added, by their paths in it. */
export const places = {
  metadata: ['metadata'],
  annotations: ['metadata', 'annotations'],
  initContainers: ['spec', 'initContainers'],
  volumes: ['spec', 'volumes'],
  imagePullSecrets: ['spec', 'imagePullSecrets'],
} as const satisfies Record<string, FieldPath>;
export type PlaceName = keyof typeof places;

/** Those that are lists, in the order in which something is added to them. */
export const lists = ['initContainers', 'volumes', 'imagePullSecrets'] as const satisfies readonly PlaceName[];
export type ListName = (typeof lists)[number];

const placeName = z.enum(['metadata', 'annotations', ...lists]);
const recordShape = z.looseObject({
  annotations: z.array(z.string()),
  initContainers: z.array(z.string()),
  volumes: z.array(z.string()),
  /** Earlier versions know no such list. */
  imagePullSecrets: z.array(z.string()).optional(),
  /** Places that were not there before. */
  created: z.array(placeName),
  /** How places that held nothing were written: null, `{}` or `[]`, with the spaces before it. */
  replaced: z.partialRecord(placeName, z.string().regex(/^\s*(null|Null|NULL|~|\{\s*\}|\[\s*\])$/)),
});

/** The names of what an injection added, and what was there before. */
export interface InjectRecord {
  readonly annotations: readonly string[];
  readonly initContainers: readonly string[];
  readonly volumes: readonly string[];
  readonly imagePullSecrets?: readonly string[];
  readonly created: readonly PlaceName[];
  readonly replaced: Readonly<Partial<Record<PlaceName, string>>>;
}

/** Null where the pod was never injected; `fault` where it says that it was, but not readably. */
export function readRecord(pod: PodTemplate['pod']): { record: InjectRecord | null; fault: string | null } {
  const text = valueAt(pod, [...places.annotations, recordAnnotation]);
  if (text === undefined) return { record: null, fault: null };
  try {
    const parsed = recordShape.safeParse(JSON.parse(String(text)));
    if (parsed.success) return { record: parsed.data as InjectRecord, fault: null };
    const [issue] = parsed.error.issues;
    return { record: null, fault: `${issue?.path.join('.')}: ${issue?.message}` };
  } catch {
    return { record: null, fault: 'it is not JSON' };
  }
}

/**
 * What takes an injection out of a pod again, found by the record alone. What others have added since to the same
 * lists stays, and with it the lists; what others have already taken out is not missed.
 */
export function removals({ path, pod }: PodTemplate, record: InjectRecord): readonly Removal[] {
  const created = new Set<PlaceName>(record.created);
  const found: Removal[] = [];
  const drop = (place: PlaceName): void => {
    const at = [...path, ...places[place]];
    found.push({ kind: 'remove', path: at.slice(0, -1), keys: [String(at.at(-1))] });
  };
  for (const list of lists) {
    const items = valueAt(pod, places[list]);
    if (!Array.isArray(items)) continue;
    const ours = items.flatMap((item, index) =>
      (record[list] ?? []).includes(valueAt(item, ['name']) as string) ? [index] : [],
    );
    if (ours.length === 0) continue;
    if (ours.length < items.length || !created.has(list)) {
      const restore = ours.length === items.length ? record.replaced[list] : undefined;
      found.push({ kind: 'remove', path: [...path, ...places[list]], indices: ours, restore });
    } else drop(list);
  }
  const annotations = Object.keys((valueAt(pod, places.annotations) as object | null) ?? {});
  const ours = annotations.filter((name) => record.annotations.includes(name));
  const metadata = Object.keys((valueAt(pod, places.metadata) as object | null) ?? {});
  if (ours.length < annotations.length || !created.has('annotations')) {
    const restore = ours.length === annotations.length ? record.replaced.annotations : undefined;
    found.push({ kind: 'remove', path: [...path, ...places.annotations], keys: ours, restore });
  } else if (metadata.length === 1 && created.has('metadata')) drop('metadata');
  else if (metadata.length === 1 && record.replaced.metadata !== undefined) {
    const restore = record.replaced.metadata;
    found.push({ kind: 'remove', path: [...path, ...places.metadata], keys: ['annotations'], restore });
  } else drop('annotations');
  return found;
}
