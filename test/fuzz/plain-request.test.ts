import { METHODS } from 'node:http';
import fc from 'fast-check';
import t from 'tap';
import { isAscii } from '../../lib/policy/bytes.ts';
import { fieldPairs } from '../../lib/proxy/http/field-lines.ts';
import { readPlainHead } from '../../lib/proxy/http1/fast/plain-request.ts';
import { Unread } from '../../lib/proxy/http1/unread.ts';
import { noKeeper } from '../../lib/proxy/kept.ts';
import { scanRequestHeaders } from '../../lib/request-fields.ts';
import { isHost, readTarget } from '../../lib/request-target.ts';
import { bothOf } from '../support/cases.ts';
import { caseBytes, readHttp1Cases } from '../support/http1-cases.ts';
import { search, timeLimitMs } from './budget.ts';
import { mutate, mutation, requestHead } from './mutations.ts';
import { readRequests } from './node-parser.ts';

/*
 * What the fast lane recognizes as plain, Node's strict parser accepts, and reads alike: method, target, fields, body,
 * and what follows. What it does not recognize is no concern here: that goes to Node's parser anyway.
 */

t.setTimeout(timeLimitMs);

const next = 'GET /next HTTP/1.1\r\nHost: next\r\n\r\n';
const known = readPlainHead('GET / HTTP/1.1\r\nHost: other\r\nContent-Length: 3\r\n\r\n', null);

const pairs = (flat: readonly string[]): string[] => {
  const list: string[] = [];
  for (let i = 0; i + 1 < flat.length; i += 2) list.push(`${flat[i]}: ${flat[i + 1]}`);
  return list.sort();
};

/** Null when plain and read alike, or not plain; else how the readings differ. */
async function difference(head: string): Promise<string | null> {
  const plain = readPlainHead(head, null);
  if (JSON.stringify(readPlainHead(head, known?.fields ?? null)) !== JSON.stringify(plain))
    return 'memory of the last fields';
  if (plain === null) return null;
  const { fields } = plain;
  const unread = new Unread(noKeeper);
  for (let end = 1; end < head.length; end++) {
    unread.append(Buffer.from(head.slice(end - 1, end), 'latin1'));
    if (unread.look() !== 'partial') return `given up after ${JSON.stringify(head.slice(0, end))}`;
  }
  // Node knows no others; but for the method its reading is the measure of these, too.
  const method = METHODS.includes(plain.method) ? plain.method : 'POST';
  const asked = method + head.slice(plain.method.length);
  // A body that looks like requests: taken for anything but a body, it would show.
  const { framing } = fields;
  const length =
    framing.kind === 'none' || framing.kind === 'tunnel' ? 0 : framing.kind === 'chunked' ? 100 : framing.bytes;
  const size = Math.min(length, 4096);
  const body = next.repeat(Math.ceil(size / next.length)).slice(0, size);
  const sent = framing.kind === 'chunked' ? `${size.toString(16)}\r\n${body}\r\n0\r\n\r\n` : body;
  const whole = size === length;
  const { requests, fault } = await readRequests(asked + sent + (whole && fields.keepAlive ? next : ''));
  // Raw UTF-8, which RFC 9112 does not know, and many clients send (lib/request-target.ts).
  if (fault === 'HPE_INVALID_URL' && !isAscii(plain.target)) return null;
  if (fault !== null) return `refused by Node: ${fault}`;
  const [first, second] = requests;
  if (first === undefined) return 'no request for Node';
  const { forward, host, fault: scanned } = scanRequestHeaders(first.raw);
  if (scanned !== null) return `refused by the library lane: ${scanned}`;
  if (`HTTP/${first.version}` !== fields.version) return `version ${first.version}`;
  if (host === null ? first.version === '1.1' : !isHost(host)) return `host ${host}`;
  const target = readTarget(method, first.target);
  if (first.method !== method || target?.target !== plain.target) return `${first.method} ${first.target}`;
  const counts = target.authority ?? host ?? '';
  if (counts !== plain.host) return `host ${counts}, plain ${plain.host}`;
  if (plain.line !== `${plain.method} ${plain.target} ${fields.version}\r\n`) return `asks for ${plain.line}`;
  const isTunnel = framing.kind === 'tunnel';
  if (first.keepAlive !== (isTunnel ? null : fields.keepAlive)) return `keep-alive: ${first.keepAlive}`;
  if (pairs(first.raw).join('\n') !== pairs(fieldPairs(fields.text)).join('\n')) return 'other fields';
  // HTTP/1.0 need not name one, and then none is made up.
  const named = target.authority === null && host === null ? [] : ['Host', counts];
  const forwarded = pairs([...named, ...forward]).map((line) => line.replace(/^host/i, 'host'));
  const plainForwarded = pairs(fieldPairs(plain.forward)).map((line) => line.replace(/^host/i, 'host'));
  if (forwarded.sort().join('\n') !== plainForwarded.sort().join('\n')) return 'forwards other fields';
  if (!whole) return null;
  if (!first.complete || first.body.toString('latin1') !== body) return `body of ${first.body.length}, plain ${size}`;
  if (isTunnel || !fields.keepAlive) return requests.length === 1 ? null : 'more than one request after the last';
  return second?.target === '/next' && requests.length === 2 ? null : `${requests.length} requests`;
}

