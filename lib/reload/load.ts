import { createHash } from 'node:crypto';
import { resolve } from 'node:path';
import type { PolicyDocument } from '../policy/document-types.ts';
import { readDocuments, type SourceDocument } from '../policy/documents.ts';
import type { Problem } from '../problem.ts';
import { readYaml } from '../yaml.ts';
import { readClusterListing } from './cluster-listing.ts';
import { readPolicyFiles } from './policy-files.ts';

/** What the files under some paths say: one set of documents, however many files hold it. */
export interface PolicyLoad {
  readonly documents: readonly PolicyDocument[];
  readonly problems: readonly Problem[];
  /** A file could not be read or is not YAML: which documents are missing is unknown, so the set is not to be used. */
  readonly broken: boolean;
  /** Equal for equal contents; what keeps an unchanged policy from being swapped for itself. */
  readonly digest: string;
}

export interface LoadRequest {
  readonly paths: readonly string[];
  /** For documents that name none. */
  readonly namespace: string;
}

/** Reads, parses and validates. Synchronous: for commands, and for the worker thread of the running proxy. */
export function loadPolicy(request: LoadRequest, knownDigest?: string): PolicyLoad | 'unchanged' {
  const read = request.paths.map(readPolicyFiles);
  const problems = read.flatMap((each) => each.problems);
  // A folder and a file in it name that file twice; it is still one.
  const texts = [...new Map(read.flatMap((each) => each.texts).map((text) => [resolve(text.file), text])).values()];
  const hash = createHash('sha256');
  for (const part of [
    request.namespace,
    ...texts.flatMap(({ file, text }) => [file, text]),
    JSON.stringify(problems),
  ]) {
    // The length keeps two files from hashing like one that holds both their texts.
    hash.update(`${part.length}\n`).update(part);
  }
  const digest = hash.digest('base64url');
  if (digest === knownDigest) return 'unchanged';

  const sources: SourceDocument[] = [];
  for (const { file, text } of texts) {
    const yaml = readClusterListing(text, file) ?? readYaml(text, file);
    problems.push(...yaml.problems);
    sources.push(...yaml.documents);
  }
  const broken = problems.some((problem) => problem.severity === 'error');
  const validated = readDocuments(sources, { namespace: request.namespace });
  return { documents: validated.documents, problems: [...problems, ...validated.problems], broken, digest };
}

/** As `loadPolicy`, where there is nothing to compare with. */
export function loadPolicyNow(request: LoadRequest): PolicyLoad {
  const load = loadPolicy(request);
  if (load === 'unchanged') throw new Error('unreachable: nothing was given to compare with');
  return load;
}
