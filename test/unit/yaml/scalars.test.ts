import t from 'tap';
import { readYaml } from '../../../lib/yaml.ts';

/* What sigs.k8s.io/yaml 1.6.0, the library of kubectl and the API server, makes of scalars without quotes, but for `y` and `n`. */

type Row = readonly [value: unknown, ...texts: string[]];

const rows: readonly Row[] = [
  [true, ...['true', 'True', 'TRUE', 'yes', 'Yes', 'YES', 'on', 'On', 'ON']],
  [false, ...['false', 'False', 'FALSE', 'no', 'No', 'NO', 'off', 'Off', 'OFF']],
  [null, ...['', '~', 'null', 'Null', 'NULL']],
  [8080, ...['8080', '8_080', '8080_', '8__080', '+8080', '+_8080', '017620', '0_17620', '0o17620', '0O1_7620']],
  [
    8080,
    ...['0x1f90', '0X1F_90', '+0x1f90', '0b1111110010000', '0B1111110010000', '8080.', '8080.0', '8.08e3', '808e+1'],
  ],
  [-31, ...['-31', '-_31', '-0x1f', '-037', '-0o37', '-0b11111', '0b-11111']],
  // No octal digits: decimals after all.
  [80, ...['080', '08_0', '0_8_0']],
  [8, ...['08', '0_8', '8e0', '08.']],
  [0, ...['0', '00', '-0', '-00', '0_', '0o0', '0x_0', '0e5']],
  [0.5, ...['.5', '+.5', '0.5', '00.5', '5e-1', '.5_0', '0._5', '+._5']],
  [1000, ...['1e3', '1E3', '1_e3', '1e_3', '1e3_']],
  [1e30, ...['1e3_0']],
  [2 ** 63, ...['9223372036854775808', '0x8000000000000000', '+9223372036854775808']],
  [-(2 ** 63), ...['-9223372036854775808', '-0x8000000000000000']],
  // More than 64 bits: a decimal is a float, and what is octal by its looks is one as well.
  [1e20, ...['100000000000000000000']],
  [2e22, ...['020000000000000000000000']],
];

const strings: readonly string[] = [
  // Truth values to kubectl, which refuses them wherever a text stands.
  ...['y', 'Y', 'n', 'N'],
  ...[
    'yEs',
    'nO',
    'oN',
    'tRUE',
    'nULL',
    'none',
    'nil',
    'yes_',
    'no1',
    '-y',
    'on-call',
    'n/a',
    'nan',
    'inf',
    '+Inf',
    '=',
    '_',
  ],
  ...[
    '_8080',
    '0x',
    '0xg',
    '0b2',
    '0b',
    '0o8',
    '0o',
    '-0b-1',
    '0x-1',
    '0o+7',
    '.',
    '..',
    '._5',
    '.5_',
    '.e3',
    '-.',
    '--1',
  ],
  ...['1e', '1.5e+', 'e3', '1.2.3', '1/2', '10.0.0.0/8', '0x1p4', '0x1.8p1', '1Ki', '8080/tcp', '1-2', '100m'],
  ...[
    '190:20:30',
    '1:30',
    '12:30:45',
    '2001-01-01',
    '2001-1-1',
    '2001-12-14t21:59:43.10-05:00',
    '2026-01-02T03:04:05Z',
  ],
  ...['1e400', '-1e400', '0x10000000000000000', '+0x8000000000000000', '-0x8000000000000001'],
];

const read = (text: string): unknown => {
  const { documents, problems } = readYaml(text, 'f.yaml');
  return problems.length > 0 ? problems : documents[0]?.value;
};

t.test('scalars mean what they mean to kubectl', async (t) => {
  const all: readonly Row[] = [...rows, ...strings.map((text) => [text, text] as const)];
  for (const [value, ...texts] of all) {
    for (const text of texts) {
      t.strictSame(read(`port: ${text} # so\n`), { port: value }, text);
      t.strictSame(read(`- ports: [0, ${text === '' ? '~' : text}]\n`), [{ ports: [0, value] }], `${text} in a list`);
      t.strictSame(read(`a: {port: ${text} }\n`), { a: { port: value } }, `${text} in a map`);
      t.strictSame(read(`port: "${text}"\nother: '${text}'\n`), { port: text, other: text }, `${text} in quotes`);
    }
  }
});

t.test('numbers that JSON has not are refused', async (t) => {
  for (const text of ['.inf', '.Inf', '-.INF', '+.inf', '.nan', '.NaN', '.NAN'])
    t.match(read(`- 1\n- a: ${text}\n`), [{ code: 'yaml-syntax', line: 2, hint: /Quote it/ }], text);
});

t.test('keys are texts', async (t) => {
  const keys = [
    'yEs',
    'on-call',
    'no.x',
    'n/a',
    'y1',
    'none',
    'offset',
    '2001-01-01',
    '1:30',
    '10.0.0.0/8',
    '=',
    '1e400',
    '8080',
    '0',
  ];
  for (const text of keys) t.strictSame(read(`${text}: v\n`), { [text]: 'v' }, text);
  for (const word of ['on', 'y', '8080', '~', '.inf', '<<', ''])
    t.strictSame(read(`'${word}': v\nw: {"${word}": v}\n`), { [word]: 'v', w: { [word]: 'v' } }, `${word} in quotes`);
});

t.test('what kubectl reads as another key, or refuses, is no key', async (t) => {
  const words = ['y', 'yes', 'on', 'n', 'no', 'off', 'true', 'false']; // "true", "false"
  const refused: Readonly<Record<string, readonly string[]>> = {
    boolean: words.flatMap((word) => [word, word.toUpperCase(), `${word.slice(0, 1).toUpperCase()}${word.slice(1)}`]),
    // "8080", "8", "16", "0", "-0", "0.5", "1000", "1e+30", ".inf", ".nan"; the last of the first row it refuses.
    number: [
      ...['8080.0', '8_080', '010', '0x10', '-0', '12345678901234567890'],
      ...['-0.0', '.5', '1e3', '1e30', '.inf', '.nan'],
    ],
    // Refused.
    null: ['~', 'null', 'Null', 'NULL'],
  };
  const hint = 'Write the key in quotes.';
  for (const [kind, texts] of Object.entries(refused))
    for (const text of texts) {
      const message = new RegExp(`type ${kind}$`);
      t.match(read(`a: 1\n${text}: web\n`), [{ code: 'yaml-syntax', message, line: 2, column: 1, hint }], text);
      t.match(read(`a: {b: 1,\n  ${text}: web}\n`), [{ message, line: 2, column: 3 }], `${text} in braces`);
      const aliased = read(`a: &x ${text}\n*x : web\n`) as readonly unknown[];
      t.match(aliased.at(-1), { message, line: 2, column: 1 }, `${text} by its alias`);
    }
  for (const text of ['? \n: 1\n', '{: 1}\n', '- : 1\n'])
    t.match(read(text), [{ code: 'yaml-syntax', message: /type null/, line: 1 }], text);
  for (const text of ['? [a]\n: 1\n', '[a]: 1\n', '{a: b}: 1\n', '{[a]: 1}\n'])
    t.match(read(text), [{ code: 'yaml-syntax', message: 'a mapping or a list is no key', line: 1 }], text);
  t.match(read('a: &x [1]\n*x : 2\n'), [{ message: 'a mapping or a list is no key', line: 2 }], 'an alias of a list');
});
