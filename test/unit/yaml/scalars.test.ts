import t from 'tap';
import { readYaml } from '../../../lib/yaml.ts';

/* What sigs.k8s.io/yaml 1.6.0, the library of kubectl and the API server, makes of scalars without quotes, but for the words of YAML 1.1. */

type Row = readonly [value: unknown, ...texts: string[]];

const rows: readonly Row[] = [
  [true, ...['true', 'True', 'TRUE']],
  [false, ...['false', 'False', 'FALSE']],
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
  ...['y', 'Y', 'yes', 'Yes', 'YES', 'on', 'On', 'ON', 'n', 'N', 'no', 'No', 'NO', 'off', 'Off', 'OFF'],
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

t.test('keys are read so as well', async (t) => {
  const keys: readonly (readonly [text: string, key: string])[] = [
    ['y', 'y'],
    ['8_080', '8080'],
    ['010', '8'],
    ['.5', '0.5'],
    ['on-call', 'on-call'],
    ['2001-01-01', '2001-01-01'],
    ['"yes"', 'yes'],
  ];
  for (const [text, key] of keys) t.strictSame(read(`${text}: v\n`), { [key]: 'v' }, text);
  t.match(read('8_0: 1\n80: 2\n'), [{ code: 'duplicate-key', line: 2 }]);
});
