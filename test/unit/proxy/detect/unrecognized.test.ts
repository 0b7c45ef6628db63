import t from 'tap';
import { startLane } from '../../../support/lanes.ts';
import { latin1, RawClient } from '../../../support/raw-http.ts';
import { startSocketApp } from '../../../support/socket-app.ts';
import { until } from '../../../support/until.ts';

/*
 * On a port that nobody declares: what can be no request is none at once (here policy then closes it), and what could be one
 * is told when the time for detection is over.
 */

const rows: readonly (readonly [title: string, bytes: string, isTold: boolean])[] = [
  ['LDAP, StartTLS', '0\x1d\x02\x01\x01\x77\x18\x80\x16\x31.3.6.1.4.1.1466.20037', false],
  ['git', '0032git-upload-pack /project.git\0host=example.org\0', false],
  ['Redis', '*1\r\n$4\r\nPING\r\n', false],
  ['ZooKeeper', 'ruok', true],
  ['memcached', 'stats', true],
];

t.test('what is no HTTP on a port that nobody declares', async (t) => {
  const { port } = await startSocketApp(t, () => {});
  for (const [title, bytes, isTold] of rows) {
    const lane = await startLane(t, { engine: 'fast', protocol: 'detect', app: port, detectTimeoutMs: 200 });
    const client = await RawClient.open({ port: lane.port });
    client.send(latin1(bytes));
    await until('the end', () => client.ended);
    t.same(lane.counts.notRecognized, isTold ? [8080] : [], title);
    client.destroy();
  }
});
