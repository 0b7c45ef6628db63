/** The JSON Schema and the reader agree: what one refuses for its shape, the other refuses, too. */
import { readFileSync } from 'node:fs';
import t from 'tap';
import { suiteShape } from '../../../lib/policy-test/format.ts';
import { FieldFaults } from '../../../lib/policy-test/shape.ts';
import fc from '../../support/properties.ts';

interface Schema {
  readonly type?: string;
  readonly enum?: readonly unknown[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: false | Schema;
  readonly required?: readonly string[];
  readonly minProperties?: number;
  readonly items?: Schema;
  readonly minItems?: number;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly pattern?: string;
  readonly anyOf?: readonly Schema[];
}

const file = new URL('../../../lib/policy-test/policy-test.schema.json', import.meta.url);
const schema: Schema = JSON.parse(readFileSync(file, 'utf8'));
const known = new Set([
  ...['$schema', 'title', 'description', 'type', 'enum', 'properties', 'additionalProperties', 'required', 'pattern'],
  ...['minProperties', 'items', 'minItems', 'minimum', 'maximum', 'anyOf'],
]);

/** JSON Schema 2020-12, as far as ours goes. */
function fits(value: unknown, of: Schema): boolean {
  if (of.anyOf !== undefined && !of.anyOf.some((one) => fits(value, one))) return false;
  if (of.enum !== undefined && !of.enum.includes(value)) return false;
  switch (of.type) {
    case undefined:
      return true;
    case 'string':
      return typeof value === 'string' && new RegExp(of.pattern ?? '', 'u').test(value);
    case 'boolean':
      return typeof value === 'boolean';
    case 'integer':
      return Number.isInteger(value) && Number(value) >= (of.minimum ?? 0) && Number(value) <= (of.maximum ?? 0);
    case 'array':
      return (
        Array.isArray(value) && value.length >= (of.minItems ?? 0) && value.every((each) => fits(each, of.items ?? {}))
      );
    case 'object':
      return fitsObject(value, of);
    default:
      throw new Error(`nobody here knows the type ${of.type}`);
  }
}

function fitsObject(value: unknown, of: Schema): boolean {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  const entries = Object.entries(value);
  if (entries.length < (of.minProperties ?? 0)) return false;
  if (of.required?.some((name) => !Object.hasOwn(value, name)) === true) return false;
  return entries.every(([name, each]) => {
    const inner = of.properties?.[name] ?? of.additionalProperties;
    return inner !== false && inner !== undefined && fits(each, inner);
  });
}

/** Values of the schema, and here and there one of something else. */
function near(of: Schema): fc.Arbitrary<unknown> {
  const odd = fc.constantFrom<unknown>('', ' ', 'a', 'a,b', null, true, 0, 7, 1.5, 403, 70_000, [], {}, [[]], {
    a: 'b',
  });
  return fc.oneof({ weight: 40, arbitrary: exactly(of) }, { weight: 1, arbitrary: odd });
}

function exactly(of: Schema): fc.Arbitrary<unknown> {
  if (of.anyOf !== undefined) return fc.oneof(...of.anyOf.map(near));
  if (of.enum !== undefined) return fc.constantFrom(...of.enum);
  switch (of.type) {
    case 'string':
      return fc.constantFrom('web', 'shop/web', '/a', '10.1.2.3');
    case 'boolean':
      return fc.boolean();
    case 'integer':
      return fc.integer({ min: of.minimum ?? 0, max: of.maximum ?? 0 });
    case 'array':
      return fc.array(near(of.items ?? {}), { minLength: 1, maxLength: 3 });
    default:
      return objectOf(of);
  }
}

function objectOf(of: Schema): fc.Arbitrary<unknown> {
  const { properties, additionalProperties, required = [] } = of;
  if (properties === undefined) {
    return fc.dictionary(fc.constantFrom('a', 'b', 'x-c'), near(additionalProperties || {}), {
      minKeys: 1,
      maxKeys: 2,
    });
  }
  const stray = fc.oneof(
    { weight: 40, arbitrary: fc.constant({}) },
    { weight: 1, arbitrary: fc.constant({ stray: 1 }) },
  );
  const names = fc.subarray(Object.keys(properties), { maxLength: Math.min(5, Object.keys(properties).length) });
  return fc.tuple(names, stray).chain(([some, more]) => {
    const chosen = [...new Set([...some, ...required])];
    return fc
      .record(Object.fromEntries(chosen.map((name) => [name, near(properties[name] ?? {})])))
      .map((record) => ({ ...record, ...more }));
  });
}

t.test('every keyword of the schema is one that is looked at here', async (t) => {
  const look = (of: unknown): void => {
    if (Array.isArray(of)) for (const each of of) look(each);
    if (typeof of !== 'object' || of === null || Array.isArray(of)) return;
    for (const [name, inner] of Object.entries(of)) {
      t.ok(known.has(name), name);
      if (name === 'properties') for (const each of Object.values(inner)) look(each);
      else look(inner);
    }
  };
  look(schema);
});

t.test('what fits the schema is read, and nothing else', async (t) => {
  const counts = { read: 0, refused: 0 };
  const property = fc.property(objectOf(schema), (value) => {
    const faults = new FieldFaults();
    suiteShape.read(value, [], faults);
    const isRead = faults.list.length === 0;
    counts[isRead ? 'read' : 'refused'] += 1;
    if (isRead !== fits(value, schema)) throw new Error(`${isRead ? 'read' : JSON.stringify(faults.list)}`);
  });
  const found = fc.check(property, { numRuns: 3_000, ...(process.env.CI === undefined ? {} : { seed: 20_261_120 }) });
  t.notOk(found.failed, `${fc.stringify(found.counterexample)} ${found.errorInstance}`);
  t.ok(counts.read > 300 && counts.refused > 300, `${counts.read} were read, ${counts.refused} refused`);
});
