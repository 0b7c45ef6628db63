import { identityOfName } from '../identity-name.ts';
import { parseIp } from '../ip.ts';
import type { DecisionRecord, Occurrence } from '../records/record.ts';
import { classOf, isPlain, pathOf, segmentsOf, shapeOf } from './paths.ts';

/** How often something was seen, and when (RFC 3339; null where no line says it). */
export interface Seen {
  count: number;
  first: string | null;
  last: string | null;
}

/** Whom a grant can name: a client by its identity, or, where it has none, by its address; or whoever may probe the pod. */
export type Caller =
  | { readonly kind: 'probe' }
  | { readonly kind: 'identity'; readonly name: string }
  | { readonly kind: 'address'; readonly ip: string };

/** What a request was carried by, as far as a policy tells it apart. */
export type EvidenceKind = 'http' | 'grpc' | 'bytes';

/** What else of a request may tell those that were allowed from those that were not. */
export interface Variant {
  /** Without its port, in lower case; empty where there was none, or the line leaves it out. */
  readonly host: string;
  /** Fields that the policy of then looked at, and their values. */
  readonly headers: readonly (readonly [name: string, value: string])[];
}

/** One caller's use of something: when, and one record of it. */
export interface ClientUse extends Seen {
  readonly caller: Caller;
  /** Where it came from, of the first `most.addresses`. */
  readonly addresses: Set<string>;
  readonly variant: Variant;
  readonly record: DecisionRecord;
}

/** Requests of one port, method and form of path; of bytes, all that came on the port. */
export interface Group {
  readonly key: string;
  readonly port: number;
  readonly carried: EvidenceKind;
  readonly method: string;
  /** As `shapeOf` has it; empty for bytes. */
  readonly shape: string;
  /** By path, then by caller and variant. */
  readonly paths: Map<string, Map<string, ClientUse>>;
  /** Values seen in each segment, of the first `most.values`. */
  readonly values: readonly Set<string>[];
  /** Decisions on further paths than are kept: it can no longer be written out path by path. Null: there were none. */
  others: Seen | null;
}

/** As comments call it. */
export function groupText({ carried, method, shape }: Group): string {
  return carried === 'bytes' ? 'bytes' : `${method} ${shape.replace(/^= /, '')}`;
}

/**
 * Bounds of what is kept, however long the log. `chars`: of the questions that are kept, in all. Of `uses` most takes the policy
 * that is made of them, which is read to be held against the log: 100,000 are 3 MB of it, and some 900 MB of memory.
 */
const most = {
  groups: 20_000,
  paths: 64,
  values: 64,
  addresses: 64,
  uses: 100_000,
  refused: 100_000,
  chars: 128 * 1024 * 1024,
} as const;

export interface EvidenceOptions {
  /** Take what was refused for wanted, too. */
  readonly refused: boolean;
  /** Probes are let in beside routes, so that they need no document: see `Workload.probesWithRoutes`. */
  readonly probesWithRoutes: boolean;
  /** The number of a port that a line names; null where it is none of the pod's. */
  readonly portOf: (given: number | string | undefined) => number | null;
}

/** What of a log is no evidence, in decisions. */
export interface EvidenceTally {
  /** Refused, limited, redirected or invalid then. */
  refused: number;
  /** Probes of the pod, which are let in without a document. */
  implied: number;
  /** Connections on which nothing came. */
  silent: number;
  /** Lines that do not say what was decided, or not where. */
  undecided: number;
  /** Allowed, but the lines do not say what was asked for, or by whom. */
  untold: number;
  /** Beyond what is kept. */
  beyond: number;
  /** Of `refused` those beyond what is kept: whether the suggestion lets them in is not known. */
  unheld: number;
}

/** What it takes to keep a value, beside the value: characters that could be kept in its place. */
const valueChars = 32;

/** What a log says that clients have done, in bounded memory: the input of `draft`. */
export class Evidence {
  readonly groups = new Map<string, Group>();
  /** What was refused, each once: nothing that is suggested may let it in. */
  readonly refused = new Map<DecisionRecord, number>();
  readonly tally: EvidenceTally = { refused: 0, implied: 0, silent: 0, undecided: 0, untold: 0, beyond: 0, unheld: 0 };
  readonly seen: Seen = { count: 0, first: null, last: null };
  readonly #options: EvidenceOptions;
  #uses = 0;
  #chars = 0;
  /** Of `refused`: equal records of a long log are not always one object. */
  readonly #refusedKeys = new Set<string>();

  constructor(options: EvidenceOptions) {
    this.#options = options;
  }

  add(record: DecisionRecord, occurrence: Occurrence): void {
    const { count } = occurrence;
    const { question, decided } = record;
    const port = this.#options.portOf(question.port);
    if (decided === null || port === null) {
      this.tally.undecided += count;
      return;
    }
    const wanted = decided.verdict === 'permit' || (this.#options.refused && isRefusal(decided.verdict));
    if (!wanted || question.protocol === 'accept') {
      this.tally.refused += count;
      if (isRefusal(decided.verdict)) this.#refuse(record, port, count);
    } else if (question.protocol === 'connect') {
      this.tally.silent += count;
    } else if (this.#isImplied(record)) {
      this.tally.implied += count;
    } else {
      this.#take(record, port, occurrence);
    }
  }

  #refuse(record: DecisionRecord, port: number, count: number): void {
    if (this.refused.has(record)) return;
    const key = JSON.stringify([record.question, record.omits, record.parameters, record.salt]);
    if (this.#refusedKeys.has(key)) return;
    if (this.refused.size >= most.refused || !this.#hasRoom(2 * key.length)) {
      this.tally.unheld += count;
      return;
    }
    this.#refusedKeys.add(key);
    this.refused.set(record, port);
  }

  /** Takes the room, where there is that much. */
  #hasRoom(chars: number): boolean {
    if (this.#chars + chars > most.chars) return false;
    this.#chars += chars;
    return true;
  }

  #isImplied(record: DecisionRecord): boolean {
    const isHook = record.decided?.authz?.kind === 'default' && record.decided.authz.name === 'hook';
    return this.#options.probesWithRoutes && (isProbe(record) || isHook);
  }

