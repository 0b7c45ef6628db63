import type { z } from 'zod';
import type { Problem } from '../problem.ts';
import { AdmissionReport, type Path, pathText } from './admission-report.ts';
import { type DocumentKind, documentKinds } from './document-kinds.ts';
import {
  type ClusterDocument,
  type DocumentMeta,
  groupOf,
  isClusterDocument,
  linkerdGroup,
  locate,
  type Mark,
  type PolicyDocument,
  resourceOf,
} from './document-types.ts';
import { didYouMean } from './nearest.ts';
import { fieldsAt } from './shape-fields.ts';
import { metadataShape, unattachedRouteShape } from './shapes.ts';

export type { PolicyDocument } from './document-types.ts';

/** One decoded YAML document and the way back to its text. */
export interface SourceDocument {
  readonly value: unknown;
  readonly file: string;
  /** Where a field stands in the file; the nearest known ancestor where the field is absent. */
  position(path: readonly (string | number)[]): { readonly line: number; readonly column: number };
}

export interface DocumentsRead {
  /** Valid, defaulted, unique by kind, namespace and name; plain data. */
  readonly documents: readonly PolicyDocument[];
  readonly problems: readonly Problem[];
}

/**
 * Decoded YAML to policy documents: `List`s unwrapped, defaults applied as the API server would, and refused what it or
 * Linkerd's admission would refuse. A refused document has no effect and yields an error (a NetworkPolicy closes instead,
 * since without effect it would open); other kinds are ignored.
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
  for (const source of sources) {
    for (const item of unwrap(source)) {
      const document = readOne(item, namespace, problems);
      if (document === undefined) continue;
      const key = [groupOf(document), document.kind, document.namespace, document.name].join('/');
      const earlier = byKey.get(key);
      if (earlier !== undefined) {
        if (isClusterDocument(document)) listedTwice.push(document);
        else problems.push(duplicate(document, earlier));
      }
      byKey.delete(key);
      byKey.set(key, document);
    }
  }
  const [first] = listedTwice;
  if (first !== undefined) problems.push(duplicateListing(first, listedTwice.length));
  return { documents: [...byKey.values()], problems };
}

interface Item {
  readonly source: SourceDocument;
  /** From the top of the YAML document to this item of a list. */
  readonly prefix: Path;
  readonly value: unknown;
}

/** The items of a `List` (`ServerList`, … included), at any depth; anything else is itself. */
function* unwrap(source: SourceDocument, prefix: Path = [], value: unknown = source.value): Generator<Item> {
  if (isObject(value) && listedKind(value) !== null && Array.isArray(value.items)) {
    for (const [i, item] of value.items.entries()) {
      yield* unwrap(source, [...prefix, 'items', i], typedItem(item, value));
    }
    return;
  }
  // An empty document is what a trailing `---` leaves.
  if (value !== null && value !== undefined) yield { source, prefix, value };
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

function readOne(
  { source, prefix, value }: Item,
  defaultNamespace: string,
  problems: Problem[],
): PolicyDocument | undefined {
  const place = (path: Path) => ({ file: source.file, ...source.position([...prefix, ...path]) });
  const anonymous = new AdmissionReport(null, place);
  if (!isObject(value) || typeof value.apiVersion !== 'string' || typeof value.kind !== 'string') {
    anonymous.refuse(
      'not-a-document',
      [],
      'a policy document needs apiVersion and kind',
      'Write it as for kubectl apply.',
    );
    problems.push(...anonymous.problems);
    return undefined;
  }
  const listed = listedKind(value);
  const ofList = documentKinds.find(
    ({ group, kind }) => kind === listed && group === groupIn(value.apiVersion as string),
  );
  if (listed === '' || ofList !== undefined) {
    anonymous.refuse('not-a-list', ['items'], `items of a ${value.kind} must be a list`, 'Write items: [] for none.');
    problems.push(...anonymous.problems);
    // Whatever it listed might have refused something.
    const namespace = ofList?.clusterScoped === true ? '' : defaultNamespace;
    const meta = { namespace, name: '', labels: [], createdMs: null, file: source.file, marks: marksOf([], place) };
    return ofList?.standIn?.(meta);
  }
  const kind = findKind(value.apiVersion, value.kind, anonymous);
  if (kind === undefined) {
    problems.push(...anonymous.problems);
    return undefined;
  }
  const { type, version } = kind;
  const scope = type.clusterScoped === true ? '' : defaultNamespace;
  const refused = (report: AdmissionReport, name: string, namespace: string): PolicyDocument | undefined => {
    problems.push(...report.problems);
    const marks = marksOf([], place);
    return type.standIn?.({ namespace, name, labels: [], createdMs: null, file: source.file, marks });
  };
  const raw = isObject(value.metadata) ? value.metadata : {};
  const rawName = typeof raw.name === 'string' ? raw.name : '';
  const rawNamespace = typeof raw.namespace === 'string' ? raw.namespace : scope;
  if (version === null) return refused(anonymous, rawName, rawNamespace);
  const metadata = metadataShape.safeParse(withoutNulls(value.metadata ?? {}));
  if (!metadata.success) {
    const report = new AdmissionReport({ kind: type.kind, namespace: rawNamespace, name: rawName }, place);
    report.issues(metadata.error.issues, ['metadata'], 'refuse');
    return refused(report, rawName, rawNamespace);
  }
  const { name, labels = [], creationTimestamp = null } = metadata.data;
  const namespace = type.clusterScoped === true ? '' : (metadata.data.namespace ?? scope);
  const report = new AdmissionReport({ kind: type.kind, namespace, name }, place);
  const meta = { namespace, name, labels, createdMs: creationTimestamp, file: source.file };
  const document = readSpec(value, { type, version }, meta, report, place);
  if (report.refused) return refused(report, name, namespace);
  problems.push(...report.problems);
  return document;
}

const topLevelFields = ['apiVersion', 'kind', 'metadata', 'spec', 'status'];

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
  const spec = withoutNulls(value.spec);
  if (type.concerns !== undefined && !type.concerns(spec)) {
    // Linkerd's own routes are known whole; the Gateway API's may hold what is unknown here and concerns others.
    const known = type.group === linkerdGroup ? shape : unattachedRouteShape;
    const faults = (known.safeParse(spec ?? {}).error?.issues ?? []).filter(({ code }) => code !== 'unrecognized_keys');
    report.issues(faults, ['spec'], 'refuse');
    if (report.refused) return undefined;
    warnOfMissingKind(spec, report);
    const context = { report, meta: { ...meta, marks: marksOf([], place) }, sealed: [], status: undefined };
    return type.admit(shape.parse({}), version, context);
  }
  const sealed: Path[] = [];
  let result = shape.safeParse(spec);
  if (!result.success) {
    const unknown = result.error.issues.filter((issue) => issue.code === 'unrecognized_keys');
    for (const issue of unknown) {
      dropUnknown(issue.path as Path, issue.keys, { type, shape, spec, namespace: meta.namespace, report, sealed });
    }
    if (unknown.length > 0) result = shape.safeParse(spec);
  }
  if (!result.success) {
    report.issues(result.error.issues, ['spec'], 'refuse');
    return undefined;
  }
  if (report.refused) return undefined;
  const marks = marksOf(type.marks(result.data), place);
  const status = withoutNulls(value.status);
  return type.admit(result.data, version, { report, meta: { ...meta, marks }, sealed, status });
}

