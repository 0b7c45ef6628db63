import t from 'tap';
import { readYaml } from '../../lib/yaml.ts';

const values = (text: string): unknown[] => readYaml(text, 'f.yaml').documents.map(({ value }) => value);

t.test('documents of one text', async (t) => {
  const rows: [string, string, unknown[]][] = [
    ['several, and empty ones skipped', 'a: 1\n---\n---\n# nothing\n---\nb: 2\n', [{ a: 1 }, { b: 2 }]],
    ['nothing at all', '', []],
    ['comments alone', '# a\n', []],
    ['JSON', '{"a": [1, "2"]}', [{ a: [1, '2'] }]],
    [
      'integers with a zero before them, as kubectl reads them',
      'a: 017620\nb: [010, -07, 08, 0, "010"]',
      [{ a: 8080, b: [8, -7, 8, 0, '010'] }],
    ],
    ['timestamps stay strings', 'at: 2026-01-02T03:04:05Z', [{ at: '2026-01-02T03:04:05Z' }]],
    ['a quoted number stays a string', 'port: "8080"', [{ port: '8080' }]],
    ['YAML 1.1: yes and off are truth values', 'a: yes\nb: off', [{ a: true, b: false }]],
    ['anchors', 'a: &x [1]\nb: *x', [{ a: [1], b: [1] }]],
    ['merge keys', 'a: &x {p: 1}\nb: {<<: *x, q: 2}', [{ a: { p: 1 }, b: { p: 1, q: 2 } }]],
  ];
  for (const [name, text, expected] of rows) t.same(values(text), expected, name);
});

t.test('a key named __proto__ stays a key', async (t) => {
  const [value] = values('__proto__: {polluted: true}') as [object];
  t.ok(Object.hasOwn(value, '__proto__'));
  t.equal(Object.getPrototypeOf(value), Object.prototype);
});

t.test('what is not YAML is a problem with its place, and no document', async (t) => {
  const bomb = ['a: &a [x,x,x,x,x,x,x,x,x,x]'];
  for (const [name, before] of ['ba', 'cb', 'dc', 'ed', 'fe'].map((pair) => [...pair] as [string, string])) {
    bomb.push(`${name}: &${name} [${Array(10).fill(`*${before}`).join(',')}]`);
  }
  const rows: [string, string, string, number, number][] = [
    ['duplicate key', 'a: 1\nb: 2\na: 3\n', 'duplicate-key', 3, 1],
    ['a key that is an alias of another', '&k a: 1\n*k : 2\n', 'duplicate-key', 2, 1],
    ['a number and its text as keys', '1: a\n"1": b\n', 'duplicate-key', 2, 1],
    ['another number as a key', 'a: 1\n01: b\n', 'yaml-syntax', 2, 1],
    ['lines that end in a carriage return', '# a\rb: 1\r', 'yaml-syntax', 1, 4],
    ['one of them', 'a: 1\r\n# b\r  c: 2\r\n', 'yaml-syntax', 2, 4],
    ['a tab as indentation', 'a:\n\tb: 1\n', 'yaml-syntax', 2, 1],
    ['an unclosed bracket', 'a: [1, 2\n', 'yaml-syntax', 2, 1],
    ['an unclosed quote', 'a: "b\n', 'yaml-syntax', 2, 1],
    ["a tag of one's own", 'a: !secret b\n', 'yaml-syntax', 1, 4],
    ['an alias to nothing', 'a: *b\n', 'yaml-syntax', 1, 4],
    ['an alias before its anchor', 'a: {b: *c}\nd: &c 1\n', 'yaml-syntax', 1, 8],
    ['more aliases than may be', `a: &b 1\nc: [${Array(1001).fill('*b')}]\n`, 'yaml-syntax', 2, 3005],
    ['aliases that multiply without end', bomb.join('\n'), 'yaml-syntax', 1, 1],
  ];
  for (const [name, text, code, line, column] of rows) {
    const { documents, problems } = readYaml(text, 'f.yaml');
    t.same(documents, [], `${name}: no document`);
    t.match(problems[0], { severity: 'error', code, file: 'f.yaml', line, column, resource: null }, name);
  }
});

t.test('the remedy of a slip that many make', async (t) => {
  const template = 'Render the template first, as by helm template.';
  const separator = 'Where another document begins, write --- on a line before it; else keep one of the two.';
  const server = 'apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n';
  const rows: [name: string, text: string, hint: string, line: number][] = [
    ['two documents with nothing between them', server + server, separator, 4],
    [
      'a key twice in a mapping of a document',
      'apiVersion: v1\nkind: Pod\nspec: {a: 1, a: 2}\n',
      'Keep one of the two.',
      3,
    ],
    ['a key twice in what is no document', 'a: 1\na: 2\n', 'Keep one of the two.', 2],
    ['a template of Helm as a value', 'metadata:\n  name: {{ .Release.Name }}\n', template, 2],
    ['one as a line', 'a: 1\n{{- if .Values.on }}\nb: 2\n{{- end }}\n', template, 2],
    ['a list as a key', 'a: {[b]: d}\n', 'Write the key as a text.', 1],
  ];
  for (const [name, text, hint, line] of rows) t.match(readYaml(text, 'f.yaml').problems[0], { hint, line }, name);
});

t.test('aliases without number are counted, not followed', async (t) => {
  const text = `a: &x {b: 1}\nc:\n${'- {<<: *x}\n'.repeat(20_000)}`;
  const before = process.cpuUsage();
  t.match(readYaml(text, 'f.yaml').problems, [{ message: 'there are more than 1000 aliases', line: 1003 }]);
  const { user } = process.cpuUsage(before);
  t.ok(user < 20e6, `${user} µs, not minutes`);
});

t.test('one bad document leaves the others readable', async (t) => {
  const { documents, problems } = readYaml('a: 1\n---\nb: 1\nb: 2\n---\nc: 3\n', 'f.yaml');
  t.same(
    documents.map(({ value }) => value),
    [{ a: 1 }, { c: 3 }],
  );
  t.match(problems, [{ code: 'duplicate-key', line: 4 }]);
});

t.test('where a field stands', async (t) => {
  const text = `kind: List
items:
  - kind: Server
    spec:
      port: 80
      list: [a, b]
---
base: &base {x: 1}
use: *base
`;
  const [first, second] = readYaml(text, 'f.yaml').documents;
  const rows: [string, (string | number)[], [number, number]][] = [
    ['the document', [], [1, 1]],
    ['a key', ['kind'], [1, 1]],
    ['an item', ['items', 0], [3, 5]],
    ['a key in an item', ['items', 0, 'spec', 'port'], [5, 7]],
    ['an item of a flow list', ['items', 0, 'spec', 'list', 1], [6, 17]],
    ['a missing field: its parent', ['items', 0, 'spec', 'nope', 'deeper'], [4, 5]],
    ['a missing item: its list', ['items', 7], [2, 1]],
  ];
  for (const [name, path, [line, column]] of rows) t.same(first?.position(path), { line, column }, name);
  t.same(second?.position(['use', 'x']), { line: 8, column: 14 }, 'through an alias: where it was written');
});
