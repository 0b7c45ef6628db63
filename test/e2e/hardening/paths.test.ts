import t from 'tap';
import { closedServer, http1Outcome, http1Request, lanes, openRoute, route } from '../../support/attacked-routes.ts';
import { http2Outcome, requestFields } from '../../support/http2-frames.ts';
import { policyEnvironment } from '../../support/open-policy.ts';
import { freePort } from '../../support/ports.ts';
import { startSallyport } from '../../support/sallyport.ts';
import { startWitness } from '../../support/witness.ts';

/*
 * Everybody may use `/public/` and nobody `/admin` or `/user`. Whatever could be read as either must not reach the app as
 * the other. HTTP/2 may answer some with a reset: there a malformed `:path` is a malformed message (RFC 9113 8.1.1).
 */
interface Row {
  readonly target: string;
  readonly http1: string;
  /** As `http1` where absent. */
  readonly http2?: string;
  readonly source: string;
}

const refused: readonly Row[] = [
  // Dot segments, empty segments, escaped separators, backslashes.
  { target: '/public/../admin', http1: '400', source: 'CVE-2019-9901, CVE-2025-32431' },
  { target: '/public/../../admin', http1: '400', source: 'CVE-2019-9901' },
  { target: '/public/./../admin', http1: '400', source: 'CVE-2019-9901' },
  { target: '/public/..', http1: '400', source: 'CVE-2019-9901' },
  { target: '/public/%2e%2e/admin', http1: '400', source: 'CVE-2019-9901' },
  { target: '/public/%2E%2e/admin', http1: '400', source: 'CVE-2019-9901' },
  { target: '/public/.%2e/admin', http1: '400', source: 'CVE-2026-33494' },
  { target: '/public%2f..%2fadmin', http1: '400', source: 'CVE-2021-29492' },
  { target: '/public/..%2fadmin', http1: '400', source: 'CVE-2021-29492' },
  { target: '/public/..%5cadmin', http1: '400', source: 'CVE-2021-29492' },
  { target: '/public/%252e%252e/admin', http1: '400', source: 'CVE-2025-47952 (escaped twice)' },
  { target: '/public/%c0%ae%c0%ae/admin', http1: '400', source: 'overlong UTF-8' },
  { target: '//admin', http1: '400', source: 'CVE-2021-31920, CVE-2026-40912' },
  { target: '//public/x', http1: '400', source: 'CVE-2021-31920' },
  { target: '/public//../admin', http1: '400', source: 'CVE-2024-10005' },
  { target: '/public\\admin', http1: '400', source: 'CVE-2021-29492' },
  { target: '/public\\..\\admin', http1: '400', source: 'CVE-2021-29492' },
  { target: '/public/..\\admin', http1: '400', source: 'GHSA-3q34-rx83-r6mq' },
  { target: '/%61dmin', http1: '400', source: 'CVE-2026-48020' },
  { target: '/%70ublic/x', http1: '400', source: 'CVE-2026-48020' },
  // An authority where a path was meant (`new URL(request.url, base)`, java.net.URI).
  { target: '//host/public/x', http1: '400', source: 'WHATWG URL' },
  { target: '//x:1/admin', http1: '400', source: 'WHATWG URL' },
  { target: '//x@y/admin', http1: '400', source: 'WHATWG URL' },
  { target: '///x/admin', http1: '400', source: 'WHATWG URL' },
  { target: '/\\x/public/x', http1: '400', source: 'WHATWG URL' },
  { target: 'http://web//host/public/x', http1: '400', http2: 'reset', source: 'WHATWG URL' },
  // Case, and escapes of more than one grammar.
  { target: '/ADMIN', http1: '404', source: 'no route, in any case' },
  { target: '/Public/x', http1: '404', source: 'a rule is not opened by another spelling' },
  { target: '/%u0070ublic/x', http1: '400', source: 'unescape()' },
  { target: '/public/%2e%2e;/admin', http1: '400', source: 'CVE-2026-73551' },
  { target: '/public/..%c0%afadmin', http1: '400', source: 'overlong UTF-8' },
  // Matrix parameters.
  { target: '/user/..;a=b/admin', http1: '403', source: 'CVE-2026-73551' },
  { target: '/public/..;/admin', http1: '400', source: 'CVE-2026-73553, CVE-2026-73511' },
  { target: '/admin;x', http1: '404', source: 'CVE-2026-73551' },
  { target: '/admin;/public/x', http1: '404', source: 'CVE-2026-73551' },
  // Fragment and query.
  { target: '/public/x#/admin', http1: '400', source: 'CVE-2021-32779, CVE-2021-39156' },
  { target: '/public/x#', http1: '400', source: 'CVE-2021-39156' },
  { target: '/public/..%23/admin', http1: '400', source: 'CVE-2021-32779' },
  { target: '/admin?/public/x', http1: '403', source: 'CVE-2020-8595' },
  { target: '/admin?x=/../public/x', http1: '403', source: 'CVE-2025-54576' },
  { target: '/admin%3f/../public/x', http1: '400', source: 'CVE-2025-54576' },
  // Odd characters: NUL and controls, raw and escaped.
  { target: '/public/%00/../admin', http1: '400', source: 'CVE-2025-46821' },
  { target: '/public/x%0d%0aX:%20y', http1: '400', source: 'CVE-2025-46821' },
  { target: '/public/\u0001', http1: '400', http2: 'reset', source: 'CVE-2025-46821' },
  { target: '/public/\u007f', http1: '400', http2: 'reset', source: 'CVE-2025-46821' },
  // Shape.
  { target: 'admin', http1: '400', http2: 'reset', source: 'CVE-2026-33186' },
  { target: 'public/x', http1: '400', http2: 'reset', source: 'CVE-2026-33186' },
  { target: '*', http1: '400', http2: 'reset', source: 'RFC 9112 3.2.4: OPTIONS alone' },
  { target: 'http://web/admin', http1: '403', http2: 'reset', source: 'CVE-2026-33186: its own path' },
  { target: 'http://web/public/../admin', http1: '400', http2: 'reset', source: 'CVE-2026-33186' },
  { target: 'http://web', http1: '404', http2: 'reset', source: 'an empty path is "/"' },
  { target: 'ftp://web/public/x', http1: '400', http2: 'reset', source: 'RFC 9112 3.2.2' },
  { target: 'http://user@web/public/x', http1: '400', http2: 'reset', source: 'RFC 9110 4.2.4' },
];

