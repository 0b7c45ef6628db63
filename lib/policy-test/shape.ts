import type { AnyCode, Complaint } from '../errors/complaint.ts';
import { didYouMean } from '../policy/nearest.ts';

/*
 * What a value of a test file may be: how it is read, and what its JSON Schema says, in one, so that an editor and the
 * reader agree. Nothing is guessed: what is not known, empty or of another type is a fault, and never left out.
 */

/** From the top of the YAML document to a field. */
export type TestPath = readonly (string | number)[];

/** A fault of the field that `path` leads to. */
export interface FieldFault extends Complaint {
  readonly path: TestPath;
}

export type JsonSchema = { readonly [keyword: string]: unknown };

/** Collects every fault, so that all of them are reported together. */
export class FieldFaults {
  readonly list: FieldFault[] = [];

  add(path: TestPath, code: AnyCode, message: string, hint: string): undefined {
    this.list.push({ path, code, message: `${fieldText(path)} ${message}`, hint });
    return undefined;
  }
}

export interface Shape<Value> {
  readonly schema: JsonSchema;
  /** Undefined where the value is not of the shape; `faults` then says why. */
  read(value: unknown, path: TestPath, faults: FieldFaults): Value | undefined;
}

type ValueOf<S> = S extends Shape<infer Value> ? Value : never;

/** `cases[2].expect.status`; the document as a whole has no name. */
function fieldText(path: TestPath): string {
  const text = path.reduce<string>((before, step) => {
    if (typeof step === 'number') return `${before}[${step}]`;
    return before === '' ? step : `${before}.${step}`;
  }, '');
  return text === '' ? 'the document' : text;
}

/** What a value is, for people. */
function kindOf(value: unknown): string {
  if (value === null || value === undefined) return 'empty';
  if (Array.isArray(value)) return 'a list';
  switch (typeof value) {
    case 'object':
      return 'a mapping';
    case 'string':
      return `the text ${JSON.stringify(value)}`;
    case 'boolean':
      return `the truth value ${value}`;
    default:
      return `the number ${value}`;
  }
}

function otherwise(value: unknown, path: TestPath, faults: FieldFaults, wanted: string, hint: string): undefined {
  return faults.add(path, 'test-value', `is ${kindOf(value)}, where ${wanted} is wanted`, hint);
}

