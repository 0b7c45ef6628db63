import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import { dump } from 'js-yaml';
import { stringify } from 'yaml';
import { readAnyYaml } from '../../lib/yaml/any.ts';
import { readOrdinaryYaml } from '../../lib/yaml/ordinary.ts';
import { randomPolicy } from './random-worlds.ts';

/*
 * Texts at random for the two readers of YAML, and what they do not agree on: policies in many styles, the same with faults,
 * and lines that hardly belong together.
 */

type Path = readonly (string | number)[];

/** To every part of a value, and beside each to what is not there. */
function* pathsOf(value: unknown, path: Path = []): Generator<Path> {
  yield path;
  yield [...path, 'absent'];
  yield [...path, 0];
  if (typeof value !== 'object' || value === null) return;
  for (const [key, inner] of Object.entries(value))
    yield* pathsOf(inner, [...path, Array.isArray(value) ? Number(key) : key]);
}

/** `other`: it is not read as an ordinary text. A text says what the readers disagree on. */
export type Agreement = 'same' | 'other' | { readonly difference: string };

export function agreementOn(text: string): Agreement {
  const [whole, apart] = [agreementIn(text), agreementIn(text, 1)];
  if (typeof apart === 'string' && typeof whole === 'string' && apart !== whole)
    return { difference: `${whole} as a whole, and ${apart} in parts: ${JSON.stringify(text)}` };
  return typeof apart === 'string' ? whole : apart;
}

/** @param partLength characters that are parsed at once; one: each document by itself. */
function agreementIn(text: string, partLength?: number): Agreement {
  const ordinary = readOrdinaryYaml(text, 'f.yaml', partLength);
  if (ordinary === null) return 'other';
  const any = readAnyYaml(text, 'f.yaml');
  const differ = (what: string, here: unknown, there: unknown): Agreement => ({
    difference: `${what}: ${JSON.stringify(here)} and ${JSON.stringify(there)} of ${JSON.stringify(text)}`,
  });
  if (!isDeepStrictEqual(ordinary.problems, any.problems)) return differ('problems', ordinary.problems, any.problems);
  const [values, others] = [ordinary, any].map(({ documents }) => documents.map(({ value }) => value));
  if (!isDeepStrictEqual(values, others)) return differ('values', values, others);
  for (const [i, document] of ordinary.documents.entries()) {
    for (const path of pathsOf(document.value)) {
      const [here, there] = [document.position(path), any.documents[i]?.position(path)];
      if (!isDeepStrictEqual(here, there)) return differ(`document ${i} ${path.join('.')}`, here, there);
    }
  }
  return 'same';
}

const of = fc.constantFrom;

type Writer = (documents: readonly unknown[]) => string;

/** How two libraries and kubectl write YAML. */
const written: fc.Arbitrary<Writer> = fc.oneof(
  fc
    .record({
      indent: of(2, 4, 3),
      indentSeq: fc.boolean(),
      singleQuote: of(null, true, false),
      defaultStringType: of('PLAIN', 'QUOTE_DOUBLE', 'QUOTE_SINGLE', 'BLOCK_LITERAL', 'BLOCK_FOLDED'),
      defaultKeyType: of('PLAIN', 'QUOTE_DOUBLE', 'QUOTE_SINGLE'),
      lineWidth: of(0, 80, 20),
      collectionStyle: of('any', 'any', 'block', 'flow'),
      flowCollectionPadding: fc.boolean(),
      directives: of(false, false, true),
    } as const)
    .map(
      (options): Writer =>
        (documents) =>
          documents.map((each) => stringify(each, options)).join('---\n'),
    ),
  fc
    .record({
      indent: of(2, 4),
      seqNoIndent: fc.boolean(),
      flowLevel: of(-1, -1, 3, 4, 5, 6),
      quoteStyle: of('single', 'double'),
      forceQuotes: of(false, false, true),
      flowBracketPadding: fc.boolean(),
      flowSkipCommaSpace: fc.boolean(),
      quoteFlowKeys: fc.boolean(),
      lineWidth: of(-1, 80),
    } as const)
    .map(
      (options): Writer =>
        (documents) =>
          documents.map((each) => dump(each, options)).join('---\n'),
    ),
);