/** Honest spellings get through, byte for byte as they came. */
const permitted: readonly string[] = [
  '/public/x',
  '/public/',
  '/public',
  '/public/a%2Fb',
  '/public/a%20b',
  '/public/%E2%82%AC',
  '/public/x;v=1',
  '/public/x?next=/admin',
  '/public/x?a=../../admin',
  '/public/x??b',
  "/public/~!$&'()*+,=:@",
  '/public/..x/...',
];

t.setTimeout(900_000);

for (const { name, env } of lanes) {
  t.test(name, async (t) => {
    const port = await freePort();
    const app = await startWitness(t);
    await startSallyport(t, {
      env: {
        ...policyEnvironment(
          t.testdir(),
          closedServer('web', port) +
            route('public', 'web', '/public/') +
            openRoute('public') +
            route('admin', 'web', '/admin') +
            route('user', 'web', '/user'),
        ),
        SALLYPORT_INBOUND_PORTS: `${port}=127.0.0.1:${app.port}`,
        ...env,
      },
    });
    for (const { target, http1, source } of refused) {
      t.equal(await http1Outcome(port, http1Request(target)), http1, `HTTP/1 ${JSON.stringify(target)} (${source})`);
    }
    for (const { target, http1, http2 = http1, source } of refused) {
      t.equal(await http2Outcome(port, requestFields(target)), http2, `HTTP/2 ${JSON.stringify(target)} (${source})`);
    }
    t.same(app.requests, [], 'nothing of all that reached the app');
    for (const target of permitted) {
      t.equal(await http1Outcome(port, http1Request(target)), '200', `HTTP/1 ${target}`);
      t.equal(await http2Outcome(port, requestFields(target)), '200', `HTTP/2 ${target}`);
    }
    t.equal(await http1Outcome(port, http1Request('http://web/public/abs')), '200', 'absolute-form');
    t.same(
      app.requests.map(({ target }) => target),
      [...permitted.flatMap((target) => [target, target]), '/public/abs'],
      'the app got the permitted ones as they came',
    );
    t.same(app.malformed, []);
  });
}

t.test('every byte of a path, raw and escaped, has one verdict on both versions and lanes', async (t) => {
  const results: Map<string, string>[] = [];
  for (const { name, env } of lanes) {
    const port = await freePort();
    const app = await startWitness(t);
    await startSallyport(t, {
      env: {
        ...policyEnvironment(
          t.testdir({ [name]: {} }),
          closedServer('web', port) + route('exact', 'web', '/public/a', 'Exact') + openRoute('exact'),
        ),
        SALLYPORT_INBOUND_PORTS: `${port}=127.0.0.1:${app.port}`,
        ...env,
      },
    });
    const http1 = new Map<string, string>();
    const http2 = new Map<string, string>();
    // Space and the characters that end a line or a target are HTTP/1's own; only their escapes are part of a path.
    for (let byte = 0x21; byte < 0x7f; byte++) {
      const character = String.fromCharCode(byte);
      const escaped = `%${byte.toString(16).padStart(2, '0')}`;
      for (const spelling of [character, escaped, escaped.toUpperCase()]) {
        const target = `/public/${spelling}`;
        if (character === '?' && spelling === character) continue;
        http1.set(target, await http1Outcome(port, http1Request(target)));
        http2.set(target, await http2Outcome(port, requestFields(target)));
      }
    }
    const differing = [...http1].filter(([target, status]) => http2.get(target) !== status);
    t.same(differing, [], `${name}: HTTP/1 and HTTP/2 agree on ${http1.size} spellings`);
    t.equal(http1.get('/public/a'), '200');
    t.equal(http1.get('/public/%61'), '400', 'an escape that some decode');
    t.equal(http1.get('/public/A'), '404');
    t.same(
      app.requests.map(({ target }) => target).filter((target) => target !== '/public/a'),
      [],
      `${name}: only the one path got through`,
    );
    results.push(http1);
  }
  t.same([...(results[0] as Map<string, string>)], [...(results[1] as Map<string, string>)], 'the lanes agree');
});
