/** Prints a MicroResult: what the worst request that a client can send costs to decide, by the part of it that is bad. */
import { createAuthorizer } from '../../lib/policy/authorizer.ts';
import { compileNow } from '../../lib/policy/compile/compile.ts';
import { oddNamesOf, type RequestFacts } from '../../lib/policy/decision.ts';
import { readDocuments } from '../../lib/policy/documents/read.ts';
import { headerValues } from '../../lib/proxy/http/headers.ts';
import { threadCpuMs } from '../process-usage.ts';
import { hostileClient, hostilePolicy, seededRandom, workload } from './documents.ts';
import type { MicroResult } from './micro.ts';

const quick = process.argv.includes('--quick');
/** How long each family is searched for a worse member. */
const searchMs = quick ? 150 : 1500;
/** A head may have so many bytes in all. */
const head = 64 * 1024;

interface Attempt {
  readonly method: string;
  readonly path: string;
  readonly query: string;
  readonly host: string;
  readonly fields: readonly string[];
}

const usual: Attempt = { method: 'GET', path: '/api/v1/items', query: '', host: 'shop.example', fields: [] };

const at = { line: 1, column: 1 };
const read = readDocuments(hostilePolicy().map((value) => ({ value, file: 'bench.yaml', position: () => at })));
const compiled = compileNow(read.documents, workload);
const errors = [...read.problems, ...compiled.problems].filter(({ severity }) => severity === 'error');
if (errors.length > 0) throw new Error(`the policy is faulty: ${errors[0]?.message}`);
const authorizer = createAuthorizer({ nowMs: () => performance.now() });
authorizer.swap(compiled.index);
const port = authorizer.port(8080);

function factsOf({ fields, ...attempt }: Attempt): RequestFacts {
  return {
    ...attempt,
    grpc: false,
    carries: 'nothing',
    header: (name) => headerValues(fields, name),
    oddNames: oddNamesOf(fields),
  };
}

/** Decides, and tells the reasons where it is refused, as the log does. */
function decide(request: RequestFacts): void {
  const decision = authorizer.request(port, hostileClient, request);
  if (decision.kind !== 'permit') authorizer.requestReasons(port, hostileClient, request, decision);
}

/** Microseconds of CPU for one decision: the least of three rounds, since whatever else runs only adds to it. */
function cost(attempt: Attempt): number {
  const request = factsOf(attempt);
  let best = Number.POSITIVE_INFINITY;
  for (let round = 0; round < 3; round++) {
    const started = threadCpuMs();
    let times = 0;
    do {
      for (let i = 0; i < 4; i++) decide(request);
      times += 4;
    } while (threadCpuMs() - started < 1);
    best = Math.min(best, ((threadCpuMs() - started) * 1000) / times);
  }
  return best;
}

const random = seededRandom();
const below = (limit: number): number => Math.floor(random() * limit);
const pick = <T>(all: readonly T[]): T => all[below(all.length)] as T;

/** Text of some length by repeating a few pieces. */
function repeated(pieces: readonly string[], length: number): string {
  const unit = Array.from({ length: 1 + below(6) }, () => pick(pieces)).join('');
  const lead = Array.from({ length: below(6) }, () => pick(pieces)).join('');
  return (lead + unit.repeat(Math.ceil(length / unit.length))).slice(0, length);
}

const pathPieces = [
  ...['/', '//', '\\', ';', ';a=b', '.', '..', '/./', '/../', 'a', 'A', 'admin', '~', '\xc3\x89', '\xe9', ' '],
  ...['%41', '%2e', '%2F', '%5c', '%3b', '%3f', '%25', '%2541', '%252e', '%25ff', '%ff', '%c3%89', '%', '%2'],
  ...['%c0%ae', '%e0%80%ae', '%u0061', '%u20ac', '%u2215', '\xc0\xae', 'b//c\\d/', '?', '%23'],
];
const lengths = [16, 64, 256, 400, 600, 1000, 2000, 4000, 8000, head];
const queryPieces = [
  'a&',
  'q=1&',
  'q=',
  'q',
  '&',
  ';',
  '%71=1&',
  '+',
  '%',
  '%25',
  '[',
  ']',
  '.',
  'Q=1;',
  'tag=x&',
  '\xe9',
];

