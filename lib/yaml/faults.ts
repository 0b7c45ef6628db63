import type { Node, Pair } from 'yaml';
import type { CodeOf } from '../errors/problems.ts';
import { truthLetter } from './scalars.ts';

/** What the library reads, but not as kubectl does, or what kubectl refuses. */
interface Fault {
  readonly offset: number;
  readonly code: CodeOf<'error'>;
  readonly message: string;
  readonly hint: string;
}

export const tagRemedy = 'Remove the tag; quote the value if it is to be a string.';

export function faultsIn(root: Node, yaml: typeof import('yaml')): readonly Fault[] {
  const { isAlias, isMap, isNode, isPair, isScalar, isSeq, visit } = yaml;
  const faults: Fault[] = [];
  /** To resolve an alias, the library walks the whole document. */
  const anchors = new Map<string, Node>();
  const namesOf = new Map<unknown, Set<string>>();
  const named = (node: unknown): unknown => (isAlias(node) ? anchors.get(node.source) : node);
  const add = (node: unknown, code: Fault['code'], message: string, hint: string): void => {
    faults.push({ offset: (node as Node).range?.[0] ?? 0, code, message, hint });
  };

  function checkKey({ key, value }: Pair, names: Set<string>): void {
    const read = named(key);
    if (read === undefined) return;
    if (!isScalar(read)) {
      add(key, 'yaml-syntax', 'a mapping or a list is no key', 'Write the key as a text.');
      return;
    }
    if (isMergeKey(read.value)) {
      checkMerge(key, value, names);
      return;
    }
    const isLetter = read.type === 'PLAIN' && truthLetter.test(String(read.value));
    if (typeof read.value !== 'string' || isLetter) {
      const kind = isLetter ? 'boolean' : read.value === null ? 'null' : typeof read.value;
      add(key, 'yaml-syntax', `to kubectl this key is no text, but of type ${kind}`, 'Write the key in quotes.');
      return;
    }
    if (names.has(read.value)) add(key, 'duplicate-key', 'Map keys must be unique', 'Keep one of the two.');
    names.add(read.value);
  }

  function checkMerge(key: unknown, value: unknown, names: Set<string>): void {
    // What is merged later wins there, and here what the mapping has of its own.
    if (names.size > 0) add(key, 'yaml-syntax', 'a merge key stands behind another key', 'Write the merge key first.');
    names.add('<<');
    const merged = isSeq(value) ? value.items : [value];
    // An alias that leads nowhere is told of where it is resolved.
    if (!merged.map(named).every((each) => each === undefined || isMap(each)))
      add(key, 'yaml-syntax', 'a merge key takes a mapping, or a list of mappings', 'Write the mapping.');
  }

  visit(root, (role, node, path) => {
    if (isNode(node) && 'anchor' in node && node.anchor !== undefined) anchors.set(node.anchor, node);
    if (isNode(node) && node.tag !== undefined && !(isScalar(node) && node.tag === textTag && role !== 'key'))
      add(node, 'yaml-syntax', `nothing here has a tag (${node.tag}), but for texts !!str`, tagRemedy);
    if (isScalar(node) && typeof node.value === 'number' && !Number.isFinite(node.value) && role !== 'key')
      add(node, 'yaml-syntax', 'JSON has no such number', 'Quote it if it is to be a text.');
    if (!isPair(node)) return;
    const map = path.at(-1);
    const names = namesOf.get(map) ?? new Set();
    namesOf.set(map, names);
    checkKey(node, names);
  });
  return faults;
}

/** The library has meanings of its own for most tags (`!!int 010` is ten), and merges by a key that has this one. */
const textTag = 'tag:yaml.org,2002:str';

/** In quotes it is a key like any other. */
function isMergeKey(value: unknown): boolean {
  return typeof value === 'symbol' && value.description === '<<';
}