export function isMapping(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Text, the empty one included. */
export const anyText: Shape<string> = {
  schema: { type: 'string' },
  read(value, path, faults) {
    if (typeof value === 'string') return value;
    return otherwise(value, path, faults, 'text', 'Write it in quotes.');
  },
};

export const someText: Shape<string> = {
  schema: { type: 'string', pattern: '\\S' },
  read(value, path, faults) {
    const text = anyText.read(value, path, faults);
    if (text?.trim() !== '') return text;
    return faults.add(path, 'test-empty', 'is empty text', 'Write a value, or remove the field.');
  },
};

/** Text that may stand in a comma-separated list. */
export const itemText: Shape<string> = {
  schema: { type: 'string', pattern: '^(?=.*\\S)[^,\\r\\n]*$' },
  read(value, path, faults) {
    const text = someText.read(value, path, faults);
    if (text === undefined || !/[,\r\n]/.test(text)) return text;
    return faults.add(path, 'test-value', 'holds a comma or a line end', 'Write each item as an item of a list.');
  },
};

export function whole(least: number, most: number, hint = 'Write such a number.'): Shape<number> {
  return {
    schema: { type: 'integer', minimum: least, maximum: most },
    read(value, path, faults) {
      if (typeof value === 'number' && Number.isInteger(value) && value >= least && value <= most) return value;
      return otherwise(value, path, faults, `a whole number from ${least} to ${most}`, hint);
    },
  };
}

export const truth: Shape<boolean> = {
  schema: { type: 'boolean' },
  read(value, path, faults) {
    if (typeof value === 'boolean') return value;
    return otherwise(value, path, faults, 'true or false', 'Write true or false, without quotes.');
  },
};

export function oneWord<const Word extends string>(words: readonly Word[]): Shape<Word> {
  return {
    schema: { enum: words },
    read(value, path, faults) {
      const found = words.find((word) => word === value);
      if (found !== undefined) return found;
      const known = `Write one of ${words.join(', ')}.`;
      if (typeof value !== 'string') return otherwise(value, path, faults, `one of ${words.join(', ')}`, known);
      const message = `is ${JSON.stringify(value)}, which is none of ${words.join(', ')}`;
      return faults.add(path, 'test-value', message, didYouMean(value, words, known));
    },
  };
}

/** A value and where it stands. */
export interface Located<Value> {
  readonly value: Value;
  readonly path: TestPath;
}

const fillList = 'Write its items, or remove the field.';

/** A list, or one value for a list of one. Empty is a fault: what has no item would ask nothing and pass. */
export function oneOrMany<Value>(item: Shape<Value>): Shape<readonly Located<Value>[]> {
  return {
    schema: { anyOf: [item.schema, { type: 'array', items: item.schema, minItems: 1 }] },
    read(value, path, faults) {
      if (Array.isArray(value)) return locatedItems(item, value, path, faults);
      const read = item.read(value, path, faults);
      return read === undefined ? undefined : [{ value: read, path }];
    },
  };
}

/** As `oneOrMany`, where an empty list says something: that there are none, whatever holds otherwise. */
export function someOrNone<Value>(item: Shape<Value>): Shape<readonly Located<Value>[]> {
  const filled = oneOrMany(item);
  return {
    schema: { anyOf: [item.schema, { type: 'array', items: item.schema }] },
    read: (value, path, faults) => (Array.isArray(value) && value.length === 0 ? [] : filled.read(value, path, faults)),
  };
}

export function listOf<Value>(item: Shape<Value>): Shape<readonly Located<Value>[]> {
  return {
    schema: { type: 'array', items: item.schema, minItems: 1 },
    read(value, path, faults) {
      if (Array.isArray(value)) return locatedItems(item, value, path, faults);
      return otherwise(value, path, faults, 'a list', 'Write its items below it, each behind "- ".');
    },
  };
}

function locatedItems<Value>(
  item: Shape<Value>,
  values: readonly unknown[],
  path: TestPath,
  faults: FieldFaults,
): readonly Located<Value>[] | undefined {
  if (values.length === 0) return faults.add(path, 'test-empty', 'is an empty list', fillList);
  return values.flatMap((each, i) => {
    const at = [...path, i];
    const read = item.read(each, at, faults);
    return read === undefined ? [] : [{ value: read, path: at }];
  });
}

/** Names of one's own, each with a value. */
export function mapOf<Value>(of: Shape<Value>): Shape<ReadonlyMap<string, Value>> {
  return {
    schema: { type: 'object', additionalProperties: of.schema, minProperties: 1 },
    read(value, path, faults) {
      if (!isMapping(value)) return otherwise(value, path, faults, 'a mapping', 'Write "name: value" below it.');
      const entries = Object.entries(value);
      if (entries.length === 0) return faults.add(path, 'test-empty', 'is an empty mapping', fillList);
      return new Map(
        entries.flatMap(([name, each]) => {
          const read = of.read(each, [...path, name], faults);
          return read === undefined ? [] : [[name, read] as const];
        }),
      );
    },
  };
}

export interface Field<Value> {
  readonly shape: Shape<Value>;
  /** For editors, and for the table of fields. */
  readonly says: string;
}

export function field<Value>(shape: Shape<Value>, says: string): Field<Value> {
  return { shape, says };
}

type Fields = Readonly<Record<string, Field<unknown>>>;
export type RecordOf<F extends Fields> = { readonly [Name in keyof F]?: ValueOf<F[Name]['shape']> };

/** Known names alone. `needs`: those without which there is nothing to do, each with what to write. */
export function record<F extends Fields>(
  fields: F,
  needs: { readonly [Name in keyof F & string]?: string } = {},
): Shape<RecordOf<F>> {
  const names = Object.keys(fields);
  const required = Object.keys(needs);
  return {
    schema: {
      type: 'object',
      properties: Object.fromEntries(
        Object.entries(fields).map(([name, { shape, says }]) => [name, { description: says, ...shape.schema }]),
      ),
      additionalProperties: false,
      ...(required.length === 0 ? {} : { required }),
    },
    read(value, path, faults) {
      if (!isMapping(value)) return otherwise(value, path, faults, 'a mapping', `Write one of ${names.join(', ')}.`);
      const read: Record<string, unknown> = {};
      for (const [name, each] of Object.entries(value)) {
        const known = Object.hasOwn(fields, name) ? fields[name] : undefined;
        if (known === undefined) {
          const hint = didYouMean(name, names, `Known here: ${names.join(', ')}.`);
          faults.add([...path, name], 'test-field', 'is not known', hint);
          continue;
        }
        const inner = known.shape.read(each, [...path, name], faults);
        if (inner !== undefined) read[name] = inner;
      }
      for (const [name, hint] of Object.entries(needs)) {
        if (!Object.hasOwn(value, name)) faults.add(path, 'test-missing', `has no ${name}`, hint as string);
      }
      return read as RecordOf<F>;
    },
  };
}

/** A value whose type says which shape it has. `wanted` names them all. */
export function byType<Text = never, Count = never, Mapping = never>(
  wanted: string,
  shapes: { readonly text?: Shape<Text>; readonly count?: Shape<Count>; readonly mapping?: Shape<Mapping> },
): Shape<Text | Count | Mapping> {
  const { text, count, mapping } = shapes;
  return {
    schema: { anyOf: [text, count, mapping].flatMap((shape) => (shape === undefined ? [] : [shape.schema])) },
    read(value, path, faults) {
      const shape = typeof value === 'string' ? text : typeof value === 'number' ? count : mapping;
      if (shape === undefined || (shape === mapping && !isMapping(value)))
        return otherwise(value, path, faults, wanted, `Write ${wanted}.`);
      return shape.read(value, path, faults);
    },
  };
}
