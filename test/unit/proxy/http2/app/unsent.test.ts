import t from 'tap';
import { headersFrame, requestFields } from '../../../../support/http2-frames.ts';
import { openClient, startFrameApp } from '../../../../support/http2-peers.ts';
import { startLane } from '../../../../support/lanes.ts';

/*
 * A request that is to leave with this turn's write, while the end of the app's connection is read in the same turn: nobody has
 * read of it, so that it is sent again, or the client hears that it may send it again (RFC 9113 8.7).
 */
const rows = [
  { of: 'a request without content', method: 'POST', content: false, outcome: '200', sendings: 1 },
  { of: 'a request whose content is gone', method: 'GET', content: true, outcome: 'REFUSED_STREAM', sendings: 0 },
];

for (const { of, method, content, outcome, sendings } of rows) {
  t.test(`${of} that had not left when the app ended its connection`, async (t) => {
    const app = await startFrameApp(t);
    const lane = await startLane(t, { engine: 'fast', http2Engine: 'fast', protocol: 'http2', app: app.port });
    const client = await openClient(t, lane.port);
    client.send(headersFrame(1, requestFields('/first')));
    t.equal(await client.over(1), '200');
    // Both are there before the next poll, the request first.
    client.send(headersFrame(3, requestFields('/second', [], method), !content));
    if (content) client.data(3, Buffer.from('some'), true);
    app.connections[0]?.socket.end();
    await client.over(3);
    t.equal(client.outcome(3), outcome);
    const sent = app.requests.filter(({ path }) => path === '/second');
    t.equal(sent.length, sendings);
    t.ok(sent.every(({ connection }) => connection.number === 1));
  });
}
