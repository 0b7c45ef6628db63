import type { PortRange } from '../policy/workload.ts';
import { rangesText } from './addresses.ts';
import type { AskedProtocol, QuestionBlock } from './blocks.ts';
import type { TlsClass } from './callers.ts';
import type { HostClass, Leaf } from './leaves.ts';
import { type MergedTests, mergedLeaves } from './merged-leaves.ts';
import { pathsText } from './path-texts.ts';
import type { PathClass } from './paths.ts';
import { type Test, testKey } from './tests.ts';

/*
 * Blocks as text for people and programs: which clients and which requests a set holds, with as few words as say all of it.
 */

export interface ClientsText {
  /** By which they come. */
  readonly protocols: readonly AskedProtocol[];
  /** Null: anybody. */
  readonly who: readonly string[] | null;
  /** Networks; null: from anywhere. */
  readonly from: { readonly only: readonly string[] } | { readonly but: readonly string[] } | null;
}

export interface RequestsText {
  /** Null: any host. */
  readonly hosts: readonly string[] | null;
  /** `/a` alone, `/a/…` below it, `/a[/…]` both; null: any path. */
  readonly paths: readonly string[] | null;
  /** What else: a method, headers, parameters of the query. */
  readonly conditions: readonly string[];
}

export function rangeText({ first, last }: PortRange): string {
  return first === last ? `${first}` : `${first}-${last}`;
}

/** The clients of blocks of one port. */
export function clientsText({ clients, addresses, tls: all, protocols }: QuestionBlock): ClientsText[] {
  const byTls = new Map<TlsClass, number[]>();
  for (const cell of clients) {
    for (const tls of cell.tls.classes) {
      const known = byTls.get(tls);
      if (known === undefined) byTls.set(tls, [...cell.addresses]);
      else known.push(...cell.addresses);
    }
  }
  const byAddresses = new Map<string, { readonly tls: TlsClass[]; readonly addresses: readonly number[] }>();
  for (const [tls, within] of byTls) {
    const key = [...within].sort((a, b) => a - b).join();
    const known = byAddresses.get(key);
    if (known === undefined) byAddresses.set(key, { tls: [tls], addresses: within });
    else known.tls.push(tls);
  }
  return [...byAddresses.values()].map(({ tls, addresses: within }) => ({
    protocols,
    who: whoText(tls, all),
    from: rangesText(addresses.rangesOf(within)),
  }));
}

const kindTexts = {
  none: 'without TLS',
  anonymous: 'TLS without an identity',
  passthrough: 'TLS for another name',
} as const;

/** Kinds of TLS, and identities among them, of a list that many sets share. */
const sums = new WeakMap<readonly TlsClass[], { readonly kinds: number; readonly named: number }>();

function sumOf(all: readonly TlsClass[]): { readonly kinds: number; readonly named: number } {
  const known = sums.get(all);
  if (known !== undefined) return known;
  const named = all.filter(({ kind }) => kind === 'identity').length;
  const sum = { kinds: new Set(all.map(({ kind }) => kind)).size, named };
  sums.set(all, sum);
  return sum;
}

/** Clients that are left out are named in place of the rest, where they are that few. */
const mostLeftOut = 3;

function whoText(tls: readonly TlsClass[], all: readonly TlsClass[]): string[] | null {
  const { kinds, named } = sumOf(all);
  if (tls.length === all.length && kinds > 2) return null;
  if (all.length - tls.length <= mostLeftOut && tls.length > mostLeftOut && kinds > 2) {
    const had = new Set(tls);
    const left = all.filter((each) => !had.has(each));
    if (left.every((each) => each.kind === 'identity' && each.of.kind === 'one')) {
      return [`anybody but ${left.flatMap(nameText).join(', ')}`];
    }
  }
  const everyName = named > 1 && tls.filter(({ kind }) => kind === 'identity').length === named;
  const names = everyName ? ['any identity'] : tls.flatMap(nameText);
  // Names in full come before what stands for many.
  names.sort((a, b) => Number(a.startsWith('any ')) - Number(b.startsWith('any ')) || (a < b ? -1 : 1));
  return [...names, ...tls.flatMap((each) => (each.kind === 'identity' ? [] : [kindTexts[each.kind]]))];
}