const policies: fc.Arbitrary<string> = fc
  .tuple(randomPolicy([8080, 8081]), fc.boolean(), written)
  .map(([documents, list, write]) =>
    write(list ? [{ apiVersion: 'v1', kind: 'List', items: documents }] : documents.slice(0, 4)),
  );

const keys = [
  ...['on', 'No', 'OFF', 'y', 'N', 'on-call', 'no.x', 'yes/a', '"on"'],
  ...['a', 'b', 'c', 'd', 'name', '"a"', "'b'", 'x-y', 'x.y/z', 'null', 'True', '1', '<<', '? a', '__proto__'],
  ...['constructor', 'toString', '"<<"', '"1"', '', '-', '*x', '&x a', '!x a', '[a]', '{a: b}', 'é', '"a b"'],
];
const values = [
  ...['a', 'b c', '"q"', "'s'", '""', "''", '[]', '{}', '[a, b]', '{a: 1}', '[{a: b}, [c, 1]]', '{a: {b: c}, d: [e]}'],
  ...[
    '1',
    '0',
    '-5',
    '-0',
    '007',
    '0o7',
    '0x1f',
    '1_000',
    '1e3',
    '.5',
    '1.',
    '1.5',
    '+1',
    '.inf',
    '.nan',
    '12345678901234567890',
  ],
  ...[
    'true',
    'True',
    'null',
    'Null',
    '~',
    'yes',
    'no',
    'On',
    'OFF',
    'y',
    'N',
    'on-call',
    'no, no',
    '[on, y]',
    '{off: on}',
    '{a: no}',
    'NULL',
    'truely',
    'null-ish',
    '999999999999999',
    '-999999999999999',
  ],
  ...[
    '10.0.0.0/8',
    '10.0.0.1',
    '1.2.3',
    '2001:db8::/32',
    'fd00::/8',
    '::1',
    '1::',
    '1:2',
    '10s',
    '1h',
    '10Mi',
    '250ms',
  ],
  ...[
    '2026-01-02',
    '2026-01-02T03:04:05Z',
    '5f0cabcd-1234-1234-1234-123456789abc',
    '12345678-1234-1234-1234-123456789abc',
  ],
  ...[
    '/x',
    '^/a$',
    '/a/[0-9]+',
    '(a|b)',
    '*',
    '*x',
    '&y z',
    '!t u',
    '!!str 1',
    '|',
    '>',
    '|-',
    '>+',
    '|2',
    'a: b',
    'a:',
    ':a',
  ],
  ...[
    'a:b',
    'a,b',
    'a]',
    'x{y',
    'a"b',
    "a'b",
    '"a"b',
    "'it''s'",
    String.raw`"\""`,
    String.raw`"\\"`,
    String.raw`"\n"`,
    '"é"',
  ],
  ...[
    '-',
    '- a',
    '-a',
    '--- a',
    '?',
    '? a',
    '%',
    '@a',
    '`a',
    '#c',
    'a#b',
    'a #b',
    '"a #b"',
    '[a',
    '{a',
    'a]',
    '{a}',
    '[a: b]',
  ],
  ...[
    '[a,b]',
    '[ a ]',
    '{ a: b }',
    '["x", \'y\']',
    '{"a": b}',
    '{"a":b}',
    '[a, ]',
    '[, a]',
    '{a: }',
    '{a: 1, a: 2}',
    '[a b, c]',
  ],
  ...[
    '"\u{1f600}"',
    '"\ud800"',
    '\u00a0',
    'a\u2028b',
    '\ufeffa',
    'a\u0085b',
    'a\tb',
    '\ta',
    'a\\b',
    'http://x:1/?a=b&c',
    'a  b',
  ],
];
const tails = ['', '', '', '', '', ' ', '  ', ' # c', '  #', '\t', ' # é "x', '#c', ' #\u2028', '\r'];
const indents = ['', '', '', ' ', '  ', '  ', '  ', '   ', '    ', '    ', '      '];
const dashes = ['', '', '', '', '- ', '- ', '- - ', '-  ', '-'];
const oddLines = [
  ...[
    '',
    '',
    '  ',
    '# c',
    '  # c',
    '---',
    '---',
    '--- ',
    '--- # c',
    '--- a',
    '--- {a: b}',
    '---a',
    '--- - a',
    '----',
    '...',
  ],
  ...[
    '%YAML 1.2',
    '%TAG ! x',
    'a',
    '  a',
    '"x"',
    "'x",
    '"',
    '{',
    '}',
    ']',
    '{a: b}',
    '- ',
    '-',
    '\ufeff',
    '\t',
    '|',
    '  :',
    '? a',
  ],
];
const literal = ['{"a":1}', 'x # c', '- a', 'b: c', ' d', '"', '*x', '---'];

