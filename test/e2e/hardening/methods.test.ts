import t from 'tap';
import { closedServer, http1Outcome, http1Request, lanes, openRoute, route } from '../../support/attacked-routes.ts';
import { http2Outcome, requestFields } from '../../support/http2-frames.ts';
import { policyEnvironment } from '../../support/open-policy.ts';
import { freePorts } from '../../support/ports.ts';
import fc from '../../support/properties.ts';
import { startRecorder } from '../../support/recorder-app.ts';
import { startSallyport } from '../../support/sallyport.ts';

/*
 * Policy compares methods letter by letter, and many a server does not: `delete` runs DELETE. What no server knows is for
 * policy to decide, like anything else.
 */

t.setTimeout(900_000);

const known = ['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'OPTIONS', 'TRACE', 'PATCH', 'CONNECT', 'PROPFIND', 'M-SEARCH'];

/** Known methods, each with another case of one letter or of several. */
const misspelt = fc.sample(
  fc
    .tuple(fc.constantFrom(...known), fc.array(fc.boolean(), { minLength: 8, maxLength: 8 }))
    .map(([method, lowered]) => [...method].map((c, i) => (lowered[i] ? c.toLowerCase() : c)).join(''))
    .filter((method) => !known.includes(method)),
  { numRuns: 60, seed: 1 },
);

/** Tokens that no server knows. */
const unknown = ['FOO', 'GETX', 'X-Y', 'foo', "!#$%&'*+.^_`|~", 'G'];

for (const { name, env } of lanes) {
  t.test(name, async (t) => {
    const app = await startRecorder(t, 'strict');
    const [port = 0] = await freePorts(1);
    await startSallyport(t, {
      env: {
        ...policyEnvironment(
          t.testdir(),
          closedServer('web', port) + route('public', 'web', '/public') + openRoute('public'),
        ),
        SALLYPORT_INBOUND_PORTS: `${port}=127.0.0.1:${app.port}`,
        ...env,
      },
    });
    const downgraded = [['l5d-orig-proto', 'HTTP/1.1']] as const;
    const mark = app.mark();
    for (const method of ['get', 'delete', 'Post', ...misspelt]) {
      t.equal(await http1Outcome(port, http1Request('/public', [], method)), '400', `HTTP/1: ${method}`);
      t.equal(await http2Outcome(port, requestFields('/public', [], method)), '400', `HTTP/2: ${method}`);
      const outcome = await http2Outcome(port, requestFields('/public', downgraded, method));
      t.equal(outcome, '400', `HTTP/1 inside HTTP/2: ${method}`);
    }
    t.same(app.requestsSince(mark), [], 'the app saw none of them');

    // Node's own parser knows no other methods than its own, so the library lane cannot carry these.
    const carries = name === 'fast lane';
    for (const method of unknown) {
      const before = app.mark();
      t.equal(await http1Outcome(port, http1Request('/public', [], method)), carries ? '200' : '400', method);
      t.equal(await http2Outcome(port, requestFields('/public', downgraded, method)), '200', method);
      const seen = app.requestsSince(before).map((request) => request.method);
      t.same(seen, carries ? [method, method] : [method], `${method}: as it came`);
      t.equal(await http1Outcome(port, http1Request('/admin', [], method)), carries ? '404' : '400', method);
      const kept = 'Connection: keep-alive';
      for (const other of [
        `${method} /public HTTP/1.0\r\n${kept}\r\n\r\n`,
        http1Request('http://web/public', [], method),
      ]) {
        t.equal(await http1Outcome(port, other), carries ? '200' : '400', other);
      }
      t.equal(await http2Outcome(port, requestFields('/admin', [], method)), '404', method);
    }
    for (const method of ['TRACE', 'PROPFIND', 'QUERY', 'SOURCE']) {
      t.equal(await http1Outcome(port, http1Request('/public', [], method)), '200', method);
    }
    for (const bytes of ['G@T /public HTTP/1.1\r\nHost: web\r\n\r\n', 'PRI /public HTTP/1.1\r\nHost: web\r\n\r\n']) {
      t.match(await http1Outcome(port, bytes), /400|ended/, bytes.slice(0, 5));
    }
  });
}
