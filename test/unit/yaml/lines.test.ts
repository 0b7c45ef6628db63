import t from 'tap';
import { readYaml } from '../../../lib/yaml.ts';

/* How kubectl's reader (k8s.io/apimachinery 0.36.3) cuts a text into lines and documents. */

t.test('documents begin behind lines of dashes', async (t) => {
  const rows: readonly (readonly [text: string, ...values: unknown[]])[] = [
    ['a: 1\n...\n', { a: 1 }],
    ['a: 1\n...\n# c\n', { a: 1 }],
    ['a: 1\n... # c\n---\nb: 2\n', { a: 1 }, { b: 2 }],
    ['a: 1\n...\n# d\n---\nb: 2\n...\n', { a: 1 }, { b: 2 }],
    ['--- # c\na: 1', { a: 1 }],
    ['---\t# c\na: 1', { a: 1 }],
    ['---   \na: 1\n---\t\nb: 1', { a: 1 }, { b: 1 }],
    ['---\r\na: 1\r\n---\r\nb: 1\r\n', { a: 1 }, { b: 1 }],
    ['a: |\n  ---\n  %x\n  ...\n  --- y\n', { a: '---\n%x\n...\n--- y\n' }],
    ['a: x\n %y\n', { a: 'x %y' }],
    ['a: "x\n  --- z\n  y"', { a: 'x --- z y' }],
    ['\ufeff---\na: 1', { a: 1 }],
    ['\ufeffa: 1\nb: 2', { a: 1, b: 2 }],
    ['\ufeff- a\n- b', ['a', 'b']],
    ['\ufeff# c\n- a\n', ['a']],
  ];
  for (const [text, ...values] of rows) {
    const { documents, problems } = readYaml(text, 'f.yaml');
    t.same(problems, [], encodeURIComponent(text));
    t.strictSame(
      documents.map(({ value }) => value),
      values,
      encodeURIComponent(text),
    );
  }
});

t.test('what kubectl cuts or reads otherwise is refused', async (t) => {
  // Behind each, what kubectl reads if it does not refuse the text as well.
  const rows: readonly (readonly [text: string, line: number, message: RegExp])[] = [
    ['a: 1\n...\nb: 2', 3, /behind "\.\.\."/], // {"a": 1}
    ['- a\n...\n- b', 3, /behind "\.\.\."/], // ["a"]
    ['a: 1\n...\n---\nb: 2\n...\nc: 3\n', 6, /behind "\.\.\."/], // {"a": 1}, {"b": 2}
    ['...\na: 1', 2, /behind "\.\.\."/],
    ['a: 1\n--- {b: 2}', 2, /behind its "---"/],
    ['--- {a: 1}', 1, /behind its "---"/],
    ['--- |\n x\n', 1, /behind its "---"/],
    ['---a: 1', 1, /behind its "---"/],
    ['---#c\na: 1', 1, /behind its "---"/],
    ['a: 1\n----\nb: 2', 2, /behind its "---"/],
    ['a: 1\nb: # c\u2028  c: 1\n', 2, /for some readers only/], // {"a": 1, "b": {"c": 1}}
    ['# x\u2029a: 1\n', 1, /for some readers only/], // {"a": 1}
    ['# x\x85a: 1\n', 1, /for some readers only/], // {"a": 1}
    ['a: 1\n---\n\ufeffkind: b\n', 3, /byte order mark/], // {"a": 1}, {"kind": "b"}
    ['\ufeff\ufeffa: 1\n', 1, /byte order mark/],
    ['\ufeff  a: 1\nb: 2\n', 2, /./], // {"a": 1}
    ['a: "b\u2028c"', 1, /for some readers only/], // {"a": "b\u2028c"}
    ...['\0', '\x01', '\x07', '\x1f', '\x7f', '\x80', '\x9f', '\ufffe', '\uffff'].flatMap((character) =>
      ['a: 1\nb: "_"', 'a: 1\nb: _', 'a: 1\n# _'].map(
        (text) => [text.replace('_', character), 2, /control character/] as const,
      ),
    ),
  ];
  for (const [text, line, message] of rows) {
    const { problems } = readYaml(text, 'f.yaml');
    t.match(problems, [{ code: 'yaml-syntax', line, message }], encodeURIComponent(text));
  }
});

t.test('marks of flow collections need no blank behind them for kubectl', async (t) => {
  // {"a": {"b": 1}}, ["a", {"b": null}], [{"b": 1}]; the others it refuses.
  const texts = ['a: {?b: 1}', '[a, ?b]', '- {?b: 1}', 'a: {b: :c}', 'a: [:b]', 'a: {:b: 1}', 'a: {b: &x ?c}'];
  for (const text of texts) {
    const hint = 'Write the text in quotes.';
    t.match(readYaml(text, 'f.yaml').problems, [{ code: 'yaml-syntax', line: 1, hint }], text);
  }
  // "a:", {"k:": null, "b": 1}, ["a:", "b"], ["http://x:"]; the last three it refuses.
  const colons = ['- {a:}', 'a: {k:,b: 1}', '[a:,b]', '- [http://x:]', '- {a:[1]}', 'a: {b:{c: 1}}', '[a:[1]]'];
  for (const text of colons)
    t.match(readYaml(text, 'f.yaml').problems, [{ code: 'yaml-syntax', line: 1, hint: /blank/ }], text);
  const spaced = readYaml('- {a: }\n- {"a":}\n- [a: ]\n- {a:\n  }\n- {a:b}\n', 'f.yaml').documents[0]?.value;
  t.strictSame(spaced, [{ a: null }, { a: null }, [{ a: null }], { a: null }, { 'a:b': null }]);
  const [document] = readYaml("?b: :c\n-d: [':e', '?f', a:b]\n", 'f.yaml').documents;
  t.strictSame(document?.value, { '?b': ':c', '-d': [':e', '?f', 'a:b'] });
});
