import fc from 'fast-check';
import t from 'tap';
import { fieldNames } from '../support/field-names.ts';
import { type Lane, startLane } from '../support/lanes.ts';
import { startRawApp } from '../support/raw-app.ts';
import { latin1, RawClient } from '../support/raw-http.ts';
import { until } from '../support/until.ts';
import { search, timeLimitMs } from './budget.ts';
import { inTurn, lastLook } from './looks.ts';

/*
 * Any head, whatever it asks for: the app gets the end-to-end fields that were sent and nothing else. None that claims to
 * be an identity however it is spelt, none of the connection's, none that Connection names, no expectation; and a method
 * in the wrong case never gets there at all.
 */

t.setTimeout(timeLimitMs);

type Field = readonly [name: string, value: string];

interface Head {
  readonly method: string;
  readonly target: string;
  readonly fields: readonly Field[];
}

const tokenChars = [..."!#$%&'*+-.^_`|~09azAZ"];
const token = fc.array(fc.constantFrom(...tokenChars), { minLength: 1, maxLength: 8 }).map((chars) => chars.join(''));
const separator = fc.constantFrom(...tokenChars.filter((c) => !/[A-Za-z0-9]/.test(c)));
const identity = fc
  .tuple(separator, separator, fc.boolean())
  .map(([a, b, upper]) => (upper ? `L5D${a}Client${b}ID` : `l5d${a}client${b}id`));
const name = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.constantFrom(...fieldNames.filter((known) => !/^(host|transfer-encoding)$/i.test(known))),
  },
  { weight: 2, arbitrary: token },
  { weight: 2, arbitrary: identity },
);
const text = fc
  .array(fc.constantFrom(...'abc 01,;="<>/:()\xe9\xff\t'), { maxLength: 12 })
  .map((chars) => chars.join('').trim());
const value = fc.oneof(
  { weight: 3, arbitrary: text },
  {
    weight: 2,
    arbitrary: fc.constantFrom('100-continue', 'trailers', '0', 'close', 'keep-alive', 'Upgrade', 'websocket', 'root'),
  },
);
const field: fc.Arbitrary<Field> = fc.tuple(name, value);
const method = fc.oneof(
  { weight: 6, arbitrary: fc.constant('GET') },
  { weight: 1, arbitrary: fc.constantFrom('POST', 'CONNECT', 'OPTIONS', 'FOO', 'get', 'Delete', 'PROPFIND', 'x') },
);
const asking: readonly (readonly Field[])[] = [
  [],
  [
    ['Connection', 'Upgrade'],
    ['Upgrade', 'websocket'],
  ],
  [
    ['Connection', 'keep-alive, Upgrade, X-Named'],
    ['Upgrade', 'chat/1'],
    ['X-Named', '1'],
  ],
  [['Connection', 'X-Named, l5d-client-id']],
];
const head: fc.Arbitrary<Head> = fc
  .tuple(method, fc.constantFrom(...asking), fc.array(field, { maxLength: 6 }), fc.boolean())
  .map(([verb, asks, fields, first]) => ({
    method: verb,
    target: verb === 'CONNECT' ? 'a.example:80' : verb === 'OPTIONS' ? '*' : '/x?y=z',
    fields: [['Host', 'a.example:80'], ...(first ? [...asks, ...fields] : [...fields, ...asks])],
  }));

const ofTheConnection = new Set([
  'connection',
  'keep-alive',
  'proxy-connection',
  'upgrade',
  'http2-settings',
  'expect',
]);
/** What a library may leave out or put in where there is no content. */
const incidental = new Set(['connection', 'upgrade', 'content-length', 'transfer-encoding', 'trailer', 'te']);
const notNominable = new Set(['host', 'content-length', 'transfer-encoding', 'trailer', 'te']);

const cgi = (field: string): string => field.toLowerCase().replace(/[^a-z0-9]/g, '_');
const line = ([field, content]: Field): string => `${field.toLowerCase()}: ${content}`;

