import t from 'tap';
import { parseIp } from '../../../lib/ip.ts';
import { appEndpoint } from '../../../lib/proxy/original-destination.ts';

t.test('where the app of a redirected connection is', async (t) => {
  const rows: [appHost: string, meant: string, host: string][] = [
    ['127.0.0.1', '10.42.0.7', '127.0.0.1'],
    ['127.0.0.1', '::ffff:10.42.0.7', '127.0.0.1'],
    ['127.0.0.1', 'fd00::7', 'localhost'],
    ['::1', 'fd00::7', '::1'],
    ['::1', '10.42.0.7', '::1'],
    ['127.0.0.2', 'fd00::7', '127.0.0.2'],
    ['app.shop', '10.42.0.7', 'app.shop'],
    ['original', '10.42.0.7', '10.42.0.7'],
    ['original', '::ffff:10.42.0.7', '10.42.0.7'],
    ['original', 'fd00:0:0::7', 'fd00::7'],
  ];
  for (const [appHost, meant, host] of rows) {
    const ip = parseIp(meant);
    if (ip === undefined) throw new Error(meant);
    t.same(appEndpoint(appHost, { ip, port: 8080 }), { host, port: 8080 }, `${appHost} for ${meant}`);
  }
});
