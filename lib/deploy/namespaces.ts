import { listedItems, type SourceDocument } from '../policy/documents/read.ts';
import { type FieldPath, valueAt } from '../policy/field-path.ts';
import type { Problem } from '../problem.ts';
import { idleAnnotations } from './other-annotations.ts';
import { type Annotations, isLeftOut } from './settings.ts';

/** What a Namespace says for the pods in it. */
export interface NamespaceFacts {
  readonly annotations: Annotations;
  readonly labels: Readonly<Record<string, unknown>>;
}

export const unknownNamespace: NamespaceFacts = { annotations: {}, labels: {} };

/** The Namespaces in the stream, also in Lists: what Linkerd's injector would hand on to their pods. */
export function namespaceFacts(documents: readonly SourceDocument[]): {
  readonly namespaces: ReadonlyMap<string, NamespaceFacts>;
  readonly problems: readonly Problem[];
} {
  const namespaces = new Map<string, NamespaceFacts>();
  const problems: Problem[] = [];
  const visit = (source: SourceDocument, value: unknown, path: FieldPath): void => {
    for (const [index, item] of (listedItems(value) ?? []).entries()) visit(source, item, [...path, 'items', index]);
    if (valueAt(value, ['kind']) !== 'Namespace') return;
    const name = String(valueAt(value, ['metadata', 'name']));
    const annotations = mapping(valueAt(value, ['metadata', 'annotations']));
    namespaces.set(name, { annotations, labels: mapping(valueAt(value, ['metadata', 'labels'])) });
    if (isLeftOut(annotations, {}) === true) return;
    for (const idle of idleAnnotations(annotations)) {
      const place = { file: source.file, ...source.position([...path, 'metadata', 'annotations', idle.name]) };
      const { message, hint } = idle;
      const resource = { kind: 'Namespace', namespace: '', name };
      problems.push({ severity: 'warning', code: 'idle-annotation', message, hint, ...place, resource });
    }
  };
  for (const source of documents) visit(source, source.value, []);
  return { namespaces, problems };
}

function mapping(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}
