import t from 'tap';
import { bounded, megabyte, runScenarios, stage, still } from '../../../support/lane-stage.ts';
import { latin1 } from '../../../support/raw-http.ts';
import { until } from '../../../support/until.ts';

/*
 * Where nothing but the end of its connection says that a response is whole (RFC 9112 6.3 rule 8), whatever else ends the
 * connection must not look like that end: a forced stop, policy that admits the client no more, a client that is spared.
 */

const old = latin1('GET / HTTP/1.0\r\nHost: a\r\n\r\n');
const body = Buffer.alloc(bounded, 'x');

await runScenarios(t, [
  {
    name: 'a response of which more was to come',
    run: async (t, engine) => {
      const { open, lane } = await stage(t, engine, {
        answer: (_request, { socket }) => socket.write('HTTP/1.1 200 OK\r\n\r\nhalf'),
      });
      const client = await open();
      client.send(old);
      await until('the response', () => client.received.includes('half'));
      await lane.live.drain(0);
      await until('the end', () => client.ended);
      t.equal(client.error?.code, 'ECONNRESET');
    },
  },
  {
    name: 'a response of which some still waits for its client',
    run: async (t, engine) => {
      const { open, lane } = await stage(t, engine, {
        answer: (_request, { socket }) => socket.end(Buffer.concat([latin1('HTTP/1.1 200 OK\r\n\r\n'), body])),
      });
      const client = await open();
      client.send(old);
      await until('some of the response', () => client.receivedLength > megabyte);
      client.socket.pause();
      await still('what is read', () => client.receivedLength);
      await lane.live.drain(0);
      client.socket.resume();
      await until('the end', () => client.ended);
      t.ok(client.receivedLength < bounded, 'not all of it');
      t.equal(client.error?.code, 'ECONNRESET');
    },
  },
  {
    name: 'a response that is whole',
    run: async (t, engine) => {
      const { open } = await stage(t, engine, {
        answer: (_request, { socket }) => socket.end(Buffer.concat([latin1('HTTP/1.1 200 OK\r\n\r\n'), body])),
      });
      const client = await open();
      client.send(old);
      await until('the end', () => client.ended);
      t.ok(client.receivedLength > bounded, 'all of it');
      client.socket.end();
      await until('the close', () => client.closed);
      t.equal(client.error, null);
    },
  },
]);
