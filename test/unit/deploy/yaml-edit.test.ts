import t from 'tap';
import type { Change } from '../../../lib/deploy/yaml-changes.ts';
import { NotEditable, YamlText } from '../../../lib/deploy/yaml-edit.ts';

const edit = (text: string, ...changes: Change[]): string => new YamlText(text).apply(new Map([[0, changes]]));
const add = (path: Change['path'], entries: Record<string, unknown>): Change => ({ kind: 'add', path, entries });
const put = (path: Change['path'], ...items: unknown[]): Change => ({ kind: 'add', path, items });

t.test('additions, and their removal', async (t) => {
  const key: Change = { kind: 'remove', path: ['m'], keys: ['k'] };
  const item: Change = { kind: 'remove', path: ['m'], indices: [0] };
  const restored = (restore: string, removal: Change): Change => ({ ...removal, restore }) as Change;
  const rows: [name: string, before: string, Change, after: string, Change][] = [
    ['a block mapping', 'm:\n  a: 1\n', add(['m'], { k: 'v' }), 'm:\n  k: v\n  a: 1\n', key],
    ['its comments', 'm: # m\n  # a\n  a: 1 # b\n', add(['m'], { k: 1 }), 'm: # m\n  k: 1\n  # a\n  a: 1 # b\n', key],
    ['an anchor', 'm: &x\n  a: 1\n', add(['m'], { k: 1 }), 'm: &x\n  k: 1\n  a: 1\n', key],
    ['four columns', 'm:\n    a: 1\n', add(['m'], { k: { l: 1 } }), 'm:\n    k:\n        l: 1\n    a: 1\n', key],
    ['no line end', 'm:\n  a: 1', add(['m'], { k: 1 }), 'm:\n  k: 1\n  a: 1', key],
    ['CRLF', 'm:\r\n  a: 1\r\n', add(['m'], { k: 1 }), 'm:\r\n  k: 1\r\n  a: 1\r\n', key],
    ['a flow mapping', 'm: { a: 1 }\n', add(['m'], { k: 'v' }), 'm: { "k":"v", a: 1 }\n', key],
    ['a flow mapping of lines', 'm: {\n  a: 1\n}\n', add(['m'], { k: 1 }), 'm: {\n  "k": 1,\n  a: 1\n}\n', key],
    ['nothing', 'm:\nn: 1\n', add(['m'], { k: 1 }), 'm:\n  k: 1\nn: 1\n', key],
    ['nothing, at the end', 'm:', add(['m'], { k: 1 }), 'm:\n  k: 1', key],
    ['null', 'm: null # n\n', add(['m'], { k: 1 }), 'm: # n\n  k: 1\n', restored(' null', key)],
    ['{}', 'm: {}\nn: 1\n', add(['m'], { k: 1 }), 'm:\n  k: 1\nn: 1\n', restored(' {}', key)],
    ['null in flow', '{m: null, n: 1}\n', add(['m'], { k: 1 }), '{m: {"k":1}, n: 1}\n', restored(' null', key)],
    ['a list', 'm:\n- a\n', put(['m'], { k: 1 }), 'm:\n- k: 1\n- a\n', item],
    ['an indented list', 'm:\n  # a\n  - a\n', put(['m'], 'b'), 'm:\n  - b\n  # a\n  - a\n', item],
    ['a flow list', 'm: [a]\n', put(['m'], 'b'), 'm: ["b", a]\n', item],
    ['[]', 'o:\n  - x\nm: []\n', put(['m'], 'b'), 'o:\n  - x\nm:\n  - b\n', restored(' []', item)],
    [
      'lines that go on',
      "n: 'a\nb'\nm:\n  a: [1,\n  2]\n",
      add(['m'], { k: 1 }),
      "n: 'a\nb'\nm:\n  k: 1\n  a: [1,\n  2]\n",
      key,
    ],
    ['a flow list that goes on', 'm: [a,\nb]\n', put(['m'], 'c'), 'm: ["c", a,\nb]\n', item],
    ['YAML 1.1 words', 'm:\n  a: 1\n', add(['m'], { k: 'yes' }), 'm:\n  k: "yes"\n  a: 1\n', key],
    [
      'below a block scalar',
      's: |+\n  x\n\nm:\n  a: 1\n',
      add(['m'], { k: 1 }),
      's: |+\n  x\n\nm:\n  k: 1\n  a: 1\n',
      key,
    ],
  ];
  for (const [name, before, change, after, removal] of rows) {
    t.equal(edit(before, change), after, name);
    t.equal(edit(after, removal), before, `${name}, and back`);
  }
});

