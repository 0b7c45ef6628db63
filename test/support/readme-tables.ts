/**
 * Tables of pages that are made from the program. `npm run readme` writes them; test/unit/readme.test.ts fails where they
 * are not what is there. Each stands between `<!-- table: NAME -->` and `<!-- end -->`.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { commandTable } from '../../bin/table/table.ts';
import { annotationOf, optionNames, options as optionRows } from '../../lib/deploy/options.ts';
import { errorCatalogue } from '../../lib/errors/error-codes.ts';
import { exitMeanings, exitText } from '../../lib/errors/exits.ts';
import type { FaultPlace } from '../../lib/errors/fault-row.ts';
import { faultCatalogue } from '../../lib/errors/faults.ts';
import { problemCatalogue } from '../../lib/errors/problems.ts';
import { connectionCosts, memoryPlan, requestCost } from '../../lib/memory-plan.ts';
import { testSchema } from '../../lib/policy-test/format.ts';
import { failureOf } from '../../lib/proxy/http/refuse.ts';
import { testMap } from './test-map.ts';

const root = resolve(import.meta.dirname, '../..');
const schemaFile = resolve(root, 'lib/policy-test/policy-test.schema.json');

export function table(header: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
  return [line(header), `|${'---|'.repeat(header.length)}`, ...rows.map(line)].join('\n');
}

/** Names of variables and fields that the text mentions, as code. */
function marked(text: string): string {
  return text.replace(/\b(SALLYPORT_[A-Z_]+|[a-z]+[A-Z][A-Za-z]*)\b/g, '`$1`');
}

const places: Readonly<Record<FaultPlace, string>> = {
  variable: 'variable or flag',
  command: 'command',
  identity: 'start, rotation',
  log: 'log',
};

/** Fields of a policy test, by what holds them. */
function testFields(): string {
  const { properties } = testSchema() as unknown as Fields;
  const inner = (of: Fields | undefined, name: string): Fields['properties'] =>
    formsOf(of?.properties[name]).find((form) => form.properties !== undefined)?.properties ?? {};
  const cases = { properties: formsOf(properties.cases)[0]?.items?.properties ?? {} };
  const places: readonly (readonly [place: string, fields: Fields['properties']])[] = [
    ['', Object.fromEntries(Object.entries(properties).filter(([name]) => name !== 'defaults'))],
    ['pod', inner({ properties }, 'pod')],
    ['cases', cases.properties],
    ['expect', inner(cases, 'expect')],
  ];
  const rows = places.flatMap(([place, fields]) =>
    Object.entries(fields).map(([name, { description = '' }]) => [place, `\`${name}\``, marked(description)]),
  );
  return table(['in', 'field', 'says'], rows);
}

interface Fields {
  readonly properties: Readonly<Record<string, FieldSchema>>;
}
interface FieldSchema {
  readonly description?: string;
  readonly properties?: Readonly<Record<string, FieldSchema>>;
  readonly items?: FieldSchema;
  readonly anyOf?: readonly FieldSchema[];
}

/** A field's schema, or each of those that it may be. */
function formsOf(field: FieldSchema | undefined): readonly FieldSchema[] {
  return field === undefined ? [] : (field.anyOf ?? [field]);
}

function commands(): string {
  const rows = Object.entries(commandTable).map(([name, row]) => {
    const more = row.page === null ? '' : `; see [${row.page[0]}](${row.page[1]})`;
    const asRun = name !== 'run' && exitMeanings[row.exits] === exitMeanings.run;
    return [`\`sallyport ${row.brief}\``, `${marked(row.does)}${more}`, asRun ? 'as `run`' : exitText(row.exits)];
  });
  return table(['command', 'does', 'exit status'], rows);
}

function errors(): string {
  const rows = Object.entries(errorCatalogue).map(([code, { meaning, remedy, ...row }]) => {
    const outcome = {
      start: () => 'does not start',
      handshake: () => 'no TLS',
      request: () => String(failureOf(code as Parameters<typeof failureOf>[0]).refusal.status),
    }[row.ends]();
    return [`\`${code}\``, outcome, marked(meaning), marked(remedy)];
  });
  return table(['code', 'outcome', 'meaning', 'remedy'], rows);
}

function faults(): string {
  const rows = Object.entries(faultCatalogue).map(([code, { place, meaning, remedy }]) => [
    `\`${code}\``,
    places[place],
    marked(meaning),
    marked(remedy),
  ]);
  return table(['code', 'where', 'meaning', 'remedy'], rows);
}

