import { createHash } from 'node:crypto';
import { stripTypeScriptTypes } from 'node:module';
import { type AnyNode, parse } from 'acorn';

/** Of the awaits at one place the first so many may be late: a place that is hot would hold all up. */
const mostAtPlace = 64;
/** How many of these are, and by how many milliseconds at most. */
const share = 0.15;
const mostMs = 200;

/** By how much an await is late: `nth` of its place, from 0 on. It depends on nothing else, in whatever order things happen. */
export function lateMs(seed: number, place: string, nth: number): number {
  if (nth >= mostAtPlace) return 0;
  const drawn = createHash('sha256').update(`${seed} ${place} ${nth}`).digest();
  return drawn.readUInt32LE(0) / 2 ** 32 < share ? (drawn.readUInt32LE(4) / 2 ** 32) * mostMs : 0;
}

/**
 * A module in which `await x` is `await late(x, place)`. Lines and columns of what stands before it are as they were.
 *
 * @param file its name, for the places.
 * @param hooks the module that has `late`.
 */
export function rewritten(source: string, file: string, hooks: string): string {
  const code = stripTypeScriptTypes(source);
  const edits: { readonly at: number; readonly text: string }[] = [];
  visit(parse(code, { ecmaVersion: 'latest', sourceType: 'module' }), (node) => {
    if (node.type !== 'AwaitExpression') return;
    const { start, end } = node.argument;
    edits.push({ at: start, text: '__late((' }, { at: end, text: `), ${JSON.stringify(`${file}:${node.start}`)})` });
  });
  if (edits.length === 0) return code;
  // From the end. Of an await within another one, the inner ends first; where both end at one place, it has been found later.
  edits.sort((one, other) => other.at - one.at);
  let late = code;
  for (const { at, text } of edits) late = late.slice(0, at) + text + late.slice(at);
  return `${late}\nimport { late as __late } from ${JSON.stringify(hooks)};\n`;
}

/** Calls back with a node of a program, and with all below it. */
export function visit(node: AnyNode, found: (node: AnyNode) => void): void {
  found(node);
  for (const value of Object.values(node)) {
    for (const child of Array.isArray(value) ? value : [value]) {
      if (typeof child?.type === 'string') visit(child, found);
    }
  }
}
