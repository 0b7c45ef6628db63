import t from 'tap';
import { sliceRequests } from '../../../../lib/proxy/http1/limits.ts';
import { get, runScenarios, type Scenario, stage } from '../../../support/lane-stage.ts';
import { latin1, oddLines } from '../../../support/raw-http.ts';
import { until } from '../../../support/until.ts';

/*
 * However much one client pipelines, the others have their turn in between: counted in turns of the event loop, which no
 * load on the machine can change.
 */

const rows: readonly (readonly [title: string, request: string])[] = [
  ['refusals', 'GET /DENIED HTTP/1.1\r\nHost: a\r\n\r\n'],
  ['refusals to clients of HTTP/1.0', 'GET /DENIED HTTP/1.0\r\nConnection: keep-alive\r\n\r\n'],
  ['refusals that only the library lane gives', `GET /DENIED HTTP/1.1\r\nHost: a\r\n${oddLines}\r\n`],
  ['responses', 'GET / HTTP/1.1\r\nHost: a\r\n\r\n'],
  ['content', 'POST /DENIED HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx'],
  ['chunks', 'POST /DENIED HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n'],
];

const scenarios: Scenario[] = rows.map(([title, request]) => ({
  name: title,
  run: async (t, engine) => {
    const { open, lane } = await stage(t, engine);
    const client = await open();
    const count = Math.floor(60_000 / request.length);
    let most = 0;
    let before = 0;
    let over = false;
    const turn = (): void => {
      most = Math.max(most, lane.counts.decided - before);
      before = lane.counts.decided;
      if (!over) setImmediate(turn);
    };
    turn();
    client.send(latin1(request.repeat(count)));
    await until('a good part of the responses', () => lane.counts.decided >= Math.min(count, 400));
    const bystander = await open();
    const decided = lane.counts.decided;
    bystander.send(get('/'));
    await bystander.responses(['GET']);
    t.ok(lane.counts.decided - decided < 64 * sliceRequests, 'another client does not wait for all of them');
    await until('all responses', () => lane.counts.decided === count + 1, { timeoutMs: 30_000 });
    over = true;
    // A turn may see the end of one slice and the beginning of another.
    t.ok(most <= 2 * sliceRequests + 1, `${most} in one turn`);
    client.destroy();
  },
}));

/** A turn has two milliseconds for such work; this is more than garbage adds to that, and a tenth of what all of it takes. */
const longTurnMs = 10;

scenarios.push({
  name: 'large heads of hundreds of clients that come at one moment',
  run: async (t, engine) => {
    const { open, lane } = await stage(t, engine);
    const clients = await Promise.all(Array.from({ length: 400 }, open));
    const fields = Array.from({ length: 60 }, (_, i) => `X-${i}: ${'a'.repeat(980)}\r\n`).join('');
    const head = get('/DENIED', fields);
    // The first of a connection, and one behind it.
    for (let round = 1; round <= 2; round++) {
      let most = 0;
      let before = lane.counts.decided;
      let usage = process.threadCpuUsage();
      let over = false;
      const turn = (): void => {
        const { user, system } = process.threadCpuUsage(usage);
        // A quick machine takes more of them in the time that there is.
        if ((user + system) / 1000 > longTurnMs) most = Math.max(most, lane.counts.decided - before);
        before = lane.counts.decided;
        usage = process.threadCpuUsage();
        if (!over) setImmediate(turn);
      };
      for (const client of clients) client.send(head);
      setImmediate(turn);
      await until('all to be decided', () => lane.counts.decided === clients.length * round, { timeoutMs: 30_000 });
      over = true;
      t.ok(most <= 50, `${most} in one long turn`);
    }
  },
});

await runScenarios(t, scenarios);
