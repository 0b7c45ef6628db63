import type { Path } from './report.ts';
import type { DocumentMeta } from './types.ts';

/** Names warnings about a document that its author knows of. It stands in the cluster as well, where `kubectl` keeps it. */
export const allowAnnotation = 'sallyport.dev/allow';
export const allowPath = ['metadata', 'annotations', allowAnnotation] as const;

/** What is no text the API server would refuse; here it is a text like any other, which names nothing. */
export function allowedBy(metadata: unknown): Pick<DocumentMeta, 'allowed'> {
  const text = fieldOf(fieldOf(metadata, 'annotations'), allowAnnotation);
  if (text === undefined || text === null) return {};
  return { allowed: typeof text === 'string' ? text : JSON.stringify(text) };
}

function fieldOf(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[name] : undefined;
}

export function allowMarks({ allowed }: Pick<DocumentMeta, 'allowed'>): readonly Path[] {
  return allowed === undefined ? [] : [allowPath];
}