const line: fc.Arbitrary<string> = fc.oneof(
  { weight: 2, arbitrary: of(...oddLines) },
  {
    weight: 4,
    arbitrary: fc
      .tuple(of(...indents), of(...dashes), of(...keys), of(...tails))
      .map(([indent, dash, key, tail]) => `${indent}${dash}${key}:${tail}`),
  },
  {
    weight: 6,
    arbitrary: fc
      .tuple(of(...indents), of(...dashes), of(...keys), of(' ', ' ', ' ', '  ', ''), of(...values), of(...tails))
      .map(([indent, dash, key, gap, value, tail]) => `${indent}${dash}${key}:${gap}${value}${tail}`),
  },
  {
    weight: 3,
    arbitrary: fc
      .tuple(of(...indents), of(...dashes), of(...values), of(...tails))
      .map(([indent, dash, value, tail]) => `${indent}${dash}${value}${tail}`),
  },
  {
    weight: 1,
    arbitrary: fc
      .tuple(of(...indents), of(...keys), of('  ', '  ', '   ', ''), of(...literal), of('', '', '\n', '\n  '))
      .map(([indent, key, more, held, behind]) => `${indent}${key}: |\n${indent}${more}${held}${behind}`),
  },
);

/** Any lines, and lines of which the readers made something together with those before. */
const heaps: fc.Arbitrary<string> = fc
  .tuple(fc.array(line, { minLength: 1, maxLength: 24 }), fc.boolean(), of('\n', '\n', '', '\n\n', '\n '))
  .map(([lines, fitting, end]) => {
    if (!fitting) return lines.slice(0, 5).join('\n') + end;
    const kept: string[] = [];
    for (const each of lines) if (readOrdinaryYaml([...kept, each, ''].join('\n'), 'f.yaml') !== null) kept.push(each);
    return kept.join('\n') + end;
  });

interface Edit {
  readonly kind: 'insert' | 'replace' | 'delete' | 'line' | 'indent' | 'twice' | 'swap';
  readonly at: number;
  readonly text: string;
  readonly size: number;
}

const edit: fc.Arbitrary<Edit> = fc.record({
  kind: of('insert', 'replace', 'delete', 'line', 'indent', 'twice', 'swap'),
  at: fc.nat(),
  text: fc.oneof(of(...keys, ...values, ...tails, ...oddLines, ' ', ':', ': ', '\n', ',', '"', "'"), line),
  size: fc.integer({ min: 1, max: 6 }),
});

function edited(text: string, { kind, at, text: other, size }: Edit): string {
  if (kind === 'insert' || kind === 'replace' || kind === 'delete') {
    const from = at % (text.length + 1);
    const behind = text.slice(kind === 'insert' ? from : from + size);
    return `${text.slice(0, from)}${kind === 'delete' ? '' : other}${behind}`;
  }
  const lines = text.split('\n');
  const i = at % lines.length;
  const here = lines[i] ?? '';
  const places: Readonly<Record<'line' | 'indent' | 'twice' | 'swap', readonly string[]>> = {
    line: [other, here],
    indent: [size > 3 ? here.replace(/^ {1,2}/, '') : `${' '.repeat(size)}${here}`],
    twice: [here, here],
    swap: [lines[i + 1] ?? '', here],
  };
  lines.splice(i, kind === 'swap' ? 2 : 1, ...places[kind]);
  return lines.join('\n');
}

export const yamlText: fc.Arbitrary<string> = fc
  .tuple(
    fc.oneof({ weight: 2, arbitrary: policies }, { weight: 3, arbitrary: heaps }),
    fc.oneof({ weight: 1, arbitrary: fc.constant([]) }, { weight: 2, arbitrary: fc.array(edit, { maxLength: 3 }) }),
  )
  .map(([text, edits]) => edits.reduce(edited, text));