  #take(record: DecisionRecord, port: number, occurrence: Occurrence): void {
    const caller = isProbe(record) ? ({ kind: 'probe' } as const) : callerOf(record);
    const carried = carriedOf(record);
    const path = carried === 'bytes' ? '' : pathIn(record);
    const method = carried === 'bytes' ? '' : (record.question.method ?? '');
    if (caller === null || path === null) {
      this.tally.untold += occurrence.count;
      return;
    }
    const group = this.#group(port, carried, method, path);
    const use = group === null ? null : this.#use(group, path, caller, record, occurrence);
    if (use === null) {
      this.tally.beyond += occurrence.count;
      return;
    }
    note(use, occurrence);
    note(this.seen, occurrence);
  }

  #group(port: number, carried: EvidenceKind, method: string, path: string): Group | null {
    const shape = carried === 'bytes' ? '' : shapeOf(path);
    const key = `${port} ${carried} ${method} ${shape}`;
    let group = this.groups.get(key);
    if (group === undefined) {
      if (this.groups.size >= most.groups || !this.#hasRoom(key.length)) return null;
      // Of any other path no segment stands for others.
      const values = isPlain(path) ? segmentsOf(path).map(() => new Set<string>()) : [];
      group = { key, port, carried, method, shape, paths: new Map(), values, others: null };
      this.groups.set(key, group);
    }
    if (group.values.length > 0) this.#noteValues(group, path);
    return group;
  }

  #noteValues({ values }: Group, path: string): void {
    for (const [at, segment] of segmentsOf(path).entries()) {
      const seen = values[at];
      if (seen === undefined || seen.size >= most.values || seen.has(segment) || classOf(segment) === null) continue;
      if (this.#hasRoom(segment.length + valueChars)) seen.add(segment);
    }
  }

  /** Beyond the paths that are kept, one stands for all others. */
  #use(group: Group, path: string, caller: Caller, record: DecisionRecord, occurrence: Occurrence): ClientUse | null {
    let kept = path;
    if (!group.paths.has(path) && group.paths.size >= most.paths) {
      // Only what has a form may be left out path by path: the form stands for it.
      if (!group.values.some(({ size }) => size > 1)) return null;
      group.others ??= { count: 0, first: null, last: null };
      note(group.others, occurrence);
      kept = group.paths.keys().next().value as string;
    }
    const uses = group.paths.get(kept) ?? new Map<string, ClientUse>();
    const variant = variantOf(record);
    const key = `${callerKey(caller)}\n${JSON.stringify(variant)}`;
    let use = uses.get(key);
    if (use === undefined) {
      if (this.#uses >= most.uses || !this.#hasRoom(JSON.stringify(record.question).length)) return null;
      this.#uses += 1;
      use = { caller, addresses: new Set(), variant, record, count: 0, first: null, last: null };
      group.paths.set(kept, uses.set(key, use));
    }
    const ip = parseIp(record.question.client);
    if (ip !== undefined && use.addresses.size < most.addresses) use.addresses.add(ip.text);
    return use;
  }
}

function isProbe({ decided }: DecisionRecord): boolean {
  return decided?.authz?.kind === 'default' && decided.authz.name === 'probe';
}

function isRefusal(verdict: string): boolean {
  return verdict === 'deny' || verdict === 'no-route';
}

export function note(seen: Seen, { count, first, last }: Pick<Occurrence, 'count' | 'first' | 'last'>): void {
  seen.count += count;
  if (first !== null && (seen.first === null || first < seen.first)) seen.first = first;
  if (last !== null && (seen.last === null || last > seen.last)) seen.last = last;
}

/** Null for what is no address, and for what no certificate gives as an identity: `*` would be a grant to everybody. */
function callerOf({ question: { identity, client } }: DecisionRecord): Caller | null {
  if (identity !== undefined) {
    const found = identityOfName(identity);
    return found === null ? null : { kind: 'identity', name: found.name };
  }
  const ip = parseIp(client);
  return ip === undefined ? null : { kind: 'address', ip: ip.text };
}

export function callerKey(caller: Caller): string {
  if (caller.kind === 'probe') return caller.kind;
  return caller.kind === 'identity' ? `id ${caller.name}` : `ip ${caller.ip}`;
}

function variantOf({ question: { host = '', headers = {} }, omits, salt }: DecisionRecord): Variant {
  // Hashed values are no values.
  const told = salt === null ? Object.entries(headers) : [];
  return {
    host: omits.includes('host') ? '' : host.toLowerCase().replace(/:\d+$/, ''),
    headers: told.flatMap(([name, values]) => values.map((value) => [name, value] as const)),
  };
}

function carriedOf({ question: { protocol } }: DecisionRecord): EvidenceKind {
  if (protocol === 'tcp') return 'bytes';
  return protocol === 'grpc' ? 'grpc' : 'http';
}

/** Without its query, which no suggestion looks at; null where the line leaves it out. */
function pathIn({ question: { path }, omits }: DecisionRecord): string | null {
  return path === undefined || omits.includes('path') || omits.includes('method') ? null : pathOf(path);
}