t.test('removals that no addition has made', async (t) => {
  const keys = (...names: string[]): Change => ({ kind: 'remove', path: ['m'], keys: names });
  const rows: [name: string, before: string, Change, after: string][] = [
    ['the last of a flow mapping', 'm: {a: 1, k: 2}\n', keys('k'), 'm: {a: 1}\n'],
    ['the middle', 'm: {a: 1, k: 2, l: 3, b: 4}\n', keys('k', 'l'), 'm: {a: 1, b: 4}\n'],
    ['all of it', 'm: {k: 2, l: 3}\n', keys('k', 'l'), 'm: {}\n'],
    ['both ends', 'm: [1, 2, 3]\n', { kind: 'remove', path: ['m'], indices: [0, 2] }, 'm: [2]\n'],
    ['a block scalar', 'm:\n  k: |\n    x\n    y\n  a: 1\n', keys('k'), 'm:\n  a: 1\n'],
    ['what is not there', 'm:\n  a: 1\n', keys('k'), 'm:\n  a: 1\n'],
  ];
  for (const [name, before, change, after] of rows) t.equal(edit(before, change), after, name);
});

t.test('other documents are not touched', async (t) => {
  const text = '# one\nm:   {a:  1}\n---\n# two\nm:\n  a: 1\n--- # three\n{ "x" : [ ] }\n';
  const changed = new YamlText(text).apply(new Map([[1, [add(['m'], { k: 1 })]]]));
  t.equal(changed, '# one\nm:   {a:  1}\n---\n# two\nm:\n  k: 1\n  a: 1\n--- # three\n{ "x" : [ ] }\n');
});

t.test('what cannot be written without writing something else', async (t) => {
  const rows: [name: string, text: string, Change, RegExp, line: number][] = [
    ['an alias elsewhere', 'm: &x\n  a: 1\nn: *x\n', add(['m'], { k: 1 }), /also change something else/, 1],
    ['an alias on the way', 'x: &x {m: {a: 1}}\nn: *x\n', add(['n', 'm'], { k: 1 }), /n is an alias/, 2],
    ['a merge key', 'x: &x {m: {a: 1}}\nn:\n  <<: *x\n', add(['n', 'm'], { k: 1 }), /n\.m comes from a merge key/, 3],
    ['a scalar', 'm: a\n', add(['m', 'n'], { k: 1 }), /m is neither a mapping nor a list/, 1],
    ['a key with a question mark', '? m\n: a: 1\n', add(['m'], { k: 1 }), /./, 1],
    ['an anchor on a line of its own', 'm:\n  &x\n  a: 1\n', add(['m'], { k: 1 }), /./, 1],
  ];
  for (const [name, text, change, message, line] of rows) {
    try {
      t.fail(`${name}: ${edit(text, change)}`);
    } catch (error) {
      t.ok(error instanceof NotEditable, `${name}: ${error}`);
      t.match((error as NotEditable).message, message, name);
      t.equal((error as NotEditable).line, line, `${name}: line`);
    }
  }
  t.throws(() => new YamlText('m: *x\n'), 'an alias without an anchor is for the reader of before');
  t.throws(() => new YamlText('x: &x {m: 1}\nn: *x\n').place(0, ['n']), { name: 'NotEditable' });
});