function marksOf(paths: readonly Path[], place: (path: Path) => { line: number; column: number }): Mark[] {
  return [[], ['metadata', 'name'], ['spec'], ...paths].map((path): Mark => {
    const { line, column } = place(path);
    return [path.join('.'), line, column];
  });
}

function warnOfMissingKind(spec: unknown, report: AdmissionReport): void {
  const parents = isObject(spec) && Array.isArray(spec.parentRefs) ? spec.parentRefs : [];
  parents.forEach((ref: unknown, i) => {
    if (isObject(ref) && ref.kind === undefined) {
      report.warn(
        'parent-kind',
        ['spec', 'parentRefs', i],
        'a parentRef without kind means a Gateway, so the route is no inbound policy',
        'Write group: policy.linkerd.io and kind: Server.',
      );
    }
  });
}

/** Empty for the core group. */
function groupIn(apiVersion: string): string {
  return apiVersion.slice(0, Math.max(0, apiVersion.indexOf('/')));
}

/** Undefined for what is no policy, with a note; the version is null, with an error, where the kind has no such one. */
function findKind(
  apiVersion: string,
  kind: string,
  report: AdmissionReport,
): { type: DocumentKind; version: string | null } | undefined {
  const group = groupIn(apiVersion);
  const version = apiVersion.slice(apiVersion.indexOf('/') + 1);
  const type = documentKinds.find((known) => known.group === group && known.kind === kind);
  if (type !== undefined) {
    if (Object.hasOwn(type.shapes, version)) return { type, version };
    const versions = Object.keys(type.shapes);
    report.refuse(
      'unknown-version',
      ['apiVersion'],
      `${kind} has no version ${version} in ${group}`,
      `Known: ${versions.join(', ')}.`,
    );
    return { type, version: null };
  }
  const sameKind = documentKinds.find((known) => known.kind === kind);
  const hint =
    sameKind !== undefined
      ? `${kind} is in ${sameKind.group}.`
      : documentKinds.some((known) => known.group === group)
        ? didYouMean(
            kind,
            documentKinds.filter((known) => known.group === group).map((known) => known.kind),
          )
        : '';
  report.warn('ignored-kind', ['kind'], `${apiVersion} ${kind} is no policy and is ignored`, hint);
  return undefined;
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
    switch (type.unknownField(path, key, holder[key], namespace)) {
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

/**
 * A copy without fields that are null, which the API server treats as absent. A label with no value stays: dropping it
 * would widen its selector, so the shape refuses it. Null prototypes, so that no key of a document is special.
 */
function withoutNulls(value: unknown, keep = false): unknown {
  if (Array.isArray(value)) return value.map((item) => withoutNulls(item));
  if (!isObject(value) || value instanceof Date) return value ?? undefined;
  const copy: Record<string, unknown> = Object.create(null);
  for (const [key, field] of Object.entries(value)) {
    if (field === null && !keep) continue;
    copy[key] = field === null ? null : withoutNulls(field, key === 'matchLabels' || key === 'labels');
  }
  return copy;
}

function duplicate(later: PolicyDocument, earlier: PolicyDocument): Problem {
  const first = locate(earlier);
  return {
    severity: 'warning',
    code: 'duplicate',
    message: `${later.kind} ${later.namespace}/${later.name} replaces the one at ${first.file}:${first.line}`,
    ...locate(later, 'metadata', 'name'),
    resource: resourceOf(later),
    hint: 'Remove one of them.',
  };
}

/** One note for all of them: a dump of the cluster that was put there twice repeats thousands. */
function duplicateListing(first: ClusterDocument, number: number): Problem {
  const more = number === 1 ? '' : `, and ${number - 1} more like it`;
  return {
    severity: 'warning',
    code: 'duplicate',
    message: `${first.kind} ${[first.namespace, first.name].join('/').replace(/^\//, '')} is listed twice${more}; the last one counts`,
    ...locate(first),
    resource: resourceOf(first),
    hint: 'Keep one listing of the cluster.',
  };
}
