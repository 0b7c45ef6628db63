import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { readAnyYaml } from '../../../lib/yaml/any.ts';
import { readOrdinaryYaml } from '../../../lib/yaml/ordinary.ts';
import { readYaml } from '../../../lib/yaml.ts';
import fc from '../../support/properties.ts';
import { pages, textOf } from '../../support/readme-page.ts';
import { checkout } from '../../support/sallyport.ts';
import { agreementOn, yamlText } from '../../support/yaml-texts.ts';

const read = (text: string) => readOrdinaryYaml(text, 'f.yaml');

const applied = `apiVersion: v1
items:
- apiVersion: policy.linkerd.io/v1beta3
  kind: Server
  metadata:
    annotations:
      kubectl.kubernetes.io/last-applied-configuration: |
        {"apiVersion":"policy.linkerd.io/v1beta3","kind":"Server","spec":{"port":8080,"x":"a # *b"}}
    creationTimestamp: "2026-01-02T03:04:05Z"
    generation: 1
    name: web
    namespace: shop
    resourceVersion: "4711"
    uid: 12345678-9abc-def0-1234-56789abcdef0
  spec:
    podSelector:
      matchLabels:
        app: web
    port: 8080
- apiVersion: policy.linkerd.io/v1alpha1
  kind: NetworkAuthentication
  metadata: {}
  spec:
    networks:
    - cidr: 10.0.0.0/8
      except:
      - 10.1.0.0/16
    - cidr: 2001:db8::/32
    - cidr: fd00::/8
kind: List
metadata:
  resourceVersion: ""
`;

t.test('what kubectl prints and people write is read quickly', async (t) => {
  const rows: readonly (readonly [string, string])[] = [
    ['kubectl get -o yaml', applied],
    ['several documents', 'a: 1\n---\n# what follows\n---\nb: 2 # why\n\n---\n'],
    ['a document that begins with a mark', '---\na: 1'],
    ['strings in quotes', `a: "b # c"\nd: 'e: f'\ng: "\\"h\\" \\\\d"\n"i": ["j, k", '[l]']\n`],
    ['letters of any language', 'a: "größer" # größer als 日本\n'],
    ['flow collections', 'a: [b, {c: d, e: [1, 2]}]\nf: { g: h }\ni: []\nj: {}\n'],
    ['lists, indented or not', 'a:\n- b: 1\n  c: 2\nd:\n  - - e\n    - f\n  - g: [h]\n'],
    ['words that only look like truth values', 'on-call: no-store\ny1: /on\nno.x: [offset, y, n]\na: {yes-b: One}\n'],
    ['values', 'a: true\nb: null\nc:\nd: -1\ne: 10.0.0.1\nf: 10s\ng: ^/x/[0-9]+$\nh: http://i:80/?j=k\n'],
  ];
  for (const [name, text] of rows) {
    t.not(read(text), null, name);
    t.equal(agreementOn(text), 'same', `${name}: the same`);
  }
});

t.test('what two readers might take for different things is not', async (t) => {
  const rows: readonly (readonly [string, readonly string[]])[] = [
    ['anchors, aliases, tags, merge keys', ['a: &b 1', 'a: *b', 'a: !b 1', 'a: !!str 1', '<<: {a: 1}', '"<<": {a: 1}']],
    ['directives and ends of documents', ['%YAML 1.2\n---\na: 1', 'a: 1\n...\nb: 2', '--- a', '--- {a: 1}']],
    ['keys that are no words', ['1: a', 'true: a', 'Null: a', '? a', '? a\n: b', ': a', '[a]: b', '__proto__: {a: 1}']],
    ['keys twice', ['a: 1\na: 2', 'a: {b: 1, b: 2}', 'a: 1\n"a": 2']],
    ['truth values as keys', ['on: a', 'y: a', 'N: a', 'a: {off: b}', '- No: a', '"yes": a']],
    ['numbers', ['0o17', '0x1f', '+12', '.5', '1.5', '1e3', '.inf', '.nan', '1_000', '-0', '007', '9'.repeat(16)]],
    [
      'words',
      ['~', 'Null', 'NULL', 'True', 'TRUE', 'False', 'FALSE', 'yes', 'On', 'NO', 'off', '[on]', '{b: no}', 'on fire'],
    ],
    ['timestamps', ['2026-01-02', '2026-01-02T03:04:05Z']],
    [
      'line ends and other spaces',
      ['a: 1\r\nb: 2', 'a: 1 # b\rc: 2', 'a:\t1', '\ta: 1', '\ufeffa: 1', 'a: b # \u2028'],
    ],
    ['controls', ['a: "\u0085"', 'a: "\u0000"', 'a: "\u007f"', '# \u0001']],
    ['strings over lines', ['a: b\n  c', 'a: "b\n  c"', "a: 'b\n  c'", '- a\n  b', '- a\n  - b', 'a:\n  b']],
    ['escapes', ['a: "\\n"', 'a: "\\x41"', "a: 'b''c'"]],
    [
      'blocks',
      ['a: |2\n  b', 'a: |-\n  b', 'a: >\n  b', '- |\n  a', 'a: |\n\n  b', 'a: |\n  b\n  c', 'a: |\n b', 'a: |'],
    ],
    [
      'flow collections',
      ['a: [b,\n  c]', 'a: {b}', 'a: [b: c]', 'a: [b, ]', 'a: {"b":c}', 'a: [[[[b]]]]', '{a: 1}', '[a]'],
    ],
    ['a dash with nothing behind it', ['- ', '-', 'a:\n  -\n    b: 1', '- # a']],
    ['no YAML', ['a: b: c', 'a', 'a: "b" c', 'a: "b"#c', 'a: [b', 'a:\n  b: 1\n c: 2', 'a:\n    - b\n  - c']],
  ];
  for (const [name, texts] of rows)
    for (const each of texts) {
      const text = name === 'numbers' || name === 'words' || name === 'timestamps' ? `a: ${each}\n` : `${each}\n`;
      t.equal(read(text), null, `${name}: ${encodeURIComponent(each)}`);
    }
});

