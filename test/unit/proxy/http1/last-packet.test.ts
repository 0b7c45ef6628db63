import t from 'tap';
import { loadSocketCalls } from '../../../../lib/proxy/socket-calls.ts';
import { abruptUnavailable, runAbruptClient } from '../../../support/abrupt-client.ts';
import { startLane } from '../../../support/lanes.ts';
import { latin1 } from '../../../support/raw-http.ts';
import { startSocketApp } from '../../../support/socket-app.ts';
import { until } from '../../../support/until.ts';

// A client that closes before the end of the connection has reached it keeps its port for a minute, and has 28,000.

const connections = 200;
const get = 'GET /a HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n';

interface Row {
  readonly name: string;
  readonly request: string;
  readonly response: string;
  readonly last: string;
  readonly status: number;
}

const rows: readonly Row[] = [
  {
    name: 'a response with a length',
    request: get,
    response: 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello',
    last: 'hello',
    status: 200,
  },
  {
    name: 'a response in chunks',
    request: get,
    response: 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n',
    last: '\r\n0\r\n\r\n',
    status: 200,
  },
  {
    name: 'a response without content',
    request: get,
    response: 'HTTP/1.1 204 No Content\r\nX-Last: 1\r\n\r\n',
    last: '\r\n\r\n',
    status: 204,
  },
  {
    name: 'a response to a request with content',
    request: 'POST /a HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello',
    response: 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nworld',
    last: 'world',
    status: 200,
  },
  {
    name: 'a response of more than a packet',
    request: get,
    response: `HTTP/1.1 200 OK\r\nContent-Length: 40004\r\n\r\n${'x'.repeat(40_000)}last`,
    last: 'xlast',
    status: 200,
  },
  {
    name: 'a refusal',
    request: get.replace('/a', '/DENIED'),
    response: '',
    last: '\r\n\r\n',
    status: 403,
  },
];

t.test(
  'the last byte of a connection and its end reach the client together',
  { skip: abruptUnavailable },
  async (t) => {
    loadSocketCalls();
    for (const { name, request, response, last, status } of rows) {
      const { port } = await startSocketApp(t, (socket) => {
        socket.on('data', () => socket.write(latin1(response)));
        socket.on('error', () => {});
      });
      const lane = await startLane(t, { engine: 'fast', app: port });
      const result = await runAbruptClient(t, { port: lane.port, connections, request, last });
      t.match(result, { together: connections, apart: 0, failed: 0 }, name);
      t.match(result.response, new RegExp(`^HTTP/1\\.1 ${status} `), name);
      await until('no connection to be left', () => lane.live.size === 0);
    }
  },
);
