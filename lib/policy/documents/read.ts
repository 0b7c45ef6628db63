import type * as z from 'zod';
import type { Problem } from '../../problem.ts';
import { didYouMean } from '../nearest.ts';
import { allowedBy, allowMarks, type Judged, judged } from './allowed.ts';
import { duplicate, duplicateListing } from './duplicates.ts';
import { type DocumentKind, documentKinds } from './kinds.ts';
import { hintFor, isPolicyOfUnknownKind, nearMiss, otherFile, strayMetadata } from './near-miss.ts';
import { copied, type Holder, narrows, withoutNulls } from './nulls.ts';
import { AdmissionReport, type Path, pathText, withInput } from './report.ts';
import { fieldsAt } from './shape-fields.ts';
import { metadataShape } from './shapes.ts';
import {
  type ClusterDocument,
  type DocumentMeta,
  documentKey,
  isClusterDocument,
  keyOf,
  linkerdGroup,
  type Mark,
  type PolicyDocument,
  policyTest,
} from './types.ts';
import { judgeUnattached, topLevelFields } from './unattached-routes.ts';

export type { PolicyDocument } from './types.ts';

/** One decoded YAML document and the way back to its text. */
export interface SourceDocument {
  readonly value: unknown;
  readonly file: string;
  /** Where a field stands in the file; the nearest known ancestor where the field is absent. */
  position(path: readonly (string | number)[]): { readonly line: number; readonly column: number };
}

export interface DocumentsRead extends Judged {
  /** Valid, defaulted, unique by kind, namespace and name; plain data. */
  readonly documents: readonly PolicyDocument[];
  /** Nobody knows what one of them was meant to be, and so neither what it would have refused: the set is not to be used. */
  readonly unknown: boolean;
  /** The files that hold documents of known kinds, good or refused. */
  readonly holding: readonly string[];
}

/**
 * Decoded YAML to policy documents: `List`s unwrapped, defaults applied as the API server would, and refused what it or
 * Linkerd's admission would refuse. A refused document yields an error and grants nothing; where it might have refused
 * something had it been right, something that refuses just that stands in its place. Other kinds are ignored.
 * No input yields no documents, which authorizes nothing beyond the default policy.
 */
export function readDocuments(
  sources: readonly SourceDocument[],
  options: { readonly namespace?: string } = {},
): DocumentsRead {
  const namespace = options.namespace ?? 'default';
  const problems: Problem[] = [];
  const byKey = new Map<string, PolicyDocument>();
  const listedTwice: ClusterDocument[] = [];
  let unknown = false;
  const holding = new Set<string>();
  for (const source of sources) {
    for (const item of unwrap(source)) {
      const read = readOne(item, namespace, problems);
      if (read === 'unknown') unknown = true;
      if (typeof read === 'string') continue;
      const { key, document } = read;
      holding.add(source.file);
      const earlier = byKey.get(key);
      // What was refused takes the place of an earlier one all the same: that may have granted more.
      byKey.delete(key);
      if (document === null) continue;
      if (earlier !== undefined) {
        if (isClusterDocument(document)) listedTwice.push(document);
        else problems.push(duplicate(document, earlier));
      }
      byKey.set(key, document);
    }
  }
  const [first] = listedTwice;
  if (first !== undefined) problems.push(duplicateListing(first, listedTwice.length));
  const documents = [...byKey.values()];
  return { documents, ...judged(documents, problems), unknown, holding: [...holding] };
}

interface Item {
  readonly source: SourceDocument;
  /** From the top of the YAML document to this item of a list. */
  readonly prefix: Path;
  readonly value: unknown;
}

/** The items of a `List` (`ServerList`, … included), at any depth; anything else is itself. */
function* unwrap(source: SourceDocument, prefix: Path = [], value: unknown = source.value): Generator<Item> {
  const items = listedItems(value);
  if (items !== null) {
    for (const [i, item] of items.entries()) yield* unwrap(source, [...prefix, 'items', i], item);
    return;
  }
  // An empty document is what a trailing `---` leaves.
  if (value !== null && value !== undefined) yield { source, prefix, value };
}

/** The items of a `List` or a `ServerList`, as kubectl sends them on; null for what is no list. */
export function listedItems(value: unknown): readonly unknown[] | null {
  if (!isObject(value) || listedKind(value) === null || !Array.isArray(value.items)) return null;
  return value.items.map((item) => typedItem(item, value));
}

