/**
 * Each field of the data plane that holds bytes, and who pays for them. A field that is not in the table fails here: bytes
 * that are kept for a peer beyond the call that brought them are charged when they are kept (lib/proxy/kept.ts), or there is
 * a bound for them that needs no charge.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { checkout } from '../../support/sallyport.ts';

/**
 * `charged`: by `Kept`, or a `Stall`, in the file that is named, or in its own. `lent`: gone when the call that brought them
 * returns. `bounded`: by what the text says. `handed on`: the field's owner gives them to somebody else, who is charged.
 */
type Payer =
  | readonly ['charged', file?: string]
  | readonly ['lent']
  | readonly ['bounded', by: string]
  | readonly ['handed on', to: string];

const fields: Readonly<Record<string, Payer>> = {
  'detect/peek.ts #bytes': ['charged'],
  'detect/peek.ts #room': ['charged'],
  'detect/tunnel-guard.ts #held': ['charged', 'tcp/forward.ts'],
  'http/application.ts body': ['bounded', 'the admin server: answers of our own'],
  'http1/app-connection.ts #lastWords': ['bounded', 'the app: one read, of a connection that has failed'],
  'http1/fast/client-connection.ts #unread': ['charged', 'http1/unread.ts'],
  'http1/fast/content.ts #bytes': ['lent'],
  'http1/fast/content.ts #made': ['lent'],
  'http1/fast/content.ts #part': ['handed on', 'http1/fast/request.ts'],
  'http1/fast/content.ts part': ['handed on', 'http1/fast/request.ts'],
  'http1/fast/old-client.ts #parts': ['lent'],
  'http1/partial-head.ts #bytes': ['bounded', 'the app: maxResponseHead of a connection'],
  'http1/library/app-sender.ts #joined': ['lent'],
  'http1/library/sliced-feed.ts #unread': ['charged', 'http1/unread.ts'],
  'http1/library/upgrade.ts head': ['charged', 'http1/library/client-connection.ts'],
  'http1/unread.ts #room': ['charged'],
  'http1/unread.ts bytes': ['charged'],
  'http2/client/collected-body.ts #chunks': ['charged'],
  'http2/hpack/decoder.ts #added': ['bounded', 'repeatableBytes of a connection'],
  'http2/hpack/decoder.ts #source': ['lent'],
  'http2/message/header-blocks.ts #keptBytes': ['bounded', 'repeatableBytes of a connection'],
  'http2/message/request-head.ts bytes': ['charged', 'http2/client/client-session.ts'],
  'http2/message/response-head.ts #block': ['bounded', 'the app: its response head, until that has been written'],
  'http2/message/trailers.ts #block': ['bounded', 'the largest list of a message'],
  'http2/relay/http1-app-exchange.ts #held': ['charged'],
  'http2/relay/relay.ts #early': ['charged'],
  'http2/session/header-assembly.ts parts': ['charged', 'http2/session/intake.ts'],
  'http2/session/held-bytes.ts #blocks': ['charged', 'http2/session/stream.ts'],
  'http2/session/intake.ts #held': ['charged'],
  'http2/session/intake.ts #rest': ['charged'],
  'http2/session/output.ts #buffer': ['bounded', 'the turn: then it is written, or waits in the socket'],
  'http2/session/stream.ts #waiting': ['charged'],
  'node-streams.ts told': ['handed on', 'tcp/lent-reads.ts'],
  'node-writes.ts #bytes': ['bounded', 'the turn: then they are written, or wait in the socket'],
  'node-writes.ts room': ['bounded', 'roomBytes of a slow peer: what the system has not taken of one write keeps it'],
  'tcp/forward.ts bytes': ['charged'],
  'tcp/lent-reads.ts #ring': ['charged'],
  'tls/client-flight.ts #header': ['bounded', 'of a handshake: 4 bytes'],
  'tls/client-flight.ts #held': ['bounded', 'of a handshake: 32 KiB, for max_handshakes of them'],
  'tls/client-flight.ts #key': ['bounded', 'of a handshake: 32 bytes'],
  'tls/client-flight.ts #nonce': ['bounded', 'of a handshake: 12 bytes'],
  'tls/client-flight.ts #secret': ['bounded', 'of a handshake: 48 bytes'],
  'tls/client-flight.ts passed': ['handed on', 'tls/handshake.ts'],
  'tls/handshake.ts #alpn': ['bounded', 'one for all'],
  'tls/handshake.ts #unread': ['bounded', 'a read for each of max_handshakes'],
  'tls/shown-certificates.ts bytes': ['lent'],
};

/** A field of a class or a type whose value is, or may be, bytes. */
const field =
  /^ {2}(?:override )?(?:readonly )?(#?\w+)(?:: [^=({]*\b(?:Buffer|Uint8Array|HeldBytes|Unread|PlainHeads)\b[^=(]*| = (?:nothing\b|Buffer\.|new (?:HeldBytes|Unread|PlainHeads)\()[^;]*|: [^=(]*= nothing);|^ {2}(?:readonly )?(#?\w+): [^=({]*\b(?:Buffer|HeldBytes)\b[^=(]* = [^;]*;$/;

/** What charges: an account of its own, or somebody's who has one. */
const charges = /\bnew Kept\(|\.hold\(|\.holds\(|holdContent\(/;

const proxy = join(checkout, 'lib', 'proxy');
const files = readdirSync(proxy, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.ts'));

t.test('whatever holds bytes says who pays for them', async (t) => {
  const found = new Set<string>();
  for (const file of files) {
    for (const line of readFileSync(join(proxy, file), 'utf8').split('\n')) {
      const match = field.exec(line);
      const name = match?.[1] ?? match?.[2];
      if (name !== undefined && !/=>|^ {2}static /.test(line)) found.add(`${file} ${name}`);
    }
  }
  for (const each of found) t.ok(each in fields, `${each} is in the table`);
  for (const each of Object.keys(fields)) t.ok(found.has(each), `${each} is there still`);
});

t.test('and those who are said to pay do', async (t) => {
  for (const [name, [kind, other]] of Object.entries(fields)) {
    const [own = ''] = name.split(' ');
    if (kind === 'charged') t.match(readFileSync(join(proxy, other ?? own), 'utf8'), charges, name);
  }
});
