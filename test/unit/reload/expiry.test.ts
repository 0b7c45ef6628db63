import t from 'tap';
import { ExpiryWatch, type Validity } from '../../../lib/reload/expiry.ts';
import { type SetClock, setClock } from '../../support/clock.ts';

const minute = 60_000;
const hour = 60 * minute;
const day = 24 * hour;
const start = new Date('2026-11-01T00:00:00Z');

function validity(lifeMs: number, over: Partial<Validity> = {}): Validity {
  return {
    kind: 'certificate',
    file: '/id/tls.crt',
    subject: 'DNS:web.shop',
    id: 'A1',
    notBefore: start,
    notAfter: new Date(start.getTime() + lifeMs),
    ...over,
  };
}

interface Line {
  readonly level: string;
  readonly message: string;
  readonly fields: Readonly<Record<string, unknown>>;
  /** Since the start. */
  readonly atMs: number;
}

function watched(): { readonly watch: ExpiryWatch; readonly clock: SetClock; readonly lines: Line[] } {
  const clock = setClock(start);
  const lines: Line[] = [];
  const at = (level: string) => (fields: object, message: string) =>
    void lines.push({ level, message, fields: { ...fields }, atMs: clock.now().getTime() - start.getTime() });
  return { watch: new ExpiryWatch({ warn: at('warn'), error: at('error') }, clock), clock, lines };
}

t.test('when it is said first, by kind and length of life', async (t) => {
  const rows: readonly (readonly [kind: Validity['kind'], lifeMs: number, firstMs: number])[] = [
    ['certificate', 10 * minute, 7 * minute],
    ['certificate', day, 0.7 * day],
    ['certificate', 90 * day, 83 * day],
    ['certificate', 365 * day, 358 * day],
    ['intermediate', 90 * day, 83 * day],
    ['trust anchor', 10 * day, 7 * day],
    ['trust anchor', 365 * day, 335 * day],
    ['trust anchor', 3650 * day, 3620 * day],
  ];
  for (const [kind, lifeMs, firstMs] of rows) {
    const { watch, clock, lines } = watched();
    watch.follow([validity(lifeMs, { kind })]);
    clock.advance(lifeMs);
    const [first] = lines;
    const what = `${kind}, ${lifeMs / day} days`;
    t.equal(first?.level, 'warn', what);
    t.match(first?.fields, { code: kind === 'trust anchor' ? 'anchor-expiring' : 'certificate-expiring' }, what);
    t.equal(Math.round(first?.atMs ?? 0), Math.round(firstMs), what);
    t.notOk(
      lines.some(({ message }) => message.includes('has expired')),
      `${what}: its last moment is one of its life`,
    );
    clock.advance(1);
    t.match(lines.at(-1)?.message, /has expired$/, `${what}: the next one is not`);
    t.equal(lines.at(-1)?.level, kind === 'trust anchor' ? 'warn' : 'error');
  }
});

t.test('a year, to its end and beyond: daily, hourly, at the moment, hourly', async (t) => {
  const { watch, clock, lines } = watched();
  watch.follow([validity(365 * day)]);
  t.same(lines, [], 'nothing to say at first');
  clock.advance(365 * day + 3 * hour);
  const ahead = lines.filter(({ fields }) => fields.code === 'certificate-expiring');
  t.equal(ahead.filter(({ atMs }) => atMs < 364 * day).length, 6, 'once a day for six days');
  t.equal(ahead.filter(({ atMs }) => atMs >= 364 * day).length, 25, 'then once an hour');
  const after = lines.filter(({ fields }) => fields.code === 'certificate-expired');
  t.same(
    after.map(({ atMs }) => Math.round((atMs - 365 * day) / hour)),
    [0, 1, 2],
    'at its end, and once an hour',
  );
  t.equal(after[0]?.atMs, 365 * day + 1, 'at once');
  t.match(ahead[0], {
    level: 'warn',
    message: 'Identity certificate expires soon',
    fields: { file: '/id/tls.crt', subject: 'DNS:web.shop', notAfter: '2027-11-01T00:00:00.000Z', left: '7d' },
  });
  t.match(after[2]?.fields, { ago: '2h' });
});

t.test('who is found expired, or nearly, is told of at once', async (t) => {
  const { watch, lines } = watched();
  const passed = { notBefore: new Date(start.getTime() - 10 * day), notAfter: new Date(start.getTime() - day) };
  watch.follow([validity(day, { kind: 'trust anchor', id: 'old', ...passed }), validity(3650 * day, { id: 'new' })]);
  t.same(
    lines.map(({ message, fields }) => [message, fields.code, fields.ago]),
    [['Trust anchor has expired', 'anchor-expired', '24h']],
  );
});

t.test('a renewed certificate is another; one that stays is not told of anew', async (t) => {
  const { watch, clock, lines } = watched();
  const anchor = validity(10 * day, { kind: 'trust anchor', id: 'root' });
  watch.follow([validity(10 * day), anchor]);
  clock.advance(9 * day + 90 * minute);
  const before = lines.length;
  watch.follow([validity(20 * day, { id: 'B2' }), anchor]);
  t.equal(lines.length, before, 'the anchor has been told of within the hour');
  clock.advance(2 * day);
  t.notOk(lines.slice(before).some(({ fields }) => fields.code === 'certificate-expiring'));
  t.ok(lines.slice(before).some(({ fields }) => fields.code === 'anchor-expired'));
});

t.test('a clock that is set is followed within an hour', async (t) => {
  const { watch, clock, lines } = watched();
  watch.follow([validity(365 * day)]);
  clock.set(new Date(start.getTime() + 366 * day));
  clock.advance(hour);
  t.match(lines, [{ level: 'error', fields: { code: 'certificate-expired' } }]);
});

t.test('nothing is said after the stop', async (t) => {
  const { watch, clock, lines } = watched();
  watch.follow([validity(day)]);
  watch.stop();
  clock.advance(2 * day);
  t.same(lines, []);
  t.equal(clock.waiting, 0);
});
