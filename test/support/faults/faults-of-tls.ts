import { X509Certificate } from 'node:crypto';
import { join } from 'node:path';
import type { ConnectionOptions } from 'node:tls';
import { createAuthority } from '../../../certs/authority.ts';
import type { TestCertificate } from '../certificates.ts';
import { spiffeCertificate, testCertificate, workloadCertificate, workloadName } from '../certificates.ts';
import type { Teardown } from '../children.ts';
import { identityEnvironment } from '../files.ts';
import { patience, until } from '../until.ts';
import { getOverTls, handshakeByOpenssl } from './clients.ts';
import { type Fault, type Finding, firstPolicy, Stage } from './stage.ts';

const dayMs = 86_400_000;
const checkout = workloadName('checkout', 'shop');

/** A handshake that fails; `reason` as log and metric have it. */
function handshake(
  title: string,
  reason: string,
  client: () => TestCertificate | null,
  fields: readonly string[],
  options: ConnectionOptions = {},
): Fault {
  return {
    title,
    async provoke(t) {
      const stage = await Stage.start(t);
      await getOverTls(stage, '/orders/7', client(), options);
      return [
        await stage.log(/TLS handshake failed/, 'reason', 'detail', 'client.ip', ...fields),
        await stage.metric('sallyport_tls_failures_total', { reason }, 1),
      ];
    },
  };
}

const certificate = ['certificate.names', 'certificate.issuer'];

export const tlsFaults: readonly Fault[] = [
  handshake(
    "wrong CA: the client's certificate is from another",
    'unknown_issuer',
    () => testCertificate({ dnsNames: [checkout] }, createAuthority({ commonName: 'another CA', days: 30 })),
    [...certificate, 'own.trusts'],
  ),
  {
    title: 'wrong CA: the client does not trust ours',
    async provoke(t) {
      const stage = await Stage.start(t);
      const { certificatePem } = createAuthority({ commonName: 'another CA', days: 30 });
      await handshakeByOpenssl(t, stage, workloadCertificate('checkout', 'shop'), certificatePem);
      return [
        await stage.log(/TLS handshake failed/, 'reason', 'detail', 'client.ip', 'own.issuer'),
        await stage.metric('sallyport_tls_failures_total', { reason: 'client_distrusts_us' }, 1),
      ];
    },
  },
  handshake(
    'expired client certificate',
    'client_expired',
    () => testCertificate({ dnsNames: [checkout], notBefore: new Date(Date.now() - 3 * dayMs), days: 2 }),
    [...certificate, 'certificate.notAfter', 'clock'],
  ),
  handshake(
    'client certificate that is not valid yet',
    'client_not_yet_valid',
    () => testCertificate({ dnsNames: [checkout], notBefore: new Date(Date.now() + dayMs), days: 2 }),
    [...certificate, 'certificate.notBefore', 'clock'],
  ),
  handshake('TLS 1.2', 'no_shared_version', () => workloadCertificate('checkout', 'shop'), [], {
    minVersion: 'TLSv1.2',
    maxVersion: 'TLSv1.2',
  }),
  {
    title: 'our certificate has expired, at the start',
    async provoke(t) {
      const stage = await Stage.set(t);
      const expired = testCertificate({
        dnsNames: [stage.ownName],
        notBefore: new Date(Date.now() - 3 * dayMs),
        days: 2,
      });
      identityEnvironment(join(stage.folder, 'identity'), expired);
      return [await stage.printed(['run'], /expire/)];
    },
  },
  {
    title: 'our certificate on disk is broken',
    async provoke(t) {
      const stage = await Stage.start(t);
      stage.write('identity/own.crt', 'nothing');
      return [await stage.log(/Identity not reloaded/), await stage.metric('sallyport_identity_stale', {}, 1)];
    },
  },
  {
    title: 'our certificate expires while we run',
    async provoke(t) {
      // It must not expire before the proxy has started.
      const seconds = Math.ceil(4 * patience());
      const short = testCertificate({
        dnsNames: [workloadName('web', 'shop')],
        days: seconds / 86_400,
        notBefore: new Date(),
      });
      const stage = await Stage.set(t);
      identityEnvironment(join(stage.folder, 'identity'), short);
      await stage.run();
      await until(
        'the certificate to expire',
        () => Date.now() > new X509Certificate(short.certificatePem).validToDate.getTime(),
        { timeoutMs: 2_000 * seconds },
      );
      await handshakeByOpenssl(t, stage, workloadCertificate('checkout', 'shop'), short.trustAnchorsPem);
      return [
        await stage.log(/Identity certificate has expired/, 'names', 'notAfter', 'code', 'hint'),
        await stage.log(/TLS handshake failed/, 'reason', 'detail', 'client.ip', 'own.names', 'own.notAfter'),
        await stage.metric('sallyport_tls_failures_total', { reason: 'own_expired' }, 1),
      ];
    },
  },
  passed('no SNI', ''),
  passed('foreign SNI', 'localhost'),
  {
    title: 'a client of another trust domain',
    async provoke(t) {
      const stage = await Stage.start(t);
      const stranger = checkout.replace('cluster.local', 'other.local');
      await getOverTls(stage, '/orders/7', testCertificate({ dnsNames: [stranger] }));
      return refused(stage, stranger);
    },
  },
  {
    title: 'a client whose certificate has a SPIFFE ID',
    async provoke(t) {
      const stage = await Stage.start(t);
      const id = 'spiffe://cluster.local/ns/shop/sa/checkout';
      await getOverTls(stage, '/orders/7', spiffeCertificate(id));
      return refused(stage, id);
    },
  },
  {
    title: 'a misspelt ServiceAccount',
    async provoke(t: Teardown) {
      const stage = await Stage.set(t);
      stage.write('policy/web.yaml', firstPolicy.replace('name: checkout }', 'name: chekcout }'));
      await stage.run();
      await getOverTls(stage, '/orders/7', workloadCertificate('checkout', 'shop'));
      return refused(stage, checkout);
    },
  },
];

/** TLS that does not end here. */
function passed(title: string, servername: string): Fault {
  return {
    title,
    async provoke(t) {
      const stage = await Stage.start(t);
      await getOverTls(stage, '/orders/7', workloadCertificate('checkout', 'shop'), { servername });
      return [await stage.log(/TLS not for our names/, 'sni', 'ours', 'outcome', 'client.ip', 'code')];
    },
  };
}

/** What is said of a client whom no authorization covers. */
async function refused(stage: Stage, identity: string): Promise<readonly Finding[]> {
  return [
    await stage.log(/Request denied/, 'client.ip', 'client.id', 'path', 'reason', 'candidates'),
    await stage.explain(/identity: wanted/, '--client', '10.1.2.3', '--path', '/orders/7', '--identity', identity),
    await stage.metric('inbound_http_authz_deny_total', { srv_name: 'web', client_id: identity }, 1),
  ];
}
