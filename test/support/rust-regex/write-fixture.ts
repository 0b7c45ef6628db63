/**
 * Writes `test/fixtures/rust-regex.jsonl`, what Rust's crate regex says of patterns at random and of some by hand:
 * `node test/support/rust-regex/write-fixture.ts`. The first line is the texts; each other one a pattern and its answers.
 */

import { writeFileSync } from 'node:fs';
import { askRust } from './ask-rust.ts';

const texts = [
  ...['', 'a', 'b', 'é', '1', '\u0663', '_', ' ', '\u00a0', '\n', '\t', '\v', 'k', 'K', '\u212a', 's', 'S', '\u017f'],
  ...['ab', 'AB', 'aé', 'éa', 'é b', 'a b', 'a-b', '\u01c5', '-', '/', '\u65e5\u672c', '\u0301', '\u203f', '\u{1f600}'],
  ...[
    'aa',
    'aaa',
    '\u200d',
    '\u0085',
    '\u00df',
    '\u03a9',
    '\u03c9',
    '\u2126',
    '{',
    '}',
    ']',
    '^',
    '\\',
    '#',
    '\r',
    'a\nb',
  ],
  ...[
    '/a/b',
    '\u1885',
    '\u{1d7ce}',
    '\u2028',
    'a\u0301',
    '\u00aa',
    '\u2160',
    '0',
    'z',
    'é\u0663',
    '\u00b5',
    '\u03bc',
    ':',
  ],
];

const byHand = [
  ...['/b{,2}', '/a{', '/\\Qa.b\\E', '/\\p{^L}', '/[\\<]a', '/\\101', '\\w{209}', '\\w{210}', '\\w{1000}', '\\W{223}'],
  ...[
    '\\W{230}',
    '\\d{1000}',
    '\\D{800}',
    '\\D{820}',
    '\\p{L}{230}',
    '\\p{L}{250}',
    '(?x) a b',
    '(?x)a#b\n',
    '(?x)a #',
    '(?u:a)',
  ],
  ...[
    '\\u0061',
    '\\p{Letter}',
    'a+{1,}',
    'a**',
    '^*',
    '\\b+',
    '(?i)*',
    '(*)',
    '|*',
    'a|*',
    'a{2}{3}',
    'a{2,1}',
    'a{ 2 }',
  ],
  ...[
    '[]a]',
    '[^]a]',
    '[]',
    '[a-]',
    '[-a]',
    '[--a]',
    '[a-\\d]',
    '[z-a]',
    '[[:alpha:]]',
    '[[:^alpha:]]',
    '[:alpha:]',
    '[\\b]',
  ],
  ...[
    '\\Z',
    '\\z',
    '\\C',
    '\\pL',
    '\\PL',
    '\\pLa',
    '\\p{Lu}',
    '\\P{Lu}',
    '\\p{Greek}',
    '\\p{sc=Grek}',
    '\\p{gc:Nd}',
    '\\x41',
  ],
  ...[
    '\\x{e9}',
    '\\xe9',
    '\\u{1F600}',
    '\\U0001F600',
    '\\x4',
    '\\x{d800}',
    '\\x{}',
    '\\e',
    '\\cA',
    '\\é',
    '\\-\\_\\ \\/',
    '\\%',
  ],
  ...[
    '(?P<a>x)',
    '(?<a>a)',
    '(?<a>x)(?<a>y)',
    '(?=a)',
    '(?!a)',
    '(?<=a)',
    '(?<1a>x)',
    '(?-u)a',
    '(?-u:.)',
    '(?-u:\\w)',
  ],
  ...[
    '(?-u:\\W)',
    '(?-u:é)',
    '(?-u:[^a])',
    '(?-u:\\b)a',
    '(?i-i)a',
    '(?ii)a',
    '(?-)a',
    '(?)a',
    '(?:a',
    'a)',
    '(|a)',
    'a||b',
  ],
  ...[
    'a{2',
    '{',
    'x}',
    'x]',
    '\\',
    '\\0',
    '\\8',
    '\\k<a>',
    '\\h',
    '\\R',
    '\\X',
    '(?i)k',
    '(?i)s',
    '(?i)[k]',
    '(?i)[^k]',
  ],
  ...[
    '(?i)\\u{212a}',
    '(?i-u)k',
    '(?i-u)[k]',
    '(?i)é',
    '(?i)\\w',
    '(?i)\\W',
    '(?i)[\\W]',
    '(?i)[^\\W]',
    '(?i)\\p{Lu}',
    '(?i)[^\\p{Lu}]',
  ],
  ...[
    '(?s).',
    '.',
    '(?R).',
    '(?m)a$',
    '(?m)^a$.^b$',
    '(?s)a.b',
    '[^\\w]',
    '[^\\W]',
    '[^\\d\\D]',
    '[\\s\\S]',
    '\\W+',
    '\\D',
    '\\S',
  ],
  ...[
    '.\\b.',
    '\\B.',
    '(?i:k)a?',
    'a(?i)b',
    '(a(?i)|b)c?',
    '(?x)[ a b ]',
    '(?x)[ a - b ]',
    '(?x)a {2}',
    '(?x)a{2} ?',
    '( ?:a)',
  ],
  ...[
    '(?x)( ?:a)',
    '(?U)a+',
    '(?^a)',
    '(?#c)',
    `${'('.repeat(249)}a${')'.repeat(249)}`,
    `${'('.repeat(260)}a${')'.repeat(260)}`,
  ],
  ...[
    '[a&b]',
    '[a~b]',
    '[&a]',
    '[~a]',
    '[a-c-e]',
    '[a--]',
    '[^-a]',
    '[\\]a]',
    '[\\n]',
    '[\\x41-\\x43]',
    '[\\p{Nd}_]',
    '[^\\p{L}]',
  ],
];

