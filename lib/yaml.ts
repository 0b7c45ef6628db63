import { readAnyYaml } from './yaml/any.ts';
import { readOrdinaryYaml } from './yaml/ordinary.ts';
import type { ReadYaml } from './yaml/read.ts';

export { type IndentedText, indentContinued } from './yaml/continued-lines.ts';
export type { ReadYaml } from './yaml/read.ts';

/**
 * The documents of one YAML or JSON text, with the problems that keep the text from being one. Texts of the plain form in
 * which policy is written are read by a library that is many times as fast, and all others by one that knows all of YAML.
 * Either reads the same from what is ordinary (test/fuzz/yaml.test.ts), which is why a text has one meaning.
 * Never throws; the time it takes grows with the length of the text alone.
 */
export function readYaml(text: string, file: string): ReadYaml {
  // Where it is none of the text, readers differ in whether it has a column.
  const bare = text.startsWith('\ufeff') ? text.slice(1) : text;
  return readOrdinaryYaml(bare, file) ?? readAnyYaml(bare, file);
}
