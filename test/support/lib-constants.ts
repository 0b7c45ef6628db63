import { readFileSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import { join, resolve } from 'node:path';
import { type AnyNode, type Expression, parse } from 'acorn';
import { visit } from './late/rewrite.ts';

const root = resolve(import.meta.dirname, '../..');

/** What an expression of numbers comes to; null for any other. */
function numberOf(node: Expression, known: ReadonlyMap<string, number>): number | null {
  if (node.type === 'Literal') return typeof node.value === 'number' ? node.value : null;
  if (node.type === 'Identifier') return known.get(node.name) ?? null;
  if (node.type !== 'BinaryExpression' || node.left.type === 'PrivateIdentifier') return null;
  const [left, right] = [numberOf(node.left, known), numberOf(node.right, known)];
  if (left === null || right === null) return null;
  const operations: Readonly<Record<string, number>> = {
    '*': left * right,
    '/': left / right,
    '**': left ** right,
    '<<': left << right,
    '-': left - right,
  };
  return operations[node.operator] ?? null;
}

const constants = new Map<string, ReadonlyMap<string, number>>();

/** The numbers that a file of lib/ has names for, `name` or `name.key`. */
function constantsOf(file: string): ReadonlyMap<string, number> {
  const known = constants.get(file);
  if (known !== undefined) return known;
  const found = new Map<string, number>();
  const add = (name: string, value: Expression): void => {
    const number = numberOf(value, found);
    if (number !== null) found.set(name, number);
    if (value.type !== 'ObjectExpression') return;
    for (const property of value.properties) {
      if (property.type !== 'Property' || property.key.type !== 'Identifier') continue;
      add(`${name}.${property.key.name}`, property.value as Expression);
    }
  };
  const source = stripTypeScriptTypes(readFileSync(join(root, 'lib', file), 'utf8'));
  visit(parse(source, { ecmaVersion: 'latest', sourceType: 'module' }), (node: AnyNode) => {
    if (node.type === 'VariableDeclarator' && node.id.type === 'Identifier' && node.init) add(node.id.name, node.init);
    if (node.type === 'AssignmentPattern' && node.left.type === 'Identifier') add(node.left.name, node.right);
  });
  constants.set(file, found);
  return found;
}

/** A number that a file of lib/ has a name for, be it exported or not. @throws where there is none */
export function constant(file: string, name: string): number {
  const value = constantsOf(file).get(name);
  if (value === undefined) throw new Error(`lib/${file} has no number ${name}`);
  return value;
}
