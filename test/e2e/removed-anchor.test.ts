/**
 * What becomes of open connections when the trust anchor that vouched for their clients is removed, and when something in
 * a client's chain expires while it is connected.
 */

import { connect as connectHttp2 } from 'node:http2';
import { join } from 'node:path';
import type { ConnectionOptions } from 'node:tls';
import t from 'tap';
import { type Authority, createAuthority, issueCertificate } from '../../certs/authority.ts';
import { http1Request } from '../support/attacked-routes.ts';
import { type TestCertificate, testAuthority, testCertificate, workloadName } from '../support/certificates.ts';
import { identityEnvironment, replaceFile } from '../support/files.ts';
import { scrape } from '../support/metrics.ts';
import { openServer, policyEnvironment } from '../support/open-policy.ts';
import { freePorts } from '../support/ports.ts';
import { latin1, RawClient } from '../support/raw-http.ts';
import { startSallyport } from '../support/sallyport.ts';
import { crowding, patience, until } from '../support/until.ts';
import { startWitness } from '../support/witness.ts';

t.setTimeout(900_000);

const folder = t.testdir();
const identity = join(folder, 'identity');
const ownName = workloadName('web', 'shop');
const [kept, removed] = [testAuthority(), createAuthority({ commonName: 'To be removed', days: 30 })];
const own = testCertificate({ dnsNames: [ownName] });
const both = kept.certificatePem + removed.certificatePem;
const [web = 0, tcp = 0] = await freePorts(2);
let answerHung: () => void = () => {};
const app = await startWitness(t, (request, response) => {
  response.statusCode = 200;
  if (request.url === '/hang') answerHung = () => (response as NodeJS.WritableStream).end('at last');
  else (response as NodeJS.WritableStream).end('');
});
const sallyport = await startSallyport(t, {
  env: {
    ...policyEnvironment(folder, openServer('web', web) + openServer('tcp', tcp, 'TLS')),
    SALLYPORT_INBOUND_PORTS: `${web}=127.0.0.1:${app.port},${tcp}=127.0.0.1:${app.port}`,
    ...identityEnvironment(identity, own),
  },
});
const anchors = join(identity, 'anchors.crt');
const loads = async (): Promise<number> =>
  (await scrape(sallyport.adminPort)).sum('control_identity_cert_refreshes_total');

async function trust(pem: string): Promise<void> {
  const before = await loads();
  replaceFile(anchors, pem);
  await until('the anchors to be loaded', async () => (await loads()) > before);
}

function tls(certificate: TestCertificate | null): ConnectionOptions {
  const shown = certificate === null ? {} : { cert: certificate.certificatePem, key: certificate.keyPem };
  return { servername: ownName, ca: kept.certificatePem, checkServerIdentity: () => undefined, ...shown };
}

async function open(port: number, certificate: TestCertificate | null, bytes: string): Promise<RawClient> {
  const client = await RawClient.open({ port, tls: tls(certificate) });
  t.teardown(() => client.destroy());
  client.send(latin1(bytes));
  return client;
}

const ended = async (): Promise<number> =>
  (await scrape(sallyport.adminPort)).sum('sallyport_limit_reached_total', { limit: 'client_certificate' });

