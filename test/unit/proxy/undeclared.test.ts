import t from 'tap';
import { headersFrame, requestFields } from '../../support/http2-frames.ts';
import { okFields, openClient, startFrameApp } from '../../support/http2-peers.ts';
import { get, stage } from '../../support/lane-stage.ts';
import { engines, startLane } from '../../support/lanes.ts';
import { ok } from '../../support/raw-app.ts';
import { saysClose } from '../../support/raw-http.ts';
import { until } from '../../support/until.ts';

/*
 * A port of loopback is reached while something declares it. When nothing does any more, no connection goes on with requests
 * to it because it came before.
 */

for (const engine of engines) {
  t.test(`connections of HTTP/1 to a port that loses its declaration: ${engine}`, async (t) => {
    let isDeclared = true;
    let answer = (): void => {};
    const { open, app, lane } = await stage(
      t,
      engine,
      {
        answer: ({ target }, { socket }) => {
          if (target === '/busy') answer = () => socket.write(ok);
          else socket.write(ok);
        },
      },
      { stillLeads: () => isDeclared },
    );
    const [idle, busy, silent] = [await open(), await open(), await open()];
    idle.send(get('/idle'));
    await idle.responses(['GET']);
    busy.send(get('/busy'));
    await until('both at the app', () => app.requests.length === 2);
    await until('all to be served', () => lane.live.size === 3);
    lane.live.recheckAll();
    idle.send(get('/idle'));
    t.equal((await idle.responses(['GET', 'GET'])).length, 2, 'as long as it is declared nothing changes');
    isDeclared = false;
    lane.live.recheckAll();
    await until('the idle connection to end', () => idle.ended);
    await until('the one to end that has said nothing', () => silent.ended);
    t.equal(busy.ended, false);
    answer();
    const [last] = await busy.responses(['GET']);
    t.ok(last !== undefined && last.status === 200 && saysClose(last), 'what is under way is answered, and the last');
    await until('the end of that connection', () => busy.ended);
    t.equal(app.requests.length, 3);
  });
}

t.test('a session of HTTP/2 to such a port', async (t) => {
  let isDeclared = true;
  let answer = (): void => {};
  const app = await startFrameApp(t, {
    onEnd: ({ connection, id }) => {
      answer = () => connection.send(headersFrame(id, okFields, true));
    },
  });
  const stillLeads = (): boolean => isDeclared;
  const lane = await startLane(t, { engine: 'fast', protocol: 'http2', app: app.port, stillLeads });
  const client = await openClient(t, lane.port);
  client.send(headersFrame(1, requestFields('/')));
  await until('it at the app', () => app.requests.length === 1);
  isDeclared = false;
  lane.live.recheckAll();
  client.send(headersFrame(3, requestFields('/')));
  t.equal(await client.over(3), 'REFUSED_STREAM');
  t.equal(client.goaway?.last, 1);
  answer();
  t.equal(await client.over(1), '200');
  await client.until('the end of the connection', () => client.ended);
  t.equal(app.requests.length, 1);
});