const atoms = [
  ...[
    'a',
    'b',
    'é',
    'k',
    '1',
    '_',
    ' ',
    '/',
    '.',
    '\\w',
    '\\W',
    '\\d',
    '\\D',
    '\\s',
    '\\S',
    '[^a]',
    '[a-c]',
    '[^\\w]',
    '[\\wé]',
  ],
  ...[
    '[\\D]',
    '[^/]',
    '\\b',
    '\\B',
    '^',
    '$',
    '\\p{L}',
    '\\P{L}',
    '\\pN',
    '\\p{Greek}',
    '\\x{e9}',
    '\\u00e9',
    '\\-',
    '[[:alpha:]]',
  ],
  ...[
    '[^[:space:]]',
    '(?i)',
    '(?s)',
    '(?x)',
    '(?i:k)',
    '(?-u:a)',
    '\\A',
    '\\z',
    '()',
    '[]]',
    '[^\\s-]',
    '#',
    '\\#',
    '-',
    ':',
    '\\_',
  ],
];
const signs = ['', '', '', '', '*', '+', '?', '{2}', '{1,}', '{0,2}', '+?', '**', '{,2}', '{', '+{1,}', '{ 1 }'];

/** The same ones each time. */
let state = 7;
function below(count: number): number {
  state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
  return (state >>> 8) % count;
}
const one = (list: readonly string[]): string => list[below(list.length)] as string;

function random(depth: number): string {
  const parts = Array.from({ length: 1 + below(3) }, () => {
    const inner =
      depth > 0 && below(4) === 0 ? `${one(['(', '(?:', '(?i:', '(?s:'])}${random(depth - 1)})` : one(atoms);
    return inner + one(signs);
  });
  const text = parts.join('');
  return depth > 0 && below(5) === 0 ? `${text}|${random(depth - 1)}` : text;
}

const patterns = [...new Set([...byHand, ...Array.from({ length: 2500 }, () => random(2))])];
const escaped = (text: string): string =>
  text.replace(/[\\\n\t]/g, (c) => (c === '\n' ? '\\n' : c === '\t' ? '\\t' : '\\\\'));
const answers = askRust(
  'judge',
  patterns.map((pattern) => [pattern, ...texts].map(escaped).join('\t')),
);
const lines = [texts, ...patterns.map((pattern, i) => [pattern, answers[i]])];
writeFileSync(
  new URL('../../fixtures/rust-regex.jsonl', import.meta.url),
  lines.map((line) => `${JSON.stringify(line)}\n`).join(''),
);
