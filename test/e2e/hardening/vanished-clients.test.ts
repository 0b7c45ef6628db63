import { join } from 'node:path';
import t from 'tap';
import { meshClient, testCertificate, workloadCertificate, workloadName } from '../../support/certificates.ts';
import { identityEnvironment, temporaryFolder } from '../../support/files.ts';
import { scrape } from '../../support/metrics.ts';
import { openServer, policyEnvironment } from '../../support/open-policy.ts';
import { freePorts } from '../../support/ports.ts';
import { latin1, RawClient } from '../../support/raw-http.ts';
import { startSallyport } from '../../support/sallyport.ts';
import { startSniffingApp } from '../../support/sniffing-app.ts';
import { until } from '../../support/until.ts';

/*
 * Clients that reset their connection, or end it over TLS, before anybody knows what they speak. Nobody is told twice of an end:
 * what begins to serve such a connection would count it as open for good, and dial the app for nobody.
 */

const ownName = workloadName('web', 'shop');

const rows: readonly (readonly [name: string, bytes: string])[] = [
  ['nothing', ''],
  ['the beginning of a method', 'GE'],
  ['half a request line', 'GET /x HT'],
  ['the beginning of the HTTP/2 preface', 'PRI * HTTP/2.0\r\n\r\nSM'],
  ['a word', 'hello'],
  ['the beginning of a ClientHello', '\x16\x03\x01\x02'],
];

const protocols = ['unknown', 'HTTP/1', 'HTTP/2', 'opaque'] as const;

t.test('clients that are gone before they have said what they are', { timeout: 840_000 }, async (t) => {
  const folder = temporaryFolder(t);
  const app = await startSniffingApp(t);
  const ports = await freePorts(protocols.length);
  const servers = protocols.map((protocol, at) => openServer(`s${at}`, ports[at] ?? 0, protocol)).join('');
  const { adminPort, logs, stop } = await startSallyport(t, {
    env: {
      ...policyEnvironment(folder, servers),
      SALLYPORT_INBOUND_PORTS: ports.map((port) => `${port}=127.0.0.1:${app.port}`).join(),
      ...identityEnvironment(join(folder, 'identity'), testCertificate({ dnsNames: [ownName] })),
    },
  });
  const mesh = meshClient(ownName, workloadCertificate('orders', 'shop'));
  for (const [at, protocol] of protocols.entries()) {
    const port = ports[at] ?? 0;
    const open = async (): Promise<number> =>
      (await scrape(adminPort)).sum('tcp_open_connections', { target_port: String(port) });
    for (const [name, bytes] of rows) {
      for (const tls of protocol === 'opaque' ? [undefined] : [undefined, mesh]) {
        const connections = app.counts.connections;
        const client = await RawClient.open({ port, ...(tls === undefined ? {} : { tls }) });
        client.send(latin1(bytes));
        // What comes behind it has been answered: so it has been read.
        await open();
        if (tls === undefined) client.reset();
        else client.destroy();
        const title = `${protocol}${tls === undefined ? '' : ' over TLS'}: ${name}`;
        await until(`${title}: nothing open`, async () => (await open()) === 0);
        if (protocol !== 'opaque' && tls === undefined)
          t.equal(app.counts.connections, connections, `${title}: nobody dials the app`);
      }
    }
  }
  t.equal((await scrape(adminPort)).sum('sallyport_internal_errors_total'), 0);
  await stop();
  t.same(
    logs().filter(({ level }) => level === 'error'),
    [],
  );
});
