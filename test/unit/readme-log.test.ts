import { readdirSync, readFileSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import { join, resolve } from 'node:path';
import { type AnyNode, type Expression, parse, type SpreadElement } from 'acorn';
import t from 'tap';
import { LineRules } from '../../lib/telemetry/line-rules.ts';
import { visit } from '../support/late/rewrite.ts';
import { section } from '../support/readme-page.ts';

// The table of log lines holds every message from `info` on that lib/ writes, and none besides.

const root = resolve(import.meta.dirname, '../..');
const levels = new Set(['info', 'warn', 'error']);

interface Code {
  /** What is given as the message of a line, with `…` for what is filled in. */
  readonly messages: Map<string, string>;
  /** Every text. */
  readonly texts: readonly string[];
}

function textsOf(node: Expression | SpreadElement | undefined): string[] {
  if (node?.type === 'Literal') return typeof node.value === 'string' ? [node.value] : [];
  if (node?.type === 'TemplateLiteral') return [node.quasis.map(({ value }) => value.cooked).join('…')];
  if (node?.type === 'ConditionalExpression') return [...textsOf(node.consequent), ...textsOf(node.alternate)];
  return [];
}

/** Whether this may be a call of the log: a level that is computed may be any. */
function isLogged({ callee }: AnyNode & { type: 'CallExpression' }): boolean {
  if (callee.type !== 'MemberExpression') return false;
  return callee.computed || (callee.property.type === 'Identifier' && levels.has(callee.property.name));
}

function read(): Code {
  const messages = new Map<string, string>();
  const texts: string[] = [];
  const inLib = readdirSync(join(root, 'lib'), { recursive: true, encoding: 'utf8' }).map((name) => `lib/${name}`);
  for (const file of [...inLib, 'bin/run.ts']) {
    if (!file.endsWith('.ts')) continue;
    const source = stripTypeScriptTypes(readFileSync(join(root, file), 'utf8'));
    visit(parse(source, { ecmaVersion: 'latest', sourceType: 'module' }), (node) => {
      if (node.type === 'Literal' || node.type === 'TemplateLiteral') texts.push(...textsOf(node));
      if (node.type !== 'CallExpression' || node.arguments.length !== 2 || !isLogged(node)) return;
      // Messages begin with a capital: what else is called with a level and two arguments is none.
      for (const text of textsOf(node.arguments[1])) if (/^[A-Z…]/.test(text)) messages.set(text, file);
    });
  }
  return { messages, texts };
}

/** `…` stands for anything. */
function patternOf(text: string): RegExp {
  const parts = text.split('…').map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'));
  return new RegExp(`^${parts.join('.*')}$`);
}

const isLike = (one: string, other: string): boolean => patternOf(one).test(other) || patternOf(other).test(one);

const code = read();
// Of clients and the app: each is a row of the table of rates, and no other can be given.
for (const message of new LineRules().messages) code.messages.set(message, 'lib/telemetry/line-rules.ts');
const shown = [...section('Logs').matchAll(/^\| (`[^|]*) \|/gm)].flatMap(([, names = '']) =>
  [...names.matchAll(/`([^`]+)`/g)].map(([, name = '']) => name),
);

t.ok(code.messages.size > 40, 'messages are found at all');
t.ok(shown.length > 40, 'the table is found');

/** Any line is like this one, in which all is filled in; it has rows of its own. */
const problem = '…: …';

t.test('every message has its row', async (t) => {
  t.ok(code.messages.delete(problem) && shown.includes('Policy: …'));
  for (const [message, file] of code.messages) {
    const isShown = shown.some((name) => isLike(name, message));
    t.ok(isShown, `${message} (${file})`);
  }
});

t.test('every row is of a message', async (t) => {
  const texts = code.texts.filter((text) => /[A-Za-z]/.test(text));
  for (const name of shown) t.ok(name.endsWith(': …') || texts.some((text) => isLike(name, text)), name);
});
