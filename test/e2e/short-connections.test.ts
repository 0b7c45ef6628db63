import t from 'tap';
import { runAbruptClient } from '../support/abrupt-client.ts';
import { runToEnd } from '../support/children.ts';
import { temporaryFolder } from '../support/files.ts';
import { createNamespace, type Namespace, namespacesUnavailable } from '../support/namespace.ts';
import { openServer, policyEnvironment } from '../support/open-policy.ts';
import { startSallyport } from '../support/sallyport.ts';
import { startDriver } from '../support/wire-driver.ts';

// The side that closes first keeps the port for a minute, and a client has 28,000 of them for one port of an app. The proxy's
// listener is one of both families, whose connections the kernel lists with those of IPv6.

const connections = 500;
const [app, proxy] = [3000, 8080];

const unavailable = namespacesUnavailable();

const timeWait = '06';

/** Connections that wait for their last packets to die out, by whose end they are. */
async function waiting(namespace: Namespace): Promise<{ readonly proxy: number; readonly client: number }> {
  const [command, ...args] = namespace.within;
  const { stdout } = await runToEnd(t, command as string, [...args, 'cat', '/proc/net/tcp', '/proc/net/tcp6']);
  const rows = stdout.split('\n').map((line) => line.trim().split(/\s+/));
  const portOf = (end = ''): number => Number.parseInt(end.split(':')[1] ?? '', 16);
  const among = rows.filter(([, , , state]) => state === timeWait);
  return {
    proxy: among.filter(([, local]) => portOf(local) === proxy).length,
    client: among.filter(([, , remote]) => portOf(remote) === proxy).length,
  };
}

t.test('a client with a connection for each request keeps no ports', { skip: unavailable ?? false }, async (t) => {
  const namespace = await createNamespace(t);
  const driver = await startDriver(t, namespace.within);
  await driver.startApp({ host: '127.0.0.1', port: app });
  await startSallyport(t, {
    within: namespace.within,
    health: async (path, port) => (await driver.get(port, path)).status ?? undefined,
    env: {
      ...policyEnvironment(temporaryFolder(t), openServer('web', proxy)),
      SALLYPORT_INBOUND_PORTS: `${proxy}=127.0.0.1:${app}`,
    },
  });
  const result = await runAbruptClient(t, {
    port: proxy,
    connections,
    request: 'GET / HTTP/1.1\r\nHost: web\r\nConnection: close\r\n\r\n',
    last: '}',
    within: namespace.within,
  });
  t.match(result, { failed: 0, response: /^HTTP\/1\.1 200 / });
  const left = await waiting(namespace);
  t.ok(left.client <= connections / 100, `${left.client} at the client`);
  t.ok(left.proxy >= connections * 0.99, `${left.proxy} at the proxy`);
});
