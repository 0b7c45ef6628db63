import type { Problem } from '../../problem.ts';
import type { Path } from './report.ts';
import { type DocumentMeta, type PolicyDocument, resourceOf } from './types.ts';

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

/** The codes of `code: reason; code: reason`. */
export function codesAllowed({ allowed = '' }: Pick<DocumentMeta, 'allowed'>): readonly string[] {
  const codes = allowed.split(/[;\n]/).map((entry) => entry.split(':', 1)[0]?.trim() ?? '');
  return [...new Set(codes.filter((code) => code !== ''))];
}

/** Everything that was found, in two parts. */
export interface Judged {
  /** What is to be said. */
  readonly problems: readonly Problem[];
  /** Warnings that their own documents allow. */
  readonly allowed: readonly Problem[];
}

/**
 * The two parts of what was found. Whatever finds problems of documents gives them away through here, so that each command and
 * the running proxy are silent about the same ones. Errors are never allowed, nor what is about no document.
 */
export function judged(documents: readonly PolicyDocument[], problems: readonly Problem[]): Judged {
  if (documents.every(({ allowed }) => allowed === undefined)) return { problems, allowed: [] };
  const codesOf = new Map<string, readonly string[]>();
  for (const document of documents) {
    const key = documentOf(resourceOf(document), document.file);
    const codes = codesAllowed(document);
    // Two kinds of two groups may have one name: what is said of one of them must be allowed by both.
    codesOf.set(key, codesOf.get(key)?.filter((code) => codes.includes(code)) ?? codes);
  }
  const isAllowed = ({ severity, code, resource, file }: Problem): boolean =>
    severity === 'warning' && resource !== null && (codesOf.get(documentOf(resource, file))?.includes(code) ?? false);
  const parts = Map.groupBy(problems, isAllowed);
  return { problems: parts.get(false) ?? [], allowed: parts.get(true) ?? [] };
}

/** Equal for problems of one document. */
export function documentOf({ kind, namespace, name }: NonNullable<Problem['resource']>, file: string): string {
  return `${kind} ${namespace}/${name} ${file}`;
}
