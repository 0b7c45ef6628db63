import { createHash } from 'node:crypto';
import { serialize } from 'node:v8';
import { refOf } from '../policy/compile/linking.ts';
import type { GrantList } from '../policy/decide/client-match.ts';
import type { CompiledPort, PolicyIndex } from '../policy/decide/policy-index.ts';
import { documentKey, isClusterDocument, keyOf, linkerdGroup, type PolicyDocument } from '../policy/documents/types.ts';
import { type ResourceRef, refText } from '../resource-ref.ts';
import { Slices } from './slices.ts';

/** What a reload has changed, for people: names, and what they have an effect on. Long lists end in a number. */
export interface Changes {
  readonly added: readonly string[];
  readonly removed: readonly string[];
  readonly changed: readonly string[];
  /** Ports, and `connections` where NetworkPolicies are concerned; empty where nothing of this pod is. */
  readonly affects: readonly string[];
}

/** A policy in force, as far as the next one is held against it. */
export interface Compared {
  readonly documents: readonly PolicyDocument[];
  /** By key: see `digestsOf`. */
  readonly digests: ReadonlyMap<string, string>;
  readonly index: PolicyIndex;
}

type Said = readonly [index: PolicyIndex, sayings: Sayings];

const maxNames = 10;
const digestChars = 16;

/** What each document says, wherever it stands. Takes some microseconds a document: for the loading thread. */
export function digestsOf(documents: readonly PolicyDocument[]): ReadonlyMap<string, string> {
  return new Map(
    documents.map((document) => {
      const { file: _file, marks: _marks, ...said } = document;
      const digest = createHash('sha256').update(serialize(said)).digest('base64url').slice(0, digestChars);
      return [documentKey(document), digest];
    }),
  );
}

/** Null where every document says what it said before. In slices, as compiling is. */
export async function changesBetween(before: Compared, after: Compared, namespace: string): Promise<Changes | null> {
  const [old, now] = [before.digests, after.digests];
  const added = keysWhere(now, (key) => !old.has(key));
  const removed = keysWhere(old, (key) => !now.has(key));
  const changed = keysWhere(now, (key, digest) => old.has(key) && old.get(key) !== digest);
  const keys = [...added, ...removed, ...changed];
  if (keys.length === 0) return null;
  const slices = new Slices();
  const was: Said = [before.index, await sayingsOf(before, namespace, slices)];
  const is: Said = [after.index, await sayingsOf(after, namespace, slices)];
  const affects = [...isolationChange(was, is, keys), ...(await portChanges(was, is, slices))];
  return {
    added: listed(added.map(nameOf)),
    removed: listed(removed.map(nameOf)),
    changed: listed(changed.map(nameOf)),
    affects: listed(affects),
  };
}

function keysWhere(digests: ReadonlyMap<string, string>, holds: (key: string, digest: string) => boolean): string[] {
  const keys: string[] = [];
  for (const [key, digest] of digests) if (holds(key, digest)) keys.push(key);
  return keys;
}

function kindOf(key: string): string {
  return key.split('/')[1] ?? '';
}

/** `Server shop/web`, of a key. */
function nameOf(key: string): string {
  const [, kind, namespace, name] = key.split('/');
  return `${kind} ${namespace === '' ? '' : `${namespace}/`}${name}`;
}

function listed(names: readonly string[]): readonly string[] {
  if (names.length <= maxNames) return names;
  return [...names.slice(0, maxNames), `and ${names.length - maxNames} more`];
}

/** A policy that lets pods in by their labels is another one when pods come and go. */
function isolationChange([before, said]: Said, [after, says]: Said, keys: readonly string[]): readonly string[] {
  const { policies } = after.isolation;
  const moves = policies.length > 0 && keys.some((key) => kindOf(key) === 'Pod' || kindOf(key) === 'Namespace');
  if (said.ofAll(before.isolation.policies) === says.ofAll(policies) && !moves) return [];
  const names = listed(policies.map(refText)).join(', ');
  return [`connections (${names === '' ? 'no NetworkPolicy closes the pod any more' : names})`];
}

async function portChanges([before, said]: Said, [after, says]: Said, slices: Slices): Promise<readonly string[]> {
  const ports = new Set([...before.servers, ...after.servers].map(({ port }) => port));
  const affected: string[] = [];
  for (const port of [...ports].sort((a, b) => a - b)) {
    const [was, is] = [before.port(port), after.port(port)];
    if (said.of(was) !== says.of(is)) affected.push(portText(was, is));
    await slices.rest();
  }
  return affected;
}

function portText(was: CompiledPort, is: CompiledPort): string {
  const [old, now] = [refText(was.server), refText(is.server)];
  return `port ${is.port} (${now}${old === now ? '' : ` in place of ${old}`})`;
}

/** @param namespace of the pod: only its documents have an effect by themselves. */
async function sayingsOf({ documents, digests }: Compared, namespace: string, slices: Slices): Promise<Sayings> {
  const byRef = new Map<string, string>();
  for (const document of documents) {
    if (document.namespace !== namespace || isClusterDocument(document)) continue;
    const required = document.kind === 'AuthorizationPolicy' ? document.spec.required : [];
    const keys = required.map((ref) => keyOf(linkerdGroup, ref.kind, ref.namespace, ref.name));
    const said = [documentKey(document), ...keys].map((key) => digests.get(key) ?? '');
    byRef.set(refText(refOf(document)), said.join());
    await slices.rest();
  }
  return new Sayings(byRef);
}

/** All that documents say, by what is compiled of them: those included to which a document refers. */
class Sayings {
  readonly #byRef: ReadonlyMap<string, string>;
  readonly #lists = new Map<GrantList, string>();

  constructor(byRef: ReadonlyMap<string, string>) {
    this.#byRef = byRef;
  }

  of({ server, protocol, grants, routes, rateLimit }: CompiledPort): string {
    const rules = (routes?.rules ?? []).map((rule) => `${this.#ref(rule.route)} ${this.#list(rule.grants)}`);
    const limit = rateLimit === null ? '' : this.#ref(rateLimit.ref);
    return [this.#ref(server), protocol, this.#list(grants), limit, ...rules].join('\n');
  }

  ofAll(refs: readonly ResourceRef[]): string {
    return refs.map((ref) => this.#ref(ref)).join(' ');
  }

  #list(list: GrantList): string {
    let text = this.#lists.get(list);
    if (text === undefined) {
      const tail = list.tail === null ? '' : this.#list(list.tail);
      text = `${this.ofAll([...list.entries, ...list.broken].map(({ ref }) => ref))} ${tail}`;
      this.#lists.set(list, text);
    }
    return text;
  }

  #ref(ref: ResourceRef): string {
    const text = refText(ref);
    return `${text}=${this.#byRef.get(text) ?? ''}`;
  }
}
