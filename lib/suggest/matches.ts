import { token } from '../http-message.ts';
import { push } from '../policy/lists.ts';
import { oneLine } from '../printable.ts';
import {
  type ClientUse,
  callerKey,
  type EvidenceKind,
  type Group,
  groupText,
  note,
  type Seen,
  type Variant,
} from './evidence.ts';
import { anySegment, classOf, isPlain, longestPath, type PathForm, type PathPart, segmentsOf } from './paths.ts';

/** Requests that a suggested route takes. */
export interface Match {
  readonly carried: Exclude<EvidenceKind, 'bytes'>;
  readonly method: string;
  readonly form: PathForm;
  /** What else it asks for, where that tells it from what was refused; null where it does not. */
  readonly variant: Variant | null;
  /** Why it is wider than what was seen; null where it is not. */
  readonly why: string | null;
  readonly seen: Seen;
  /** By caller, what each has done here. */
  readonly callers: ReadonlyMap<string, ClientUse>;
  /** What to write path by path if this is too wide. */
  readonly groups: ReadonlySet<string>;
}

/** What is to be narrower than the rules would have it. */
export interface Constraints {
  /** Groups that are written path by path; `all`: every one. */
  readonly exactPaths: ReadonlySet<string> | 'all';
  readonly exactNetworks: boolean;
  /** Groups in which host names and headers tell what was allowed from what was not. */
  readonly telling: ReadonlySet<string>;
  /** Methods and paths that a match of their own does not let in, since servers read them as others. */
  readonly misread: ReadonlySet<string>;
}

export interface Unwritten {
  readonly what: string;
  readonly why: string;
  readonly seen: Seen;
}

/** So many names in one place, of no class, make the place any name. */
export const namesRule = 16;