function nameText(tls: TlsClass): string[] {
  if (tls.kind !== 'identity') return [];
  const { name, of } = tls;
  if (of.kind === 'one') return [name];
  const like = of.like.map(({ pattern, holds }) => ` ${holds ? 'like' : 'unlike'} ${pattern}`).join(' and');
  if (of.kind === 'spiffe') return [`any other SPIFFE ID${like}`];
  return [of.suffix === '' ? `any other DNS name${like}` : `any other *${of.suffix}${like}`];
}

/** What all of the leaves are, put together where they differ in nothing that counts. */
export function requestsText(leaves: readonly Leaf[]): RequestsText[] {
  const merged = mergedLeaves(leaves, hostText);
  const byHost = new Map<
    string,
    { readonly leaf: Leaf; readonly conditions: readonly string[]; readonly classes: PathClass[] }
  >();
  for (const { leaf, tests } of merged) {
    const conditions = conditionTexts(tests);
    const key = JSON.stringify([hostText(leaf.host), conditions]);
    const known = byHost.get(key);
    if (known === undefined) byHost.set(key, { leaf, conditions, classes: [leaf.path] });
    else known.classes.push(leaf.path);
  }
  const rows = new Map<string, { readonly hosts: HostClass[]; readonly row: RequestsText; readonly all: number }>();
  for (const { leaf, conditions, classes } of byHost.values()) {
    const paths = pathsText(classes, leaf.paths);
    const key = JSON.stringify([paths, conditions]);
    const known = rows.get(key);
    // Any other host, and one with an escape.
    if (known === undefined)
      rows.set(key, { hosts: [leaf.host], row: { hosts: null, paths, conditions }, all: leaf.hosts.size + 2 });
    else known.hosts.push(leaf.host);
  }
  return [...rows.values()].map(({ hosts, row, all }) => ({ ...row, hosts: hostsText(hosts, all) }));
}

function hostsText(hosts: readonly HostClass[], all: number): string[] | null {
  const [first] = hosts;
  if (first?.kind === 'any' || hosts.length === all) return null;
  return hosts.map(hostText);
}

function hostText(host: HostClass): string {
  switch (host.kind) {
    case 'one':
    case 'wildcard':
      return host.host;
    case 'escaped':
      return 'a host with an escape';
    default:
      return 'any other host';
  }
}

function conditionTexts(tests: MergedTests): string[] {
  if (tests.size === 0) return [];
  const texts = [...tests.values()].map(([test, holds]) => conditionText(test, holds));
  // A method that is named says that it is none of the others.
  const named = [...tests.values()].some(([test, holds]) => test.kind === 'method' && holds);
  const failing = named ? /^not [A-Z]+$/ : /^$/;
  return texts.filter((text) => !failing.test(text)).sort((a, b) => rank(a) - rank(b) || (a < b ? -1 : 1));
}

function rank(text: string): number {
  return /^[A-Z]/.test(text) ? 0 : /^not [A-Z]+$/.test(text) ? 1 : text.startsWith('without') ? 3 : 2;
}

function conditionText(test: Test, holds: boolean): string {
  switch (test.kind) {
    case 'method':
      return holds ? test.method : `not ${test.method}`;
    case 'path':
      return `path ${holds ? 'like' : 'unlike'} ${test.pattern}`;
    case 'header':
    case 'query': {
      const { name, type, value } = test.match;
      const what = test.kind === 'header' ? `header ${name}:` : `query ${name}=`;
      return `${holds ? 'with' : 'without'} ${what}${type === 'regex' ? ` like ${value}` : `${test.kind === 'header' ? ' ' : ''}${value}`}`;
    }
    case 'bare':
      return holds ? 'without content or upgrade' : 'with content or an upgrade';
    case 'alias':
      return `with a header that servers may take for ${test.name}`;
    default:
      return testKey(test);
  }
}
