import t from 'tap';
import { parseIp } from '../../../../lib/ip.ts';
import { appEndpoint } from '../../../../lib/proxy/accept/original-destination.ts';

t.test('where the app of a redirected connection is', async (t) => {
  const rows: [appHost: string, meant: string, host: string, ofUndeclared?: string][] = [
    ['127.0.0.1', '10.42.0.7', '127.0.0.1', '10.42.0.7'],
    ['127.0.0.1', '::ffff:10.42.0.7', '127.0.0.1', '10.42.0.7'],
    ['127.0.0.1', 'fd00::7', 'localhost', 'fd00::7'],
    ['::1', 'fd00::7', '::1', 'fd00::7'],
    ['::1', '10.42.0.7', '::1', '10.42.0.7'],
    ['127.0.0.2', 'fd00::7', '127.0.0.2', 'fd00::7'],
    ['localhost', '10.42.0.7', 'localhost', '10.42.0.7'],
    ['localhost.', '10.42.0.7', 'localhost.', '10.42.0.7'],
    ['LocalHost', '10.42.0.7', 'LocalHost', '10.42.0.7'],
    ['0.0.0.0', '10.42.0.7', '0.0.0.0', '10.42.0.7'],
    ['10.42.0.9', '10.42.0.7', '10.42.0.9'],
    ['app.shop', '10.42.0.7', 'app.shop'],
    ['ip6-localhost', '10.42.0.7', 'ip6-localhost'],
    ['original', '10.42.0.7', '10.42.0.7'],
    ['original', '::ffff:10.42.0.7', '10.42.0.7'],
    ['original', 'fd00:0:0::7', 'fd00::7'],
  ];
  for (const [appHost, meant, host, ofUndeclared = host] of rows) {
    const ip = parseIp(meant);
    if (ip === undefined) throw new Error(meant);
    const target = { ip, port: 8080 };
    t.same(
      appEndpoint(appHost, target, () => true),
      { host, port: 8080 },
      `${appHost} for ${meant}`,
    );
    const undeclared = appEndpoint(appHost, target, () => false);
    // Where it leads is not known yet.
    const isName = parseIp(ofUndeclared) === undefined;
    const wanted = { host: ofUndeclared, port: 8080, ...(isName ? { notLoopback: true } : {}) };
    t.same(undeclared, wanted, `${appHost} for ${meant}, of a port that nobody declares`);
  }
});
