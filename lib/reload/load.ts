import { createHash } from 'node:crypto';
import { resolve } from 'node:path';
import { withRemedy } from '../errors/problems.ts';
import type { Judged } from '../policy/documents/allowed.ts';
import { unknownAllowed } from '../policy/documents/allowed-in-vain.ts';
import { readDocuments, type SourceDocument } from '../policy/documents/read.ts';
import type { PolicyDocument } from '../policy/documents/types.ts';
import type { Problem } from '../problem.ts';
import { type ReadYaml, readYaml } from '../yaml.ts';
import { digestsOf } from './changes.ts';
import { readClusterListing } from './cluster-listing.ts';
import type { Look } from './look.ts';
import { atTop, type PolicyText, readPolicyFiles } from './policy-files.ts';

/** What the files under some paths say: one set of documents, however many files hold it. */
export interface PolicyLoad extends Judged {
  readonly documents: readonly PolicyDocument[];
  /**
   * A file could not be read or is not YAML, or nobody knows what a document is: which documents are missing is unknown,
   * so the set is not to be used.
   */
  readonly broken: boolean;
  /** The files as they stood when they were read; null where several paths were. */
  readonly look: Look | null;
  /** The files that hold documents. */
  readonly holding: readonly string[];
}

/** A load that the next one can be held against. */
export interface ComparableLoad extends PolicyLoad {
  /** What each document says, by its key; see `digestsOf`. */
  readonly digests: ReadonlyMap<string, string>;
  /** Equal for equal contents; what keeps an unchanged policy from being swapped for itself. */
  readonly digest: string;
}

export interface LoadRequest {
  readonly paths: readonly string[];
  /** Read already: what stood on standard input. */
  readonly texts?: readonly PolicyText[];
  /** For documents that name none. */
  readonly namespace: string;
}

const megabyte = 1024 * 1024;

/**
 * Characters that are parsed as YAML, which takes some thirty times their room, and a second for each million. Of a listing
 * of the cluster only the lines that are needed count.
 */
const mostParsed = { file: 16 * megabyte, all: 32 * megabyte };
const mostDocuments = 100_000;

/** Reads, parses and validates. Synchronous: for the worker thread of the running proxy. */
export function loadPolicy(request: LoadRequest, knownDigest?: string): ComparableLoad | 'unchanged' {
  const found = textsOf(request);
  const digest = digestOf(request, found.texts, found.problems);
  if (digest === knownDigest) return 'unchanged';
  const load = loadOf(request, found);
  return { ...load, digests: digestsOf(load.documents), digest };
}

/** The same for commands, which compare with nothing. */
export function loadPolicyNow(request: LoadRequest): PolicyLoad {
  return loadOf(request, textsOf(request));
}

interface FoundTexts extends Pick<PolicyLoad, 'problems' | 'look'> {
  readonly texts: readonly PolicyText[];
}

function textsOf(request: LoadRequest): FoundTexts {
  const read = request.paths.map((path) => readPolicyFiles(path));
  const problems = read.flatMap((each) => each.problems);
  // A folder and a file in it name that file twice; it is still one.
  const all = [...read.flatMap((each) => each.texts), ...(request.texts ?? [])];
  const texts = [...new Map(all.map((text) => [resolve(text.file), text])).values()];
  const look = read.length === 1 ? (read[0]?.look ?? null) : null;
  return { texts, problems, look };
}

function loadOf(request: LoadRequest, { texts, problems: unread, look }: FoundTexts): PolicyLoad {
  const problems = [...unread];
  const sources: SourceDocument[] = [];
  const budget = { left: mostParsed.all };
  for (const { file, text } of texts) {
    const { documents, problems: faults } = parseFile(text, file, budget);
    problems.push(...faults);
    if (sources.length + documents.length > mostDocuments) problems.push(tooMany(file));
    else for (const document of documents) sources.push(document);
  }
  const broken = problems.some((problem) => problem.severity === 'error');
  const validated = readDocuments(broken ? [] : sources, { namespace: request.namespace });
  // A file that was refused has said what it holds.
  const held = new Set([...sources, ...problems].map(({ file }) => file));
  for (const { file } of texts) if (!held.has(file)) problems.push(holdsNothing(file));
  return {
    documents: validated.documents,
    problems: [...problems, ...validated.problems, ...unknownAllowed(validated.documents)].map(withRemedy),
    allowed: validated.allowed,
    broken: broken || validated.unknown,
    look,
    holding: validated.holding,
  };
}

function digestOf(request: LoadRequest, texts: readonly PolicyText[], problems: readonly Problem[]): string {
  const hash = createHash('sha256');
  for (const part of [
    request.namespace,
    ...texts.flatMap(({ file, text }) => [file, text]),
    JSON.stringify(problems),
  ]) {
    // The length keeps two files from hashing like one that holds both their texts.
    hash.update(`${part.length}\n`).update(part);
  }
  return hash.digest('base64url');
}

function parseFile(text: string, file: string, budget: { left: number }): ReadYaml {
  const forListing = { left: budget.left };
  const listing = readClusterListing(text, file, forListing);
  if (listing !== null) {
    budget.left = forListing.left;
    return listing;
  }
  if (text.length > Math.min(mostParsed.file, budget.left)) {
    const most = `at most ${mostParsed.file / megabyte} MB a file and ${mostParsed.all / megabyte} MB in all are parsed`;
    const hint = "Write listings of the cluster by kubectl's -o yaml, of which only what is needed is parsed.";
    return {
      documents: [],
      problems: [atTop({ severity: 'error', code: 'too-large' }, file, `is too large: ${most}`, hint)],
    };
  }
  budget.left -= text.length;
  return readYaml(text, file);
}

function tooMany(file: string): Problem {
  const message = `with this file there are more than ${mostDocuments} documents`;
  return atTop({ severity: 'error', code: 'too-large' }, file, message, 'Keep only policy documents in the folder.');
}

function holdsNothing(file: string): Problem {
  const hint = 'Write its documents, or remove the file.';
  return atTop({ severity: 'warning', code: 'no-documents' }, file, 'the file holds no document', hint);
}