/** Found by searching, or near to what was; each once was read in two ways, or might be. */
const regressions: readonly (readonly [name: string, head: string])[] = [
  ['tab after a length', 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\t\r\n\r\n'],
  ['tab before a length', 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\t5\r\n\r\n'],
  ['space after a length', 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5 \r\n\r\n'],
  ['leading zeros in a length', 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0000000005\r\n\r\n'],
  ['tab after close', 'GET / HTTP/1.1\r\nHost: a\r\nConnection: close\t\r\n\r\n'],
  ['tab before close', 'GET / HTTP/1.1\r\nHost: a\r\nConnection:\tclose\r\n\r\n'],
  ['space after close', 'GET / HTTP/1.1\r\nHost: a\r\nConnection: close \r\n\r\n'],
  ['a second name for Transfer-Encoding', 'POST / HTTP/1.1\r\nHost: a\r\nTransfer_Encoding: chunked\r\n\r\n'],
  ['obs-text', 'GET / HTTP/1.1\r\nHost: a\r\nX: \x80\xff\r\n\r\n'],
  ['odd target', 'GET /"<>\\^`{|}#?# HTTP/1.1\r\nHost: a\r\n\r\n'],
  ['an empty Host', 'GET / HTTP/1.1\r\nHost:\r\n\r\n'],
  ['an upgrade', 'GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n'],
];

t.test('cases once found', async (t) => {
  for (const [name, head] of regressions) t.equal(await difference(head), null, name);
});

/** What the search must find to be plain, each often enough for the comparison to be one. */
const shapes: readonly (readonly [name: string, pattern: RegExp])[] = [
  ['HTTP/1.1', /^\S+ \/\S* HTTP\/1\.1/],
  ['HTTP/1.0', /^\S+ \/\S* HTTP\/1\.0/],
  ['HTTP/1.0, kept', /^\S+ \/\S* HTTP\/1\.0.*\r\nConnection: keep-alive\r/is],
  ['HTTP/1.0 without Host', /^\S+ \/\S* HTTP\/1\.0\r\n(?!.*host:)/is],
  ['HEAD', /^HEAD/],
  ['absolute-form', /^\S+ https?:.* HTTP\/1\.1/],
  ['absolute-form, HTTP/1.0', /^\S+ https?:.* HTTP\/1\.0/],
  ['a list in Connection', /\r\nConnection: [^\r]*,/i],
  ['TE: trailers', /\r\nTE: trailers *\r/i],
  ['another TE', /\r\nTE: (?!trailers)/i],
  ['Trailer', /\r\nTrailer:/i],
  ['Keep-Alive', /\r\nKeep-Alive:/i],
  ['Proxy-Connection', /\r\nProxy-Connection:/i],
  ['HTTP2-Settings', /\r\nHTTP2-Settings:/i],
];

t.test('generated heads', async (t) => {
  const taken = new Map(shapes.map(([name]) => [name, 0]));
  let accepted = 0;
  const found = await search(
    fc.asyncProperty(requestHead, async (head) => {
      if (readPlainHead(head, null) !== null) {
        accepted++;
        for (const [name, pattern] of shapes) if (pattern.test(head)) taken.set(name, (taken.get(name) ?? 0) + 1);
      }
      const seen = await difference(head);
      if (seen !== null) throw new Error(seen);
    }),
    0.5,
  );
  t.equal(found, null);
  t.ok(accepted > 100, `${accepted} heads were plain`);
  for (const [name, times] of taken) t.ok(times > 0, `${name}: ${times} of them`);
});

t.test('mutated cases', async (t) => {
  const heads = bothOf(readHttp1Cases())
    .flatMap(({ cases }) => cases)
    .map((row) => caseBytes(row).toString('latin1'))
    .filter((bytes) => bytes.length < 2000)
    .map((bytes) => bytes.slice(0, bytes.indexOf('\r\n\r\n') + 4));
  let accepted = 0;
  const found = await search(
    fc.asyncProperty(fc.constantFrom(...heads), fc.array(mutation, { maxLength: 3 }), async (head, mutations) => {
      const text = mutate(head, mutations);
      const end = text.indexOf('\r\n\r\n');
      if (end === -1) return;
      const seen = await difference(text.slice(0, end + 4));
      if (readPlainHead(text.slice(0, end + 4), null) !== null) accepted++;
      if (seen !== null) throw new Error(seen);
    }),
    0.5,
  );
  t.equal(found, null);
  t.ok(accepted > 20, `${accepted} heads were plain`);
});