/** As the Gateway API names them; others no route can ask for. */
const methods = new Set(['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'CONNECT', 'OPTIONS', 'TRACE', 'PATCH']);
const callPath = /^\/((?:\.?[A-Za-z_]\w*)(?:\.[A-Za-z_]\w*)*)\/([A-Za-z_]\w*)$/;
/** Why no route can ask for it; null where one can. */
function unwritable(method: string, path: string, call: boolean): string | null {
  if (call) return callPath.test(path) && method === 'POST' ? null : 'it is no gRPC call that a GRPCRoute can name';
  if (!methods.has(method)) return 'no HTTPRoute can name its method';
  if (!path.startsWith('/')) return 'it has no path, and only a route for everything would take it';
  if (path.length > longestPath) return 'its path is longer than an HTTPRoute may name';
  if (/[^\x21-\x7e]/.test(path) || path.includes('#')) return 'its path holds characters that no HTTPRoute should name';
  return null;
}

const hostName = /^[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*$/;
const longestName = 256;
const fieldValue = /^[\x21-\x7e](?:[\x20-\x7e]{0,4094}[\x21-\x7e])?$/;
const mostFields = 16;

/** Why no route can ask for its host and fields; null where one can. A name that begins with `*.` would be many hosts. */
function unwritableVariant({ host, headers }: Variant): string | null {
  if (host !== '' && !hostName.test(host)) return 'its host is no name that a route can have';
  const odd = headers.find(
    ([name, value]) => !token.test(name) || name.length > longestName || !fieldValue.test(value),
  );
  if (odd !== undefined) return `no route can ask for what is in its header ${oneLine(odd[0])}`;
  if (headers.length > mostFields || new Set(headers.map(([name]) => name)).size < headers.length)
    return 'no route can ask for so many headers, or for one twice';
  return null;
}

/** Nothing is written that would never match. */
const misread =
  'servers may read its path as another, which nothing here lets in: a match of it alone would let in nothing';

const tooMany = 'there are too many of them to tell each from what was refused';

export function matchesOf(group: Group, call: boolean, constraints: Constraints, unwritten: Unwritten[]): Match[] {
  const carried = call ? 'grpc' : 'http';
  const written: [string, Map<string, ClientUse>][] = [];
  for (const [path, callers] of group.paths) {
    const isMisread = constraints.misread.has(`${group.method} ${path}`);
    const why = unwritable(group.method, path, call) ?? (isMisread ? misread : null);
    if (why === null) written.push([path, callers]);
    else unwritten.push({ what: `${group.method} ${path}`, why, seen: total(callers.values()) });
  }
  const groups = new Set([group.key]);
  const exactly = (path: string, variant: Variant | null, uses: Iterable<ClientUse>): Match => {
    const callers = byCaller(uses);
    const form: PathForm = { kind: 'exact', path };
    return { carried, method: group.method, form, variant, why: null, seen: total(callers.values()), callers, groups };
  };
  if (constraints.telling.has(group.key)) {
    if (group.others !== null)
      unwritten.push({
        what: `${groupText(group)}, beyond ${group.paths.size} of them`,
        why: tooMany,
        seen: group.others,
      });
    return written.flatMap(([path, uses]) =>
      byVariant(uses.values()).flatMap((alike) => {
        const { variant } = alike[0] as ClientUse;
        const why = unwritableVariant(variant);
        if (why === null) return [exactly(path, variant, alike)];
        unwritten.push({ what: `${group.method} ${path}`, why, seen: total(alike) });
        return [];
      }),
    );
  }
  const exact = constraints.exactPaths === 'all' || constraints.exactPaths.has(group.key);
  const [first] = written;
  if (call || first === undefined || (exact && group.others === null) || !isPlain(first[0])) {
    return written.map(([path, uses]) => exactly(path, null, uses.values()));
  }
  const parts = segmentsOf(first[0]).map((segment, at): PathPart => {
    const found = classOf(segment);
    const varies = (group.values[at]?.size ?? 0) > 1;
    return found !== null && varies ? { kind: 'class', of: found } : { kind: 'text', text: segment };
  });
  if (parts.every(({ kind }) => kind === 'text'))
    return written.map(([path, uses]) => exactly(path, null, uses.values()));
  const callers = byCaller(written.flatMap(([, uses]) => [...uses.values()]));
  const why = parts
    .flatMap((part, at) => (part.kind === 'class' ? [`${numberOf(group, at)} values of ${part.of.says}`] : []))
    .join(', ');
  const form: PathForm = { kind: 'parts', parts };
  return [{ carried, method: group.method, form, variant: null, why, seen: total(callers.values()), callers, groups }];
}

function numberOf(group: Group, at: number): string {
  return group.others !== null ? `${group.values[at]?.size ?? 0} or more` : String(group.values[at]?.size ?? 0);
}

/** Names of no class: where very many stand in one place, for the same clients, the place is any name. */
export function joined(matches: readonly Match[], constraints: Constraints): Match[] {
  if (constraints.exactPaths === 'all') return [...matches];
  const { exactPaths } = constraints;
  const fixed: Match[] = [];
  let left: Joinable[] = [];
  for (const match of matches) {
    const isFixed =
      match.carried !== 'http' ||
      match.variant !== null ||
      !isPlainForm(match) ||
      [...match.groups].some((key) => exactPaths.has(key));
    if (isFixed) fixed.push(match);
    else left.push(joinable(match));
  }
  const deepest = left.reduce((most, { parts }) => Math.max(most, parts.length), 0);
  for (let at = deepest - 1; at >= 0; at--) {
    const alike = new Map<string, Joinable[]>();
    for (const each of left) {
      const part = each.parts[at];
      if (part?.kind !== 'text' || !anySegment.test.test(part.text)) continue;
      const others = each.texts.toSpliced(at, 1, '*').join('/');
      push(alike, `${each.match.method} ${others} ${each.clients}`, each);
    }
    const gone = new Set<Joinable>();
    const wider: Joinable[] = [];
    for (const together of alike.values()) {
      if (together.length < namesRule) continue;
      for (const each of together) gone.add(each);
      const matches = together.map(({ match }) => match);
      wider.push(joinable(wide(matches, at)));
    }
    if (gone.size > 0) left = [...left.filter((each) => !gone.has(each)), ...wider];
  }
  return [...fixed, ...left.map(({ match }) => match)];
}

/** With what is asked of it for each of its segments. */
interface Joinable {
  readonly match: Match;
  readonly parts: readonly PathPart[];
  /** No text of a plain path holds a brace, a slash or a blank. */
  readonly texts: readonly string[];
  readonly clients: string;
}

function joinable(match: Match): Joinable {
  const parts = partsOf(match);
  const texts = parts.map((part) => (part.kind === 'text' ? part.text : `{${part.of.name}}`));
  return { match, parts, texts, clients: clientsKey(match) };
}

function isPlainForm({ form }: Match): boolean {
  return form.kind === 'parts' || (isPlain(form.path) && !form.path.endsWith('/'));
}

function partsOf({ form }: Match): readonly PathPart[] {
  return form.kind === 'parts' ? form.parts : segmentsOf(form.path).map((text) => ({ kind: 'text', text }));
}

function wide(matches: readonly Match[], at: number): Match {
  const [first] = matches as [Match];
  const parts = partsOf(first).map((part, i): PathPart => (i === at ? { kind: 'class', of: anySegment } : part));
  const callers = byCaller(matches.flatMap(({ callers: each }) => [...each.values()]));
  const why = [`${matches.length} names in one place`, ...(first.why === null ? [] : [first.why])].join(', ');
  return {
    carried: first.carried,
    method: first.method,
    form: { kind: 'parts', parts },
    variant: null,
    why,
    seen: total(callers.values()),
    callers,
    groups: new Set(matches.flatMap(({ groups }) => [...groups])),
  };
}

/** Each caller once, with all that it has done. */
export function byCaller(uses: Iterable<ClientUse>): Map<string, ClientUse> {
  const callers = new Map<string, ClientUse>();
  for (const use of uses) {
    const key = callerKey(use.caller);
    const known = callers.get(key);
    if (known === undefined) {
      callers.set(key, { ...use, addresses: new Set(use.addresses) });
      continue;
    }
    note(known, use);
    for (const address of use.addresses) known.addresses.add(address);
  }
  return callers;
}

function byVariant(uses: Iterable<ClientUse>): ClientUse[][] {
  const variants = new Map<string, ClientUse[]>();
  for (const use of uses) push(variants, JSON.stringify(use.variant), use);
  return [...variants.values()];
}

function total(uses: Iterable<ClientUse>): Seen {
  const seen: Seen = { count: 0, first: null, last: null };
  for (const use of uses) note(seen, use);
  return seen;
}

/** Its clients; and, where these tell, its host, which a route has for all of its matches, and where each comes from. */
export function clientsKey({ callers, variant }: Match): string {
  const keys = [...callers.keys()].sort();
  if (variant === null) return JSON.stringify(keys);
  const addresses = keys.map((key) => [...(callers.get(key)?.addresses ?? [])].sort());
  return JSON.stringify([variant.host, keys, addresses]);
}
