import t from 'tap';
import { readYaml } from '../../../lib/yaml.ts';

t.test('a text may say that it is one', async (t) => {
  const texts: readonly (readonly [text: string, value: string])[] = [
    ['!!str 8080', '8080'],
    ['!!str 017620', '017620'],
    ['!!str', ''],
    ['!!str ~', '~'],
    ['!!str on', 'on'],
    ['!!str true', 'true'],
    ['!!str 2001-01-01', '2001-01-01'],
    ['!!str "x"', 'x'],
    ['!!str |\n  x\n  y\n', 'x\ny\n'],
    ['!<tag:yaml.org,2002:str> 010', '010'],
    ['&x !!str 010', '010'],
  ];
  for (const [text, value] of texts) {
    const { documents, problems } = readYaml(`a: ${text}`, 'f.yaml');
    t.same(problems, [], text);
    t.strictSame(documents[0]?.value, { a: value }, text);
  }
});

/* Behind each, what kubectl's library (sigs.k8s.io/yaml 1.6.0) reads, or that it refuses it. */
const refused: readonly string[] = [
  ...['!!int 017620', '!!int "017620"', '!<tag:yaml.org,2002:int> 017620', '!!int 8_080', '!!int 0x1f90'], // 8080
  ...['!!int 8080', '!!int "8080"', '&x !!int 8080', '!!int &x 8080'], // 8080
  '!!int 0b1', // 1
  ...['!!int 1.5', '!!int x', '!!int ""', '!!int true'], // refused
  '!!float 1', // 1
  '!!float 017', // 15
  '!!float .inf', // refused
  ...['!!bool yes', '!!bool y', '!!bool true', '!!bool "true"'], // true
  '!!bool 1', // refused
  ...['!!null ""', '!!null', '!!null ~'], // null
  ...['!!null x', '!!timestamp x', '!!binary x'], // refused
  '!!null {x: 1}', // {"x": 1}
  '!!binary aGk=', // "hi"
  '!!timestamp 2001-01-01', // "2001-01-01"
  '!!set {x, z}', // {"x": null, "z": null}
  ...['!!omap [x: 1]', '!!pairs [x: 1]'], // [{"x": 1}]
  '!!merge x', // "x"
  ...['!!map {x: 1}', '!!seq {x: 1}', '!!str {x: 1}', '!foo {x: 1}', '! {x: 1}'], // {"x": 1}
  ...['!!seq [1]', '!!map [1]', '!!str [1]', '!foo [1]'], // [1]
  ...['!foo 1', '! 1', '! "1"', '!<!foo> 1'], // "1"
];

t.test('any other tag is refused, also where kubectl finds a meaning', async (t) => {
  for (const each of refused) {
    const text = `- b: 1\n- a: ${each}\n`;
    const { documents, problems } = readYaml(text, 'f.yaml');
    t.same(documents, [], each);
    const hint = 'Remove the tag; quote the value if it is to be a string.';
    t.match(problems, [{ code: 'yaml-syntax', line: 2, hint }], each);
  }
});

t.test('no key has a tag', async (t) => {
  // kubectl: {"<<": {"a": 1}}, merged, merged, {"on": 1}, {"8": 1}, {"true": 1}.
  const keys = ['!!str <<: {a: 1}', '!!merge <<: {a: 1}', '!!merge "<<": {a: 1}', '!!str on: 1', '!!int 010: 1'];
  for (const text of [...keys, '!!bool on: 1', '!!str a: 1'])
    t.match(readYaml(`${text}\n`, 'f.yaml').problems, [{ code: 'yaml-syntax', line: 1 }], text);
});

t.test('a handle of one document changes no tag', async (t) => {
  const texts = ['%TAG !! tag:x.y,2000:\n---\na: !!str 1\n', '%TAG !e! tag:yaml.org,2002:\n---\na: !e!int 010\n'];
  for (const text of texts) t.match(readYaml(text, 'f.yaml').problems, [{ code: 'yaml-syntax' }], text);
});
