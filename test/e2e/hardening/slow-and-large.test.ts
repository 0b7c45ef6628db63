import t from 'tap';
import { http1Outcome, http1Request, lanes } from '../../support/attacked-routes.ts';
import { openServer, policyEnvironment } from '../../support/open-policy.ts';
import { freePorts } from '../../support/ports.ts';
import { latin1, RawClient } from '../../support/raw-http.ts';
import { startSallyport } from '../../support/sallyport.ts';
import { startWitness } from '../../support/witness.ts';

/*
 * Heads that are large, many or late, and chunks with more extension than data. Each is refused with a status of its own
 * before the app has a whole message.
 */
const fields = (count: number, length = 1): string[] =>
  Array.from({ length: count }, (_, i) => `X-${i}: ${'a'.repeat(length)}`);
const chunked = 'POST / HTTP/1.1\r\nHost: web\r\nTransfer-Encoding: chunked\r\n\r\n';

const rows: readonly (readonly [title: string, bytes: string, outcome: string])[] = [
  ['a field of 60 KiB', http1Request('/', [`X: ${'a'.repeat(60_000)}`]), '200'],
  ['a field of 70 KiB (CVE-2018-12121)', http1Request('/', [`X: ${'a'.repeat(70_000)}`]), '431'],
  ['a name of 70 KiB', http1Request('/', [`${'x'.repeat(70_000)}: a`]), '431'],
  ['a target of 70 KiB', http1Request(`/${'a'.repeat(70_000)}`), '431'],
  ['a method of 70 KiB', http1Request('/', [], 'A'.repeat(70_000)), '400'],
  ['a megabyte of fields', http1Request('/', fields(1_000, 1_000)), '431'],
  ['999 fields and Host', http1Request('/', fields(999)), '200'],
  ['1,001 fields (CVE-2026-58044)', http1Request('/', fields(1_000)), '400'],
  ['5,000 fields', http1Request('/', fields(5_000)), '400'],
  ['a chunk with 60 KiB of extension (CVE-2024-22019)', `${chunked}1;${'a'.repeat(60_000)}\r\nx\r\n0\r\n\r\n`, '431'],
  // Every chunk has a bound of its own; extensions are read away and never forwarded.
  ['as much extension in small pieces', `${chunked}${`1;${'a'.repeat(300)}\r\nx\r\n`.repeat(200)}0\r\n\r\n`, '200'],
  ['trailers of 70 KiB', `${chunked}0\r\nX: ${'a'.repeat(70_000)}\r\n\r\n`, '431'],
];

t.setTimeout(900_000);
// Most of the time is the one minute that both lanes give.
t.jobs = 2;

for (const { name, env } of lanes) {
  t.test(name, async (t) => {
    const [detected = 0, declared = 0] = await freePorts(2);
    const app = await startWitness(t, (request, response) => {
      // Only a whole message is answered.
      request.on('end', () => {
        response.statusCode = 200;
        response.end();
      });
    });
    const sallyport = await startSallyport(t, {
      env: {
        ...policyEnvironment(
          t.testdir(),
          openServer('detected', detected) + openServer('declared', declared, 'HTTP/1'),
        ),
        SALLYPORT_INBOUND_PORTS: `${detected}=127.0.0.1:${app.port},${declared}=127.0.0.1:${app.port}`,
        ...env,
      },
    });
    for (const [title, bytes, outcome] of rows) {
      for (const port of [detected, declared]) {
        t.equal(await http1Outcome(port, bytes), outcome, title);
      }
    }

    // Late: one deadline for the whole head, however busily it dribbles (CVE-2018-12122, CVE-2019-5737).
    const started = performance.now();
    const slow = await Promise.all(
      ['GET / HTTP/1.1\r\nHost: web\r\n', 'GET / HTTP/1.1\r\nHost: web\r\nConnection: close, x\r\n', 'GET /'].map(
        async (head) => {
          const client = await RawClient.open({ port: declared });
          client.send(latin1(head));
          return client;
        },
      ),
    );
    const dribbling = setInterval(() => {
      for (const client of slow.slice(0, 2)) client.send(latin1('X: y\r\n'));
    }, 1_000);
    t.teardown(() => clearInterval(dribbling));
    const ended = await Promise.all(slow.map((client) => client.ends(75_000)));
    clearInterval(dribbling);
    t.notOk(ended.includes(false), 'each ends');
    t.ok(performance.now() - started > 50_000, 'but not before a slow network has had its minute');
    for (const client of slow) {
      t.match(client.received.toString('latin1'), /^HTTP\/1\.1 408 /, 'with 408');
      client.destroy();
    }
    // A chunk may be refused when the app has had the head already: then its message breaks off, and is never a whole one.
    const odd = app.malformed.filter((code) => code !== 'HPE_INVALID_EOF_STATE');
    t.same(odd, []);
    t.match(await sallyport.stop(), { code: 0 });
  });
}