t.test('what is large or deep neither throws nor takes long', async (t) => {
  const size = 2_000_000;
  const deep = (levels: number): string => Array.from({ length: levels }, (_, i) => `${' '.repeat(i)}a:\n`).join('');
  const rows: readonly (readonly [string, string])[] = [
    ['a long string', `a: "${'x'.repeat(size)}"\n`],
    ['a long word', `a: ${'x '.repeat(size)}y\n`],
    ['a long list', `a: [${'x, '.repeat(size)}y]\n`],
    ['many dashes', `${'- '.repeat(size)}a\n`],
    ['deep in dashes', `${'- '.repeat(4000)}a\n`],
    ['deep in brackets', `a: ${'['.repeat(4000)}\n`],
    ['deep in lines', deep(3000)],
  ];
  for (const [name, text] of rows) t.equal(read(text), null, name);
  t.equal(agreementOn(deep(99)), 'same', 'as deep as may be');
  t.match(readYaml(deep(101), 'f.yaml').problems, [{ code: 'too-large' }], 'deeper');
});

t.test('keys that objects have from elsewhere are keys', async (t) => {
  const [document] = read('constructor: {prototype: {a: 1}}\ntoString: b\nhasOwnProperty: c\n')?.documents ?? [];
  t.same(Object.keys(document?.value ?? {}), ['constructor', 'toString', 'hasOwnProperty']);
  t.equal(Object.getPrototypeOf(document?.value), Object.prototype);
  t.equal(({} as { a?: unknown }).a, undefined);
});

t.test('ten thousand items know their places at once', async (t) => {
  const items = Array.from({ length: 10_000 }, (_, i) => `  - name: n${i}\n`).join('');
  const [document] = read(`items:\n${items}`)?.documents ?? [];
  const places = Array.from({ length: 10_000 }, (_, i) => document?.position(['items', i, 'name']));
  t.same(places.at(-1), { line: 10_001, column: 5 });
});

/** The YAML of the repository, of its pages, and of the cases that lie beside it. */
function corpus(): string[] {
  const texts = ['test/fixtures', 'test/cases', 'lib', 'benchmarks'].flatMap((folder) =>
    readdirSync(join(checkout, folder), { recursive: true, encoding: 'utf8' })
      .filter((name) => /\.(?:ya?ml|json)$/.test(name))
      .map((name) => readFileSync(join(checkout, folder, name), 'utf8')),
  );
  for (const page of [...pages, 'CONTRIBUTING.md', 'lib/deploy/systemd/README.md'])
    for (const [, block] of textOf(page).matchAll(/```ya?ml\n([\s\S]*?)```/g)) texts.push(block ?? '');
  const shared = join(process.env.SALLYPORT_SHARED ?? join(checkout, '..', 'shared'), 'cases');
  try {
    for (const name of readdirSync(shared).filter((each) => each.endsWith('.yaml')))
      texts.push(readFileSync(join(shared, name), 'utf8'));
  } catch {
    // They are no part of the repository.
  }
  return texts;
}

/** All texts in a value that look like documents. */
function* documentsIn(value: unknown): Generator<string> {
  if (typeof value === 'string') {
    if (/^(?:- )?[\w"]+:/m.test(value)) yield value;
  } else if (typeof value === 'object' && value !== null)
    for (const inner of Object.values(value)) yield* documentsIn(inner);
}

t.test('the YAML that there is says the same to both', async (t) => {
  const texts = corpus();
  for (const text of [...texts])
    for (const { value } of readAnyYaml(text, 'f.yaml').documents) texts.push(...documentsIn(value));
  const agreements = texts.map(agreementOn);
  t.same(
    agreements.filter((each) => typeof each !== 'string'),
    [],
  );
  const same = agreements.filter((each) => each === 'same').length;
  // Without the shared cases, which need not be there.
  t.ok(same >= 5, `${same} of ${texts.length} are ordinary`);
});

t.test('generated texts say the same to both', async () => {
  const property = fc.property(yamlText, (text) => typeof agreementOn(text) === 'string');
  fc.assert(property, { numRuns: 1000 });
});
