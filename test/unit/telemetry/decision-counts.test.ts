import t from 'tap';
import { decisionsPage } from '../../../lib/app/decisions-page.ts';
import { readRecords } from '../../../lib/records/read.ts';
import type { DecisionRecord } from '../../../lib/records/record.ts';
import { DecisionCounts, type DecisionTally } from '../../../lib/telemetry/decision-counts.ts';

/** Decisions that are counted since the start: what stays where there are too many, and what is shown of them. */

interface Asked {
  readonly client?: string;
  readonly method?: string;
  readonly path: string;
  readonly verdict?: string;
  readonly more?: string;
}

function textOf({ client = '10.0.0.1', method = 'GET', path, verdict = 'permit', more = '' }: Asked): string {
  const asked = `"port":8080,"client":"${client}","protocol":"http1","method":"${method}","path":${JSON.stringify(path)}`;
  return `${asked}${more},"verdict":"${verdict}","server":{"group":"","kind":"default","name":"all"}`;
}

function count(counts: DecisionCounts, asked: readonly Asked[], fromMs: number): void {
  for (const [i, each] of asked.entries()) counts.one(textOf(each), '', fromMs + i);
}

const decisionsIn = ({ counted, lost }: DecisionTally): number => counted.reduce((all, { count }) => all + count, lost);
const many = (number: number, of: (i: number) => Asked): Asked[] => Array.from({ length: number }, (_, i) => of(i));
const flood = 20_000;
const most = { decisions: 256, chars: 100_000 };

const rows: readonly (readonly [title: string, rare: Asked, flood: (i: number) => Asked])[] = [
  [
    'refusals',
    { client: '10.9.9.9', path: '/daily' },
    (i) => ({ client: `10.1.${i >> 8}.${i & 255}`, path: '/', verdict: 'deny' }),
  ],
  ['another client', { client: '10.9.9.9', path: '/daily' }, (i) => ({ path: `/${i}` })],
  ['other paths of the same client', { path: '/jobs/run', method: 'POST' }, (i) => ({ path: `/orders/${i}` })],
  [
    'what is permitted',
    { path: '/secret', verdict: 'deny' },
    (i) => ({ client: `10.1.${i >> 8}.${i & 255}`, path: '/' }),
  ],
  [
    'texts of clients that look like fields',
    { client: '10.9.9.9', path: '/daily' },
    (i) => ({ path: `/","verdict":"permit"${i}`, verdict: 'deny' }),
  ],
];
for (const [title, rare, of] of rows) {
  t.test(`what comes seldom stays beside a flood of ${title}`, async (t) => {
    const counts = new DecisionCounts(most);
    count(counts, [rare, rare], 1);
    count(counts, many(flood, of), 10);
    const tally = counts.tally();
    t.match(
      tally.counted.find(({ text }) => text === textOf(rare)),
      { count: 2, firstMs: 1, lastMs: 2 },
    );
    t.ok(tally.counted.length <= most.decisions, 'bounded');
    t.ok(tally.counted.length >= most.decisions / 4, 'and not emptied');
    t.ok(
      tally.counted.some(({ text }) => text === textOf(of(flood - 1))),
      'the latest of the flood is there',
    );
    t.equal(decisionsIn(tally), flood + 2, 'what is not is counted');
  });
}

t.test('long texts are bounded by their characters', async (t) => {
  const counts = new DecisionCounts(most);
  count(
    counts,
    many(2000, (i) => ({ path: `/${'x'.repeat(10_000)}${i}` })),
    0,
  );
  const tally = counts.tally();
  const chars = tally.counted.reduce((all, { text, reason }) => all + text.length + reason.length, 0);
  t.ok(chars <= most.chars, `${chars} characters`);
  t.ok(chars > most.chars / 4, `${chars} characters`);
  t.equal(decisionsIn(tally), 2000);
});

async function read(
  page: string,
): Promise<{ readonly records: (readonly [DecisionRecord, number])[]; readonly lost: number }> {
  const records: (readonly [DecisionRecord, number])[] = [];
  async function* bytes(): AsyncGenerator<Uint8Array> {
    yield Buffer.from(page, 'latin1');
  }
  const tally = await readRecords([{ name: 'page', bytes: bytes() }], {
    record: (record, { count }) => void records.push([record, count]),
    bad: ({ message }) => {
      throw new Error(message);
    },
  });
  return { records, lost: tally.lost };
}

t.test('the page adds up what threads have counted', async (t) => {
  const [one, other] = [new DecisionCounts(), new DecisionCounts()];
  count(one, [{ path: '/a' }, { path: '/b' }], 1000);
  count(other, [{ path: '/b' }, { path: '/b' }, { path: '/c' }], 0);
  other.lose(7);
  const page = await decisionsPage([one.tally(), other.tally()], 'key');
  const { records, lost } = await read(page);
  t.same(
    records.map(([{ question }, count]) => [question.path, count]),
    [
      ['/b', 3],
      ['/c', 1],
      ['/a', 1],
    ],
    'the oldest first',
  );
  t.equal(lost, 7);
  t.match(page, '"time":"1970-01-01T00:00:01.001Z","first":"1970-01-01T00:00:00.000Z","count":3');
  t.equal(await decisionsPage([], 'key'), '', 'nothing is no line');
});

t.test('values of header fields are not on the page', async (t) => {
  const counts = new DecisionCounts();
  const hidden = ',"headers":{"authorization":["Bearer hidden"],"x-odd":["\\udcff\\u00e9"],"x-none":[]}';
  const hashed = ',"headers":{"authorization":["0123"]},"salt":"own"';
  count(counts, [{ path: '/"headers":{', more: hidden }, { path: '/b', more: hashed }, { path: '/\u0000c' }], 0);
  const page = await decisionsPage([counts.tally()], 'key');
  t.notMatch(page, 'hidden');
  t.match(page, /^[\x20-\x7e\n]*$/);
  const { records } = await read(page);
  t.match(
    records.map(([{ question, salt }]) => [question.path, salt, question.headers]),
    [
      ['/"headers":{', 'key', { authorization: [/^[0-9a-f]{32}$/], 'x-odd': [/^[0-9a-f]{32}$/], 'x-none': [] }],
      ['/b', 'own', { authorization: ['0123'] }],
      ['/\u0000c', null, undefined],
    ],
  );
});
