import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import type { ConnectionOptions } from 'node:tls';
import t, { type Test } from 'tap';
import { closedServer, http1Request } from '../../support/attacked-routes.ts';
import { meshClient, workloadCertificate, workloadName } from '../../support/certificates.ts';
import { identityEnvironment } from '../../support/files.ts';
import { scrape } from '../../support/metrics.ts';
import { openServer, policyEnvironment } from '../../support/open-policy.ts';
import { freePorts } from '../../support/ports.ts';
import { startSallyport } from '../../support/sallyport.ts';
import { RecordClient } from '../../support/tls-records.ts';
import { until } from '../../support/until.ts';
import { startWitness } from '../../support/witness.ts';

/*
 * KeyUpdates (RFC 8446 section 4.6.3) cost their sender 27 bytes, and OpenSSL bounds neither their number nor their rate. Whoever
 * sends many is cut off, and that is said; a few are nobody's business.
 */
const ownName = workloadName('web', 'shop');
const own = workloadCertificate('web', 'shop');
const { ca } = meshClient(ownName, own);
const verifies: ConnectionOptions = { servername: ownName, ca, checkServerIdentity: () => undefined };
const nobody: ConnectionOptions = verifies;
const somebody: ConnectionOptions = { ...verifies, ...meshClient(ownName, workloadCertificate('orders', 'shop')) };

const app = await startWitness(t);
const echo = createServer((socket: Socket) => socket.on('error', () => {}).pipe(socket));
echo.listen(0, '127.0.0.1');
await once(echo, 'listening');
t.teardown(() => echo.close());
const [open = 0, closed = 0, tunnel = 0] = await freePorts(3);
const folder = t.testdir();
const sallyport = await startSallyport(t, {
  env: {
    ...policyEnvironment(
      folder,
      openServer('open', open) + closedServer('closed', closed) + openServer('tunnel', tunnel),
    ),
    SALLYPORT_INBOUND_PORTS: [
      ...[open, closed].map((port) => `${port}=127.0.0.1:${app.port}`),
      `${tunnel}=127.0.0.1:${(echo.address() as AddressInfo).port}`,
    ].join(),
    ...identityEnvironment(join(folder, 'identity'), own),
  },
});

interface Talk {
  readonly client: RecordClient;
  /** All that it was told. */
  readonly told: () => string;
  readonly isClosed: () => boolean;
}

async function talk(t: Test, port: number, options: ConnectionOptions): Promise<Talk> {
  const client = await RecordClient.connect(port, options);
  t.teardown(() => client.destroy());
  let told = '';
  let isClosed = false;
  client.secure.on('data', (bytes: Buffer) => {
    told += bytes.toString('latin1');
  });
  for (const event of ['end', 'close']) {
    client.raw.on(event, () => {
      isClosed = true;
    });
  }
  return { client, told: () => told, isClosed: () => isClosed };
}

const cutOff = async (): Promise<number> =>
  (await scrape(sallyport.adminPort)).sum('sallyport_limit_reached_total', { limit: 'tls_key_updates' });

const request = http1Request('/');
const answers = (told: string, status: number): number => told.split(`HTTP/1.1 ${status} `).length - 1;

const ways: readonly {
  readonly name: string;
  readonly port: number;
  readonly as: ConnectionOptions;
  readonly says: string;
  readonly hears: (told: string) => number;
}[] = [
  { name: 'nobody, permitted', port: open, as: nobody, says: request, hears: (told) => answers(told, 200) },
  { name: 'nobody, refused', port: closed, as: nobody, says: request, hears: (told) => answers(told, 403) },
  { name: 'a workload, permitted', port: open, as: somebody, says: request, hears: (told) => answers(told, 200) },
  { name: 'a workload, refused', port: closed, as: somebody, says: request, hears: (told) => answers(told, 403) },
  { name: 'nobody, in a tunnel', port: tunnel, as: nobody, says: '\0*', hears: (told) => told.split('*').length - 1 },
  {
    name: 'a workload, in a tunnel',
    port: tunnel,
    as: somebody,
    says: '\0*',
    hears: (told) => told.split('*').length - 1,
  },
];

for (const { name, port, as, says, hears } of ways) {
  t.test(`${name}: a few KeyUpdates between what is said`, async (t) => {
    const before = await cutOff();
    const { client, told, isClosed } = await talk(t, port, as);
    for (let i = 1; i <= 4; i++) {
      client.raw.write(Buffer.concat([client.keyUpdates(2, i % 2 === 0), client.data(says), client.keyUpdate(false)]));
      await until(`answer ${i}`, () => hears(told()) === i);
    }
    client.raw.end(client.keyUpdate(true));
    await until('its end', isClosed);
    t.equal(await cutOff(), before);
  });

  t.test(`${name}: 64 KiB of KeyUpdates, at once and behind the first answer`, async (t) => {
    for (const isGreeted of [false, true]) {
      const before = await cutOff();
      const { client, told, isClosed } = await talk(t, port, as);
      if (isGreeted) {
        client.raw.write(client.data(says));
        await until('an answer', () => hears(told()) === 1);
      }
      client.raw.write(client.keyUpdates(2400, true));
      await until('its end', isClosed);
      await until('its being said', async () => (await cutOff()) === before + 1);
    }
  });
}

t.test('it is in the log as well', async () => {
  await sallyport.waitForLog('the limit', (line) => line.limit === 'tls_key_updates');
});
