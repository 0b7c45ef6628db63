import t from 'tap';
import { readYaml } from '../../../lib/yaml.ts';

/* What kubectl's reader (k8s.io/apimachinery 0.36.3) makes of merge keys: it goes through a mapping in order, and what comes later wins. */

const refusedHere = 'a merge key stands behind another key';

t.test('what is merged is what kubectl merges', async (t) => {
  const rows: readonly (readonly [text: string, value: unknown])[] = [
    ['<<: {a: 2}\na: 1\n', { a: 1 }],
    ['<<: {a: 2, b: 2}\na: 1\n', { a: 1, b: 2 }],
    ['? <<\n: {a: 1}\n', { a: 1 }],
    ['&m <<: {a: 1}\n', { a: 1 }],
    ['<<: []\n', {}],
    ['- <<: {a: 1}\n', [{ a: 1 }]],
    // The first of a list wins.
    ['<<: [{a: 1, b: 1}, {a: 2, c: 2}]\n', { a: 1, b: 1, c: 2 }],
    ['p: &x {a: 1}\nq: {<<: [*x, {a: 2, b: 2}], b: 3}\n', { p: { a: 1 }, q: { a: 1, b: 3 } }],
    ['p: &x {a: 1}\nq: {<<: [{a: 2}, *x]}\n', { p: { a: 1 }, q: { a: 2 } }],
    // A mapping that is merged may have a merge of its own.
    ['<<: {<<: {a: 1, b: 1}, a: 2}\nc: 3\n', { a: 2, b: 1, c: 3 }],
    [
      'p: &x {a: 1, b: 1}\nq: &z {<<: *x, b: 2}\nr: {<<: [*z, {a: 5, b: 5, c: 5}]}\n',
      { p: { a: 1, b: 1 }, q: { a: 1, b: 2 }, r: { a: 1, b: 2, c: 5 } },
    ],
    ['p: &x {a: 1}\nq: &x {a: 2}\nr: {<<: *x}\n', { p: { a: 1 }, q: { a: 2 }, r: { a: 2 } }],
    ['<<: {p: {a: 1}}\np: {b: 2}\n', { p: { b: 2 } }],
    // In quotes it is a key like any other.
    ['"<<": {a: 1}\n', { '<<': { a: 1 } }],
    ["a: 1\n'<<': {a: 2}\n", { a: 1, '<<': { a: 2 } }],
  ];
  for (const [text, value] of rows) {
    const { documents, problems } = readYaml(text, 'f.yaml');
    t.same(problems, [], text);
    t.strictSame(documents[0]?.value, value, text);
  }
});

t.test(
  'a merge key that wins over what stands before it is refused, and every other that is not the first',
  async (t) => {
    // Behind each, what kubectl reads.
    const rows: readonly (readonly [text: string, line: number])[] = [
      ['spec: { accessPolicy: all-unauthenticated,\n  <<: {accessPolicy: deny} }\n', 2], // deny
      ['a: 1\n<<: {a: 2}\n', 2], // 2
      ['b: 1\n<<: {a: 2}\nc: 3\n', 2], // no key twice
      ['<<: {a: 1}\n<<: {a: 2}\n', 2], // 2
      ['<<: {a: 1}\nb: 1\n<<: {b: 2}\n', 3], // b: 2
      ['p: &x {a: 2,\n  <<: {a: 1}}\nq: {<<: *x}\n', 2], // 1 in both
      ['<<: {a: 2,\n  <<: {a: 1}}\n', 2], // 1
    ];
    for (const [text, line] of rows) {
      const { documents, problems } = readYaml(text, 'f.yaml');
      t.same(documents, [], text);
      t.match(
        problems,
        [{ code: 'yaml-syntax', message: refusedHere, line, hint: 'Write the merge key first.' }],
        text,
      );
    }
  },
);

t.test('what kubectl does not merge is refused', async (t) => {
  const message = 'a merge key takes a mapping, or a list of mappings';
  for (const text of ['<<: a\n', '<<: ~\n', '<<:\n', '<<: [a]\n', '<<: [[{a: 1}]]\n', '<<: "{a: 1}"\n'])
    t.match(readYaml(text, 'f.yaml').problems, [{ code: 'yaml-syntax', message, line: 1 }], text);
  const lists = readYaml('p: &x [{a: 1}]\nq:\n  <<: *x\n', 'f.yaml');
  t.match(lists.problems, [{ code: 'yaml-syntax', message, line: 3, column: 3 }], 'an alias of a list');
  const nothing = readYaml('p: 1\nq: {<<: *x}\n', 'f.yaml');
  t.match(nothing.problems, [{ code: 'yaml-syntax', line: 2, column: 9 }], 'an alias of nothing');
  const itself = readYaml('p: &x {<<: *x}\n', 'f.yaml');
  t.match(itself.problems, [{ code: 'too-deep', line: 1 }], 'an alias within what it names');
});

t.test('a number is no key beside merge keys: kubectl takes it or its text at random', async (t) => {
  for (const text of ['<<: {1: a}\n"1": b\n', '<<: {"1": a}\n1: b\n', '<<: [{"1": a}, {1: b}]\n'])
    t.match(readYaml(text, 'f.yaml').problems, [{ code: 'yaml-syntax', message: /a number is a key/ }], text);
  t.strictSame(readYaml('<<: {"1": a}\n"1": b\n', 'f.yaml').documents[0]?.value, { 1: 'b' });
});