function problems(): string {
  const rows = Object.entries(problemCatalogue).map(([code, { severity, meaning, remedy }]) => [
    `\`${code}\``,
    severity === 'either' ? 'error or warning' : severity,
    marked(meaning),
    marked(remedy),
  ]);
  return table(
    ['code', 'severity', 'meaning', 'remedy'],
    rows.sort(([a = ''], [b = '']) => (a < b ? -1 : 1)),
  );
}

/** The settings of `inject`. */
function options(): string {
  const rows = optionNames.map((name) => {
    const { value, says, shown } = optionRows[name];
    return [`\`--${name}${value === null ? '' : ` ${value}`}\``, `\`${annotationOf(name)}\``, says, shown];
  });
  return table(['flag', 'annotation', 'says', 'otherwise'], rows);
}

const KiB = 1024;
const MiB = 1024 * KiB;

/** What a connection of each kind is counted as taking. */
function connections(): string {
  const { plain, http2, tunnel, tls, handshake } = connectionCosts;
  const rows: readonly (readonly [kind: string, bytes: number])[] = [
    ['without TLS: silent, or HTTP/1', plain],
    ['without TLS: HTTP/2', plain + http2],
    ['without TLS: a tunnel, with its connection to the app', plain + tunnel],
    ['a TLS handshake under way', handshake],
    ['TLS: silent, or HTTP/1', tls],
    ['TLS: HTTP/2', tls + http2],
    ['TLS: a tunnel, with its connection to the app', tls + tunnel],
  ];
  return table(
    ['connection', 'KiB at most'],
    rows.map(([kind, bytes]) => [kind, String(bytes / KiB)]),
  );
}

/** By the container's memory, of which V8 takes half and at least 256 MiB for its heap where nothing is said: what each part of it is for, and how many connections of a kind that is. */
function memory(): string {
  const rows = [64, 128, 256, 512, 1024].map((mib) => {
    const { program, connections, requests, waiting, heads, spare } = memoryPlan(
      mib * MiB,
      Math.max(256, mib / 2) * MiB,
      1,
    );
    const many = (bytes: number, cost: number): string => Math.floor(bytes / cost).toLocaleString('en');
    const { plain, tls, handshake } = connectionCosts;
    return [
      `${mib}Mi`,
      ...[program, connections, requests, waiting, heads, spare].map((bytes) => (bytes / MiB).toFixed(1)),
      ...[
        many(connections, plain),
        many(connections, tls),
        many(connections / 2, handshake),
        many(requests, requestCost),
      ],
    ];
  });
  const parts = ['program', 'connections', 'requests', 'waiting', 'heads', 'spare'];
  return table(['memory', ...parts, 'or so many plain ones', 'or of TLS', 'handshakes', 'requests in flight'], rows);
}

/** Takes long to make: `npm run readme:faults`. */
export const provokedTable = { page: 'lib/errors/README.md', name: 'provoked' };

/** By page, from the checkout's root. */
export const tables: Readonly<Record<string, Readonly<Record<string, () => string>>>> = {
  'README.md': { commands },
  'lib/policy-test/README.md': { 'test-fields': testFields },
  'lib/errors/README.md': { errors, faults, problems },
  'lib/deploy/README.md': { options },
  'lib/ops/README.md': { connections, memory },
  'test/README.md': { tests: testMap },
};

/** A page's text with one table in its place. @throws where there is none for it. */
export function withTable(text: string, name: string, table: string): string {
  const place = new RegExp(`(<!-- table: ${name} -->\\n).*?(<!-- end -->)`, 's');
  if (!place.test(text)) throw new Error(`the page has no table "${name}"`);
  return text.replace(place, (_, before, after) => `${before}\n${table}\n\n${after}`);
}

/** A page's text with every table made anew. @throws where it has one that nobody makes, or lacks one of its own. */
export function withTables(page: string, text: string): string {
  const made = tables[page] ?? {};
  for (const [, name = ''] of text.matchAll(/<!-- table: ([\w-]+) -->/g)) {
    const isElsewhere = page === provokedTable.page && name === provokedTable.name;
    if (!isElsewhere && !Object.hasOwn(made, name)) throw new Error(`nobody makes the table "${name}"`);
  }
  return Object.entries(made).reduce((renewed, [name, render]) => withTable(renewed, name, render()), text);
}

/** lib/policy-test/policy-test.schema.json: what editors know of a policy test. */
export function schemaText(): string {
  return `${JSON.stringify(testSchema(), null, 2)}\n`;
}

if (process.argv[1] === import.meta.filename) {
  writeFileSync(schemaFile, schemaText());
  for (const page of Object.keys(tables)) {
    const path = resolve(root, page);
    writeFileSync(path, withTables(page, readFileSync(path, 'utf8')));
  }
}
