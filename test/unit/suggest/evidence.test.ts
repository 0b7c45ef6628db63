import t from 'tap';
import type { DecisionRecord } from '../../../lib/records/record.ts';
import { Evidence } from '../../../lib/suggest/evidence.ts';

/** What is kept of a log is bounded, whatever is in it, and what is not kept is counted. */

const portOf = (given: number | string | undefined): number | null => (typeof given === 'number' ? given : null);
const once = { count: 1, first: null, last: null, file: 'log', line: 1, comesAgain: true };

function record(path: string, verdict: 'permit' | 'deny'): DecisionRecord {
  const question = { port: 8080, client: '10.1.2.3', protocol: 'http1', method: 'GET', path, host: 'web' } as const;
  const decided = { verdict, status: null, audit: false, server: null, route: null, authz: null, reason: '' } as const;
  return { form: 'record', question, omits: [], parameters: [], salt: null, decided };
}

function evidenceOf(records: Iterable<DecisionRecord>): Evidence {
  const evidence = new Evidence({ refused: false, probesWithRoutes: false, portOf });
  for (const each of records) evidence.add(each, once);
  return evidence;
}

function* each(count: number, of: (i: number) => DecisionRecord): Generator<DecisionRecord> {
  for (let i = 0; i < count; i++) yield of(i);
}

t.test('refusals beyond what is kept are counted, and equal ones kept once', async (t) => {
  const { refused, tally } = evidenceOf(each(100_010, (i) => record(`/a/${i}`, 'deny')));
  t.match({ kept: refused.size, unheld: tally.unheld }, { kept: 100_000, unheld: 10 });
  const equal = evidenceOf(each(1000, () => record('/a', 'deny')));
  t.match({ kept: equal.refused.size, unheld: equal.tally.unheld }, { kept: 1, unheld: 0 });
});

t.test('clients beyond what is kept are counted, and each is kept once', async (t) => {
  const of = (client: number): DecisionRecord => {
    const known = record('/a', 'permit');
    const identity = `c${client}.shop.serviceaccount.identity.linkerd.cluster.local`;
    return { ...known, question: { ...known.question, identity } };
  };
  t.equal(evidenceOf(each(100_010, of)).tally.beyond, 10);
  t.equal(evidenceOf(each(100_010, (i) => of(i % 1000))).tally.beyond, 0);
});

t.test('long texts are kept up to a sum of their lengths', async (t) => {
  const long = 'x'.repeat(1024 * 1024);
  const permitted = evidenceOf(each(200, (i) => record(`/${i}${long}`, 'permit')));
  t.ok(permitted.tally.beyond > 100, `${permitted.tally.beyond} are beyond`);
  const denied = evidenceOf(each(200, (i) => record(`/${i}${long}`, 'deny')));
  t.ok(denied.tally.unheld > 100, `${denied.tally.unheld} are not held`);
});

t.test('the segments of a path that no route can name are not kept', async (t) => {
  const { groups } = evidenceOf(['/a'.repeat(400_000), '/'.repeat(800_000)].map((path) => record(path, 'permit')));
  for (const { values } of groups.values()) t.equal(values.length, 0);
});

t.test('segments of short paths alone may stand for others, and what is kept of them is bounded', async (t) => {
  const long = evidenceOf([record('/1'.repeat(33), 'permit'), record('/1'.repeat(32), 'permit')]);
  t.same(
    [...long.groups.values()].map(({ values }) => values.length),
    [0, 32],
  );
  // 32 numbers of 29 digits each: more different ones than there is room for.
  const number = (i: number): string => String(i).padStart(29, '7');
  const of = (i: number): DecisionRecord => record(`/x${i >> 4}y${`/${number(i)}`.repeat(31)}`, 'permit');
  const many = evidenceOf(each(64_000, of));
  let [kept, groups] = [0, 0];
  for (const { values } of many.groups.values()) {
    groups++;
    for (const { size } of values) kept += size;
  }
  t.ok(kept < 2_500_000 && groups > 1000, `${kept} values of ${groups} kinds`);
  t.ok(many.tally.beyond > 0, `${many.tally.beyond} decisions are beyond`);
});
