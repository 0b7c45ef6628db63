import type { CST, Node, Pair } from 'yaml';
import type { CodeOf } from '../errors/problems.ts';
import { truthLetter } from './scalars.ts';

/** What the library reads, but not as kubectl does, or what kubectl refuses. */
export interface Fault {
  readonly offset: number;
  readonly code: CodeOf<'error'>;
  readonly message: string;
  readonly hint: string;
}

/** Of the text as kubectl cuts it into lines and documents, before it reads any; each with the remedy. */
const unread: readonly (readonly [form: RegExp, message: string, hint: string])[] = [
  // It ends a line of YAML, a comment's too, but not to the library: what stands behind it would be part of the comment.
  [/\r(?!\n)/, 'a line ends in a carriage return without a line feed', 'Save the file with Unix line ends.'],
  // These end lines to kubectl, as they did in YAML 1.1.
  [/[\x85\u2028\u2029]/, 'a character ends a line for some readers only', 'Remove it, or write it as an escape.'],
  // That of the whole text has been taken off; of a later document kubectl takes it off as well.
  [/\ufeff/, 'a byte order mark within the text', 'Remove it, or write it as an escape.'],
  [
    /[^\t\n\r\x20-\x7e\xa0-\u{fffd}\u{10000}-\u{10ffff}]/u,
    'a control character',
    'Remove it, or write it as an escape.',
  ],
  [/^---(?![ \t]+#|\s*?$)/m, 'kubectl reads no document that begins behind its "---"', 'Begin it on the next line.'],
];

export function faultInText(text: string): Fault | null {
  for (const [form, message, hint] of unread) {
    const found = form.exec(text);
    if (found !== null) return { offset: found.index, code: 'yaml-syntax', message, hint };
  }
  return null;
}

/** kubectl cuts at lines of dashes, and reads one document of what is between them. */
export function isBehindEnd(text: string, offset: number): boolean {
  return /^\.\.\.(?!\S)/m.test(text.slice(0, offset));
}

/** Aliases that one document may have, and what they may multiply to: ten lines must not become a gigabyte. */
export const mostAliases = 1000;
export const aliasRemedy = 'Write the value out in place of the alias.';

export const tagRemedy = 'Remove the tag; quote the value if it is to be a string.';

/** Characters on either side of a fault that are looked at: a line may be the whole text. */
const nearby = 200;

/** What to do about text that is not YAML: of a template, which is none before it is rendered, something else than the usual. */
export function remedyAt(offset: number, text: string, usual: string): string {
  const before = text.slice(Math.max(0, offset - nearby), offset);
  const [behind = ''] = text.slice(offset, offset + nearby).split('\n', 1);
  const line = before.slice(before.lastIndexOf('\n') + 1) + behind;
  return line.includes('{{') ? 'Render the template first, as by helm template.' : usual;
}

const nextDocumentRemedy = 'Where another document begins, write --- on a line before it; else keep one of the two.';

export function faultsIn(root: Node, text: string, yaml: typeof import('yaml')): readonly Fault[] {
  const { isAlias, isCollection, isMap, isNode, isPair, isScalar, isSeq, visit } = yaml;
  const faults: Fault[] = [];
  /** To resolve an alias, the library walks the whole document. */
  const anchors = new Map<string, Node>();
  const namesOf = new Map<unknown, Set<string>>();
  const named = (node: unknown): unknown => (isAlias(node) ? anchors.get(node.source) : node);
  const counts: unknown[] = [];
  let merges = false;
  const behind = ({ range }: Node): string => (range ? text.slice(range[1], range[1] + 2) : '');
  const isFlow = (node: unknown): boolean => isCollection(node) && node.flow === true;
  const add = (node: unknown, code: Fault['code'], message: string, hint: string): void => {
    faults.push({ offset: (node as Node).range?.[0] ?? 0, code, message, hint });
  };

  function checkKey({ key, value }: Pair, names: Set<string>, isTop: boolean): void {
    const read = named(key);
    if (read === undefined) return;
    if (!isScalar(read)) {
      const remedy = remedyAt((key as Node).range?.[0] ?? 0, text, 'Write the key as a text.');
      add(key, 'yaml-syntax', 'a mapping or a list is no key', remedy);
      return;
    }
    if (isMergeKey(read.value)) {
      checkMerge(key, value, names);
      return;
    }
    const isLetter = read.type === 'PLAIN' && truthLetter.test(String(read.value));
    // As it is written, whatever reads it: a port, say, of which a ConfigMap tells.
    const isCount =
      typeof read.value === 'number' && read.source === String(read.value) && /^\d{1,15}$/.test(read.source);
    if ((typeof read.value !== 'string' && !isCount) || isLetter) {
      const kind = isLetter ? 'boolean' : read.value === null ? 'null' : typeof read.value;
      add(key, 'yaml-syntax', `to kubectl this key is no text, but of type ${kind}`, 'Write the key in quotes.');
      return;
    }
    if (isCount) counts.push(key);
    const name = String(read.value);
    if (names.has(name)) {
      const isDocument = isTop && names.has('apiVersion');
      add(key, 'duplicate-key', 'Map keys must be unique', isDocument ? nextDocumentRemedy : 'Keep one of the two.');
    }
    names.add(name);
  }

  function checkMerge(key: unknown, value: unknown, names: Set<string>): void {
    // What is merged later wins there, and here what the mapping has of its own.
    if (names.size > 0) add(key, 'yaml-syntax', 'a merge key stands behind another key', 'Write the merge key first.');
    names.add('<<');
    merges = true;
    const merged = isSeq(value) ? value.items : [value];
    // An alias that leads nowhere is told of by itself.
    if (!merged.map(named).every((each) => each === undefined || isMap(each)))
      add(key, 'yaml-syntax', 'a merge key takes a mapping, or a list of mappings', 'Write the mapping.');
  }

  let aliases = 0;
  visit(root, (role, node, path) => {
    if (isAlias(node)) {
      if (!anchors.has(node.source)) add(node, 'yaml-syntax', `no anchor before is called ${node.source}`, aliasRemedy);
      if (++aliases > mostAliases) {
        add(node, 'yaml-syntax', `there are more than ${mostAliases} aliases`, aliasRemedy);
        return visit.BREAK;
      }
    }
    if (isNode(node) && 'anchor' in node && node.anchor !== undefined) anchors.set(node.anchor, node);
    if (isNode(node) && node.tag !== undefined && !(isScalar(node) && node.tag === textTag && role !== 'key'))
      add(node, 'yaml-syntax', `nothing here has a tag (${node.tag}), but for texts !!str`, tagRemedy);
    if (isScalar(node) && typeof node.value === 'number' && !Number.isFinite(node.value) && role !== 'key')
      add(node, 'yaml-syntax', 'JSON has no such number', 'Quote it if it is to be a text.');
    if (isScalar(node) && node.type === 'PLAIN' && /^[?:]/.test(node.source ?? '') && path.some(isFlow))
      add(node, 'yaml-syntax', 'to kubectl "?" and ":" are marks here, before a text too', 'Write the text in quotes.');
    if (!isPair(node)) return undefined;
    if (isScalar(node.key) && node.key.type === 'PLAIN' && /^:[,[\]{}]/.test(behind(node.key)))
      add(node.key, 'yaml-syntax', 'to kubectl this ":" is part of the text', 'Write a blank behind the ":".');
    const map = path.at(-1);
    const names = namesOf.get(map) ?? new Set();
    namesOf.set(map, names);
    checkKey(node, names, map === root);
    return undefined;
  });
  // Beside a text that is the same, either of the two wins there, and another time the other.
  for (const key of merges ? counts : [])
    add(key, 'yaml-syntax', 'a number is a key beside merge keys', 'Write the key in quotes.');
  return faults;
}

/**
 * What the library passes over, since it belongs to nothing (an item behind `? key`, at the key's own column), and escaped line
 * ends that it reads otherwise.
 */
export function misread(root: Node, { isNode, visit }: typeof import('yaml')): readonly Fault[] {
  const composed = new Set<CST.Token | undefined>();
  const faults: Fault[] = [];
  const message = 'to kubectl the empty line behind this "\\" is a line end';
  visit(root, (_role, node) => {
    const token = isNode(node) ? node.srcToken : undefined;
    composed.add(token);
    if (token?.type === 'double-quoted-scalar' && blankBehindEscape.test(token.source))
      faults.push({ offset: token.offset, code: 'yaml-syntax', message, hint: 'Write the text on one line.' });
  });
  const waiting = [root.srcToken];
  while (waiting.length > 0) {
    const token = waiting.pop();
    if (token === undefined) continue;
    if (composed.has(token)) {
      if ('items' in token) for (const { key, value } of token.items) waiting.push(key ?? undefined, value);
    } else {
      const hint = 'Write ": " before it, or indent it.';
      faults.push({ offset: token.offset, code: 'yaml-syntax', message: 'this belongs to no key', hint });
    }
  }
  return faults;
}

/** An escaped line end, and behind it an empty line. The library takes that for a blank. */
const blankBehindEscape = /(?<!\\)(?:\\\\)*\\\r?\n[ \t]*\r?\n/;

/** The library has meanings of its own for most tags (`!!int 010` is ten), and merges by a key that has this one. */
const textTag = 'tag:yaml.org,2002:str';

/** In quotes it is a key like any other. */
function isMergeKey(value: unknown): boolean {
  return typeof value === 'symbol' && value.description === '<<';
}