/** The fields that an app may expect, in a comparable form. Cookies may be joined. */
function comparable(fields: readonly Field[]): string {
  const kept = fields.filter(([field]) => !incidental.has(field.toLowerCase()));
  const others = kept.filter(([field]) => field.toLowerCase() !== 'cookie').map(line);
  const cookies = kept.filter(([field]) => field.toLowerCase() === 'cookie').map(([, content]) => content);
  return [...others, `cookies: ${cookies.join('; ')}`].sort().join('\n');
}

function expected({ fields }: Head): readonly Field[] {
  const nominated = new Set(
    fields
      .filter(([field]) => field.toLowerCase() === 'connection')
      .flatMap(([, options]) => options.split(',').map((option) => option.trim().toLowerCase()))
      .filter((option) => !notNominable.has(option)),
  );
  return fields.filter(([field]) => {
    const lower = field.toLowerCase();
    return !ofTheConnection.has(lower) && !nominated.has(lower) && cgi(field) !== 'l5d_client_id';
  });
}

function parse(bytes: string): Head {
  const [first = '', ...lines] = bytes.split('\r\n');
  const [verb = '', target = ''] = first.split(' ');
  const fields = lines.map((text): Field => {
    const colon = text.indexOf(':');
    return [text.slice(0, colon), text.slice(colon + 1).replace(/^[\t ]+|[\t ]+$/g, '')];
  });
  return { method: verb, target, fields };
}

interface Stage {
  readonly lane: Lane;
  readonly heads: string[];
}

function look(stage: Stage, sent: Head): Promise<string | null> {
  return inTurn(() => difference(stage, sent));
}

async function difference({ lane, heads }: Stage, sent: Head): Promise<string | null> {
  heads.length = 0;
  const client = await RawClient.open({ port: lane.port });
  try {
    const lines = sent.fields.map(([field, content]) => `${field}: ${content}\r\n`).join('');
    client.send(latin1(`${sent.method} ${sent.target} HTTP/1.1\r\n${lines}\r\n`));
    await client.reaches(() => /HTTP\/1\.1 [2-5]|HTTP\/1\.1 101/.test(client.received.toString('latin1')), 5000);
    const status = /HTTP\/1\.1 (101|[2-5][0-9]{2})/.exec(client.received.toString('latin1'))?.[1];
    if (status === '502' || (status === undefined && !client.ended)) return `status ${status}`;
    if (heads.length === 0) return null;
    if (heads.length > 1) return `${heads.length} requests reached the app`;
    const got = parse(heads[0] as string);
    if (got.method !== sent.method || got.target !== sent.target) return `${got.method} ${got.target}`;
    if (got.method.toUpperCase() !== got.method && /^(get|delete)$/i.test(got.method))
      return `the app saw ${got.method}`;
    if (got.fields.some(([field]) => cgi(field) === 'l5d_client_id')) return 'an identity reached the app';
    const [wanted, seen] = [comparable(expected(sent)), comparable(got.fields)];
    return wanted === seen ? null : `wanted\n${wanted}\nseen\n${seen}`;
  } finally {
    client.destroy();
    await until('the connection to be over', () => lane.live.size === 0, { everyMs: 1 });
  }
}

t.test('generated heads', async (t) => {
  const heads: string[] = [];
  const app = await startRawApp(t, {
    raw: ({ socket }, chunk) => {
      const bytes = chunk.toString('latin1');
      const end = bytes.indexOf('\r\n\r\n');
      if (end === -1) return;
      heads.push(bytes.slice(0, end));
      const protocol = /\r\nupgrade: ([^\r]*)/i.exec(bytes)?.[1];
      const switches = `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: ${protocol}\r\n\r\n`;
      socket.write(protocol === undefined ? 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n' : switches);
    },
  });
  for (const engine of ['fast', 'library'] as const) {
    const lane = await startLane(t, { engine, app: app.port });
    let reached = 0;
    const found = await search(
      fc.asyncProperty(head, async (sent) => {
        const seen = await look({ lane, heads }, sent);
        if (heads.length > 0) reached++;
        if (seen !== null) throw new Error(seen);
      }),
      0.5,
    );
    t.equal(found, null, engine);
    t.ok(reached > 20, `${reached} reached the app, ${engine}`);
    await lastLook();
    await until('every request to be counted out', () => lane.counts.ended === lane.counts.started);
    t.same(lane.counts.httpErrors, [], 'none failed for a fault of ours');
  }
});
