import { request } from 'node:http';
import { patience } from './until.ts';

export interface Sample {
  readonly name: string;
  readonly labels: ReadonlyMap<string, string>;
  readonly value: number;
}

/** Labels that a series must carry, with these values; it may carry more. */
export type Labels = Readonly<Record<string, string>>;

export interface Scrape {
  readonly text: string;
  readonly samples: readonly Sample[];
  /** Every series of that name with at least these labels. */
  find(name: string, labels?: Labels): Sample[];
  /** Their sum; 0 where there is none, as PromQL's `or vector(0)` would say. */
  sum(name: string, labels?: Labels): number;
  has(name: string): boolean;
}

const sampleLine = /^([A-Za-z_:][A-Za-z0-9_:]*)(?:\{(.*)\})? ([^ ]+)(?: [0-9.e+-]+)?(?: # .*)?$/;
const labelPair = /([A-Za-z_][A-Za-z0-9_]*)="((?:[^"\\\n]|\\.)*)"(?:,|$)/y;

/** Reads the text exposition format; throws on a line that is none. */
export function parseExposition(text: string): Scrape {
  const samples: Sample[] = [];
  for (const line of text.split('\n')) {
    if (line === '' || line.startsWith('#')) continue;
    const match = sampleLine.exec(line);
    if (match === null) throw new Error(`not a sample: ${line}`);
    samples.push({
      name: match[1] as string,
      labels: parseLabels(match[2] ?? '', line),
      value: parseValue(match[3] as string, line),
    });
  }
  const find = (name: string, labels: Labels = {}): Sample[] =>
    samples.filter(
      (sample) =>
        sample.name === name &&
        Object.entries(labels).every(([key, value]) => (sample.labels.get(key) ?? '') === value),
    );
  return {
    text,
    samples,
    find,
    sum: (name, labels) => find(name, labels).reduce((total, sample) => total + sample.value, 0),
    has: (name) => samples.some((sample) => sample.name === name),
  };
}

function parseLabels(text: string, line: string): Map<string, string> {
  const labels = new Map<string, string>();
  for (let at = 0; at < text.length; at = labelPair.lastIndex) {
    labelPair.lastIndex = at;
    const match = labelPair.exec(text);
    if (match === null) throw new Error(`bad labels at ${at}: ${line}`);
    const name = match[1] as string;
    if (labels.has(name)) throw new Error(`label ${name} twice: ${line}`);
    const escapes: Readonly<Record<string, string>> = { '\\n': '\n', '\\"': '"', '\\\\': '\\' };
    labels.set(
      name,
      (match[2] as string).replace(/\\./g, (pair) => escapes[pair] ?? pair),
    );
  }
  return labels;
}

function parseValue(text: string, line: string): number {
  if (text === '+Inf') return Number.POSITIVE_INFINITY;
  if (text === '-Inf') return Number.NEGATIVE_INFINITY;
  const value = Number(text);
  // Prometheus reads it in any case, and prom-client writes `Nan`.
  if (Number.isNaN(value) && text.toLowerCase() !== 'nan') throw new Error(`bad value: ${line}`);
  return value;
}

/** How much a counter grew between two scrapes. */
export function growth(before: Scrape, after: Scrape, name: string, labels: Labels = {}): number {
  return after.sum(name, labels) - before.sum(name, labels);
}

/** Every series of `name` that grew, with by how much: what to print when a counter did not do as expected. */
export function grown(before: Scrape, after: Scrape, names: RegExp): string[] {
  const key = (sample: Sample): string =>
    `${sample.name}{${[...sample.labels].map(([name, value]) => `${name}=${JSON.stringify(value)}`).join(',')}}`;
  const old = new Map(before.samples.map((sample) => [key(sample), sample.value]));
  return after.samples
    .filter((sample) => names.test(sample.name) && sample.value !== (old.get(key(sample)) ?? 0))
    .map((sample) => `${key(sample)} +${sample.value - (old.get(key(sample)) ?? 0)}`);
}

/** GET /metrics. Throws on any status but 200. */
export function scrape(port: number, host = '127.0.0.1'): Promise<Scrape> {
  return new Promise((resolve, reject) => {
    const get = request({ host, port, path: '/metrics', agent: false, timeout: 5_000 * patience() }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (chunk: string) => {
        text += chunk;
      });
      response.on('error', reject);
      response.on('end', () => {
        if (response.statusCode === 200) resolve(parseExposition(text));
        else reject(new Error(`/metrics answered ${response.statusCode}`));
      });
    });
    get.on('timeout', () => get.destroy(new Error('/metrics did not answer in time')));
    get.on('error', reject);
    get.end();
  });
}
