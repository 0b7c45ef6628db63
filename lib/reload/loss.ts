import { documentKey, type PolicyDocument } from '../policy/documents/types.ts';
import type { Problem } from '../problem.ts';
import type { PolicyLoad } from './load.ts';
import type { Look } from './look.ts';
import { atTop } from './policy-files.ts';

/** What is in force, as far as a later load must be held against it. */
export interface InForce {
  readonly look: Look;
  /** By key, the file that holds the document. */
  readonly held: ReadonlyMap<string, string>;
}

export function inForce(look: Look, documents: readonly PolicyDocument[]): InForce {
  return { look, held: new Map(documents.map((document) => [documentKey(document), document.file])) };
}

/** What a load lacks of what is in force. */
export type Loss =
  | { readonly kind: 'none' }
  /** Files are there and hold nothing: nobody removes documents so. */
  | { readonly kind: 'emptied'; readonly problems: readonly Problem[] }
  /** `settled`: it is known to be meant (a rename over the file, a volume swapped whole). */
  | {
      readonly kind: 'removed';
      readonly documents: readonly string[];
      readonly files: readonly string[];
      readonly settled: boolean;
    };

/**
 * Holds a load against what is in force. Documents that only moved to another file are not lost; those of a file that is
 * gone are, where another file has had one of the same kind and name all along, which says something else perhaps.
 * `replaced` says of a file that another one was put in its place whole.
 */
export function lossOf(
  before: InForce,
  look: Look,
  { documents, holding }: Pick<PolicyLoad, 'documents' | 'holding'>,
  replaced: (file: string) => boolean,
): Loss {
  const kept = new Map(documents.map((document) => [documentKey(document), document.file]));
  const isAsBefore = (file: string): boolean => {
    const was = before.look.files.get(file)?.stamp;
    return was !== undefined && was === look.files.get(file)?.stamp;
  };
  const lost = [...before.held].filter(([key, file]) => {
    const holder = kept.get(key);
    return holder === undefined || (!look.files.has(file) && isAsBefore(holder));
  });
  if (lost.length === 0) return { kind: 'none' };
  const files = [...new Set(lost.map(([, file]) => file))];
  const emptied = files.filter((file) => look.files.has(file) && !holding.includes(file));
  if (emptied.length > 0) return { kind: 'emptied', problems: emptied.map(emptiedFile) };
  const swapped = look.generation !== '' && look.generation !== before.look.generation;
  const settled = swapped || files.every((file) => look.files.has(file) && replaced(file));
  return { kind: 'removed', documents: lost.map(([key]) => key), files, settled };
}

function emptiedFile(file: string): Problem {
  const hint =
    'Write its documents again, to a new file that is then renamed over it; to do without them, remove the file.';
  return atTop({ severity: 'error', code: 'emptied' }, file, 'the file held documents and holds none any more', hint);
}