/** Each family makes an attempt that is bad in one way. */
const families: Readonly<Record<string, () => Attempt>> = {
  path: () => ({ ...usual, path: `/${repeated(pathPieces, pick(lengths))}` }),
  'path under a regular expression': () => ({
    ...usual,
    path: `/files/${repeated(['a', 'A', 'ab/', '/', '%61', '.', 'x'], pick(lengths))}`,
  }),
  query: () => ({ ...usual, path: '/search', query: repeated(queryPieces, pick(lengths)) }),
  'path and query': () => ({
    ...usual,
    path: `/${repeated(pathPieces, pick(lengths.slice(0, 6)))}`,
    query: repeated(queryPieces, pick(lengths)),
  }),
  'many fields': () => ({ ...usual, fields: manyFields(pick(['x-tier', 'x_tier', 'x-tie', 'a', 'x-', 'x.tier'])) }),
  'long values': () => ({
    ...usual,
    path: '/tiers',
    fields: ['x-tier', repeated(['gold', 'a', 'ab', '\xc3\xa9', ',', ' '], pick(lengths))],
  }),
  'a host': () => ({ ...usual, host: repeated(['a.', '.', 'a', 'shop.example.', ':1', '-'], pick(lengths)) }),
  'a redirect': () => ({
    ...usual,
    path: `/old/${repeated(['a', '\xe9', '"', '/', '\xc3\xa9'], pick(lengths))}`,
    query: repeated(['a=\xe9&', '"'], pick(lengths)),
  }),
  'a denial and its reasons': () => ({ ...usual, path: `/admin/${repeated(['a', 'A', '/', '%20'], pick(lengths))}` }),
  everything: () => ({
    method: pick(['GET', 'POST', 'OPTIONS']),
    path: `/${pick(['', 'api/', 'files/', 'search/', 'tiers/'])}${repeated(pathPieces, pick(lengths.slice(0, 7)))}`,
    query: repeated(queryPieces, pick(lengths)),
    host: repeated(['a.', 'shop.example', 'a'], pick([12, 250, 4000])),
    fields: manyFields(pick(['x-tier', 'x_tier', 'a'])),
  }),
};

function manyFields(name: string): readonly string[] {
  const count = pick([1, 10, 64, 100, 1000]);
  const size = Math.max(1, Math.floor((head - 2000) / count) - name.length - 4);
  const value = repeated(['gold', 'a', ','], Math.min(size, pick([1, 10, 100, 1000, head])));
  return Array.from({ length: count }, (_, i) => [pick([name, `${name}${i}`]), value]).flat();
}

function sizeOf({ path, query, host, fields }: Attempt): number {
  return path.length + query.length + host.length + fields.reduce((sum, text) => sum + text.length + 2, 0);
}

const rows: [string, number, number, string][] = [];
for (let i = 0; i < 4000; i++) decide(factsOf(pick(Object.values(families))()));
rows.push(['none: an ordinary request', sizeOf(usual), Math.round(cost(usual) * 10) / 10, usual.path]);
for (const [family, make] of Object.entries(families)) {
  let worst = { attempt: usual, micros: 0 };
  const started = threadCpuMs();
  while (threadCpuMs() - started < searchMs) {
    const attempt = make();
    if (sizeOf(attempt) > head) continue;
    const micros = cost(attempt);
    if (micros > worst.micros) worst = { attempt, micros };
  }
  // Once more, so that one unlucky round does not stand for the family.
  const micros = Math.min(worst.micros, cost(worst.attempt), cost(worst.attempt));
  const { path, query, host } = worst.attempt;
  const shown = [path, query, host].map((text) => JSON.stringify(text.slice(0, 24))).join(' ');
  rows.push([family, sizeOf(worst.attempt), Math.round(micros), shown]);
}
const result: MicroResult = { columns: ['what is bad', 'bytes', 'us for one decision', 'path, query, host'], rows };
process.stdout.write(JSON.stringify(result));