/** `Server` of a `ServerList`, empty of a `List`; null for what is no list. */
function listedKind({ kind }: Record<string, unknown>): string | null {
  return typeof kind === 'string' && kind.endsWith('List') ? kind.slice(0, -'List'.length) : null;
}

/** The API server leaves version and kind out of the items of a list that has both in its own. */
function typedItem(item: unknown, list: Record<string, unknown>): unknown {
  const kind = listedKind(list);
  if (kind === null || kind === '' || !isObject(item) || (item.kind ?? kind) !== kind) return item;
  return { ...item, apiVersion: item.apiVersion ?? list.apiVersion, kind };
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** `ignored`: no policy. `unknown`: it may be one, but nobody knows which. A null document has no effect. */
type ReadOne = 'ignored' | 'unknown' | { readonly key: string; readonly document: PolicyDocument | null };

function readOne({ source, prefix, value }: Item, defaultNamespace: string, problems: Problem[]): ReadOne {
  const place = (path: Path) => ({ file: source.file, ...source.position([...prefix, ...path]) });
  const anonymous = new AdmissionReport(null, place);
  if (!isObject(value) || typeof value.apiVersion !== 'string' || typeof value.kind !== 'string' || value.kind === '') {
    return readNameless(source, value, anonymous, problems);
  }
  const refusedAs = (type: DocumentKind, report: AdmissionReport, known: Partial<DocumentMeta> = {}): ReadOne => {
    problems.push(...report.problems);
    const marks = marksOf([], place);
    // As old as can be, and of the pod's own namespace, where it does not say: so it refuses most.
    const { line, column } = place([]);
    const name = `(${source.file}:${line}:${column})`;
    const scope = type.clusterScoped === true ? '' : defaultNamespace;
    const nameless = { namespace: scope, name, labels: [], createdMs: Number.MIN_SAFE_INTEGER };
    const meta = { ...nameless, ...known, file: source.file, marks };
    const document =
      type.standIn?.(copied(value.spec, staying(type, Object.values(type.shapes).at(-1))).copy, meta) ?? null;
    return { key: keyOf(type.group, type.kind, meta.namespace, meta.name), document };
  };
  const listed = listedKind(value);
  const ofList = documentKinds.find(
    ({ group, kind }) => kind === listed && group === groupIn(value.apiVersion as string),
  );
  if (listed === '' || ofList !== undefined) {
    anonymous.refuse('not-a-list', ['items'], `items of a ${value.kind} must be a list`, 'Write items: [] for none.');
    // Whatever it listed might have refused something.
    if (ofList !== undefined) return refusedAs(ofList, anonymous);
    problems.push(...anonymous.problems);
    return 'unknown';
  }
  const kind = findKind(value.apiVersion, value.kind, value, anonymous);
  if (typeof kind === 'string') {
    problems.push(...anonymous.problems);
    return kind;
  }
  const { type, version } = kind;
  const scope = type.clusterScoped === true ? '' : defaultNamespace;
  const refused = (report: AdmissionReport, known: Partial<DocumentMeta> = {}): ReadOne =>
    refusedAs(type, report, known);
  const { copy: written, dropped } = copied(value.metadata ?? {}, () => false);
  const metadata = metadataShape.safeParse(written, withInput);
  const strays = strayMetadata(value.metadata);
  if (!metadata.success || strays.some(([, meant]) => meant !== undefined)) {
    const raw = isObject(written) ? written : {};
    const parts = { namespace: raw.namespace || undefined, name: raw.name };
    const texts = Object.entries(parts).filter((entry): entry is [string, string] => typeof entry[1] === 'string');
    const { namespace = scope, name = '' } = Object.fromEntries(texts);
    const report = new AdmissionReport({ kind: type.kind, namespace, name }, place);
    report.issues(metadata.error?.issues ?? [], ['metadata'], 'refuse');
    for (const [field, meant = ''] of strays) {
      const message = `unknown field metadata.${field}: nobody knows where the document applies`;
      if (meant !== '') report.refuse('unknown-field', ['metadata', field], message, `Did you mean "${meant}"?`);
    }
    const known = (['namespace', 'name'] as const).filter(
      (field) => metadataShape.shape[field].safeParse(raw[field]).success,
    );
    return refused(report, Object.fromEntries(texts.filter(([field]) => known.includes(field as 'name'))));
  }
  const { name, labels = [], creationTimestamp = null } = metadata.data;
  const namespace = type.clusterScoped === true ? '' : metadata.data.namespace || scope;
  const meta = {
    namespace,
    name,
    labels,
    createdMs: creationTimestamp,
    file: source.file,
    ...allowedBy(value.metadata),
  };
  // Another kind was written.
  if (anonymous.refused) return refused(anonymous, meta);
  const report = new AdmissionReport({ kind: type.kind, namespace, name }, place);
  if (version === null) {
    const asked = value.apiVersion.slice(value.apiVersion.indexOf('/') + 1);
    const message = `${type.kind} has no version ${asked} in ${type.group}`;
    report.refuse('unknown-version', ['apiVersion'], message, `Known: ${Object.keys(type.shapes).join(', ')}.`);
    return refused(report, meta);
  }
  for (const [field] of strays) report.warn('unknown-field', ['metadata', field], `unknown field metadata.${field}`);
  // What tools print has a creationTimestamp without a value.
  const empty = new Set(dropped.map((path) => path.join('.')));
  if (metadata.data.namespace === '') empty.add('namespace');
  for (const field of ['namespace', 'labels']) {
    if (type.group !== '' && empty.has(field)) report.warnOfNull(['metadata', field]);
  }
  const document = readSpec(value, { type, version }, meta, report, place);
  if (report.refused || document === undefined) return refused(report, meta);
  problems.push(...report.problems);
  return { key: documentKey(document), document };
}

/** Without apiVersion and kind: another tool's, or nobody knows what. */
function readNameless({ file }: SourceDocument, value: unknown, report: AdmissionReport, problems: Problem[]): ReadOne {
  const other = otherFile(file, value);
  if (other === null) {
    report.refuse('not-a-document', [], 'a policy document needs apiVersion and kind', hintFor(value));
  } else {
    report.warn(
      'other-file',
      [],
      `this is ${other.what} and no policy: ignored, and nothing of it applied`,
      other.hint,
    );
  }
  problems.push(...report.problems);
  return other === null ? 'unknown' : 'ignored';
}

function readSpec(
  value: Record<string, unknown>,
  { type, version }: { readonly type: DocumentKind; readonly version: string },
  meta: Omit<DocumentMeta, 'marks'>,
  report: AdmissionReport,
  place: (path: Path) => { line: number; column: number },
): PolicyDocument | undefined {
  for (const field of Object.keys(value)) {
    if (!topLevelFields.includes(field)) {
      report.warn('unknown-field', [field], `unknown field ${field}`, didYouMean(field, topLevelFields));
    }
  }
  const shape = type.shapes[version] as z.ZodType;
  const { copy: spec, dropped } = copied(value.spec, staying(type, shape));
  if (type.concerns !== undefined && !type.concerns(spec)) {
    judgeUnattached(value, spec, { type, shape }, report);
    if (report.refused) return undefined;
    const marks = marksOf(allowMarks(meta), place);
    const context = { report, meta: { ...meta, marks }, sealed: [], status: undefined };
    return type.admit(shape.parse({}), version, context);
  }
  const document = admitSpec(value, spec, { type, version, shape }, meta, report, place);
  if (type.group !== '') for (const path of dropped) report.warnOfNull(['spec', ...path]);
  return document;
}

function admitSpec(
  value: Holder,
  spec: unknown,
  { type, version, shape }: { readonly type: DocumentKind; readonly version: string; readonly shape: z.ZodType },
  meta: Omit<DocumentMeta, 'marks'>,
  report: AdmissionReport,
  place: (path: Path) => { line: number; column: number },
): PolicyDocument | undefined {
  const sealed: Path[] = [];
  let result = shape.safeParse(spec, withInput);
  if (!result.success) {
    const unknown = result.error.issues.filter((issue) => issue.code === 'unrecognized_keys');
    for (const issue of unknown) {
      dropUnknown(issue.path as Path, issue.keys, { type, shape, spec, namespace: meta.namespace, report, sealed });
    }
    if (unknown.length > 0) result = shape.safeParse(spec, withInput);
  }
  if (!result.success) {
    report.issues(result.error.issues, ['spec'], 'refuse');
    return undefined;
  }
  if (report.refused) return undefined;
  const marks = marksOf([...type.marks(result.data), ...allowMarks(meta)], place);
  const status = withoutNulls(value.status);
  return type.admit(result.data, version, { report, meta: { ...meta, marks }, sealed, status });
}

/** The fields that stay null. What kubectl lists is no policy, and holds fields that are nobody's here. */
function staying(type: DocumentKind, shape: z.ZodType | undefined): (path: Path, holder: Holder) => boolean {
  const fields = type.fields ?? shape;
  return (path, holder) =>
    type.group !== '' &&
    ((narrows(path, holder) && type.mayLack?.(path) !== true) || (fields !== undefined && isUnknown(fields, path)));
}

/** Known is everything where no fields are. */
function isUnknown(shape: z.ZodType, path: Path): boolean {
  const known = fieldsAt(shape, path.slice(0, -1));
  return known.length > 0 && !known.includes(path.at(-1) as string);
}

function marksOf(paths: readonly Path[], place: (path: Path) => { line: number; column: number }): Mark[] {
  return [[], ['metadata', 'name'], ['spec'], ...paths].map((path): Mark => {
    const { line, column } = place(path);
    return [path.join('.'), line, column];
  });
}

/** Empty for the core group. */
function groupIn(apiVersion: string): string {
  return apiVersion.slice(0, Math.max(0, apiVersion.indexOf('/')));
}

/**
 * The version is null where the kind has no such one, and, with an error, where another kind was most likely meant.
 * `ignored`, with a note, for what is no policy.
 */
function findKind(
  apiVersion: string,
  kind: string,
  { spec, items }: Record<string, unknown>,
  report: AdmissionReport,
): { type: DocumentKind; version: string | null } | 'ignored' | 'unknown' {
  const group = groupIn(apiVersion);
  const version = apiVersion.slice(apiVersion.indexOf('/') + 1);
  const type = documentKinds.find((known) => known.group === group && known.kind === kind);
  if (type !== undefined) {
    return { type, version: Object.hasOwn(type.shapes, version) ? version : null };
  }
  if (group === policyTest.group && kind === policyTest.kind) return 'ignored';
  const meant = nearMiss(group, kind, documentKinds);
  if (meant !== undefined) {
    const place = meant.kind === kind ? 'apiVersion' : 'kind';
    const known = `${meant.group === '' ? '' : `${meant.group}/`}${Object.keys(meant.shapes).at(-1)}, kind: ${meant.kind}`;
    const message = `${apiVersion} ${kind} is nothing that is known, but nearly what is`;
    report.refuse('near-miss', [place], message, `Did you mean apiVersion: ${known}?`);
    const plain = withoutNulls(spec);
    const fits = Object.values(meant.shapes).some((shape) => shape.safeParse(plain).success);
    return fits ? { type: meant, version: null } : 'unknown';
  }
  if (isPolicyOfUnknownKind(group, kind, items)) {
    const known = documentKinds.filter((each) => each.group === group).map((each) => each.kind);
    const hint = group === linkerdGroup ? `Known: ${known.join(', ')}.` : 'Did you mean apiVersion: v1, kind: List?';
    report.refuse('unknown-kind', ['kind'], `nobody knows what ${apiVersion} ${kind} may refuse`, hint);
    return 'unknown';
  }
  const sameKind = documentKinds.find((known) => known.kind === kind);
  const hint = sameKind === undefined ? '' : `${kind} is in ${sameKind.group}.`;
  report.warn('ignored-kind', ['kind'], `${apiVersion} ${kind} is no policy and is ignored`, hint);
  return 'ignored';
}

/** Says what an unknown field costs, and takes it out of `spec` so that the rest can be read. */
function dropUnknown(
  path: Path,
  keys: readonly string[],
  context: {
    readonly type: DocumentKind;
    readonly shape: z.ZodType;
    readonly spec: unknown;
    readonly namespace: string;
    readonly report: AdmissionReport;
    readonly sealed: Path[];
  },
): void {
  const { type, shape, spec, namespace, report, sealed } = context;
  let holder = spec as Record<string | number, unknown>;
  for (const key of path) holder = holder[key] as Record<string | number, unknown>;
  const known = fieldsAt(shape, path);
  for (const key of keys) {
    const at: Path = ['spec', ...path, key];
    const hint = didYouMean(key, known, known.length > 0 ? `Known here: ${known.join(', ')}.` : '');
    const message = `unknown field ${pathText(at)}`;
    switch (type.unknownField(path, key, holder, namespace)) {
      case 'prune':
        report.warn('unknown-field', at, message, hint);
        break;
      case 'fault':
        report.fault('unknown-field', at, message, hint);
        break;
      case 'seal':
        report.fault('unknown-field', at, `${message}: what it belongs to refuses everything it matches`, hint);
        sealed.push(['spec', ...path]);
        break;
      case 'refuse':
        report.refuse('unknown-field', at, `${message}: without it the document might grant more than was meant`, hint);
        break;
    }
    delete holder[key];
  }
}