await t.test('a removed anchor', async (t) => {
  await trust(both);
  const name = workloadName('orders', 'shop');
  const sound = testCertificate({ dnsNames: [name] }, kept);
  const orphan = testCertificate({ dnsNames: [name] }, removed);
  const get = http1Request('/');
  const stay = [await open(web, sound, get), await open(web, null, get), await open(tcp, sound, '\x00hello')];
  const idle = await open(web, orphan, get);
  const busy = await open(web, orphan, http1Request('/hang'));
  const tunnel = await open(tcp, orphan, '\x00hello');
  const http2 = connectHttp2(`https://127.0.0.1:${web}`, { ...tls(orphan), ALPNProtocols: ['h2'] });
  let goaway = false;
  http2.on('goaway', () => {
    goaway = true;
  });
  http2.on('error', () => {});
  t.teardown(() => http2.destroy());
  const answer = new Promise<number>((resolve) => {
    http2.request({ ':path': '/' }).on('response', (head) => resolve(Number(head[':status'])));
  });
  t.equal(await answer, 200);
  await until('all to be served', () => [...stay, idle, tunnel].every(({ receivedLength }) => receivedLength > 0));
  await until('the request that hangs', () => app.requests.some(({ target }) => target === '/hang'));

  await trust(`${both}${createAuthority({ commonName: 'One more', days: 30 }).certificatePem}`);
  t.equal(await ended(), 0, 'one more anchor leaves all as it is');

  await trust(kept.certificatePem);
  const since = performance.now();
  t.ok(await idle.ends(8000), 'an idle HTTP/1 connection ends');
  await until('GOAWAY for HTTP/2', () => goaway, { timeoutMs: 8000 });
  await until('all to be told', async () => (await ended()) === 4, { timeoutMs: 10_000 });
  t.notOk(busy.ended, 'what is in flight has time');
  t.notOk(tunnel.ended, 'and so has a tunnel');
  answerHung();
  t.ok(await busy.ends(5000), 'it ends with its answer');
  t.match(busy.received.toString(), /connection: close[\s\S]*at last/i, 'which is whole, and says so');
  t.ok(await tunnel.ends(20_000), 'the tunnel is cut');
  t.ok(performance.now() - since < 20_000 * crowding(), 'within a bounded time');
  t.notOk(
    stay.some((client) => client.ended),
    'nobody else is',
  );
});

await t.test('a removed anchor, and a request that has waited', async (t) => {
  await trust(both);
  const name = workloadName('orders', 'shop');
  const waiting = http1Request('/late', ['Content-Length: 5', 'Expect: 100-continue'], 'POST');
  const clients = await Promise.all(
    [kept, removed].map((by) => open(web, testCertificate({ dnsNames: [name] }, by), waiting)),
  );
  const [sound, orphan] = clients as [RawClient, RawClient];
  for (const client of clients) t.ok(await client.reaches(() => client.received.includes('100 Continue'), 5000));
  await trust(kept.certificatePem);
  for (const client of clients) client.send(latin1('hello'));
  for (const client of clients) await client.reaches(() => /HTTP\/1\.1 [2-5]/.test(client.received.toString()), 5000);
  t.match(sound.received.toString(), 'HTTP/1.1 200', 'for whom somebody vouches');
  t.match(orphan.received.toString(), 'HTTP/1.1 403', 'for whom nobody does, whatever else they are given time for');
  t.equal(app.requests.filter(({ target }) => target === '/late').length, 1, 'the app has got the one');
  t.ok(await orphan.ends(20_000), 'the other has gone before the next test counts');
});

/** Of a certificate that begins a minute ago and has some seconds left: time to call with it. */
const shortDays = (60 + 4 * patience()) / 86_400;
const orders = { dnsNames: [workloadName('orders', 'shop')] };

/** With the certificate of who issued it. */
function behind(issuer: Authority): TestCertificate {
  const leaf = testCertificate(orders, issuer);
  return { ...leaf, certificatePem: leaf.certificatePem + issuer.certificatePem };
}

function intermediate(days: number): Authority {
  return issueCertificate(kept, { commonName: 'An intermediate', authority: true, days });
}

t.test('something in the chain expires', async (t) => {
  const anchor = createAuthority({ commonName: 'A short one', days: shortDays });
  await trust(kept.certificatePem + anchor.certificatePem);
  /** The named part expires soon; all else is good for a day at least. */
  const certificates: readonly (readonly [part: string, certificate: TestCertificate])[] = [
    ['its own certificate', testCertificate({ ...orders, days: shortDays }, kept)],
    ["its issuer's certificate", behind(intermediate(shortDays))],
    ['the trust anchor', testCertificate(orders, anchor)],
  ];
  const before = await ended();
  const stays = await open(web, behind(intermediate(1)), http1Request('/'));
  const rows = await Promise.all(
    certificates.map(async ([part, certificate]) => {
      const [idle, tunnel] = [
        await open(web, certificate, http1Request('/')),
        await open(tcp, certificate, '\x00hello'),
      ];
      return { part, idle, tunnel };
    }),
  );
  for (const { part, idle, tunnel } of rows) {
    t.ok(await idle.ends(25_000), `${part}: the idle connection ends`);
    t.match(idle.received.toString(), /^HTTP\/1\.1 200 /);
    t.notOk(tunnel.ended, 'a tunnel could not come back, and goes on');
  }
  t.equal(await ended(), before + rows.length);
  t.notOk(stays.ended, 'and so does a client behind a sound intermediate');
});
