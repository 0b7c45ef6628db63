import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Test } from 'tap';
import { strangerCertificate, type TestCertificate, testCertificate, workloadName } from './certificates.ts';
import { type Finished, runToEnd } from './children.ts';
import { identityEnvironment, temporaryFolder } from './files.ts';
import { openServer, policyEnvironment } from './open-policy.ts';
import { freePort } from './ports.ts';
import { type Sallyport, startSallyport } from './sallyport.ts';
import { startWitness } from './witness.ts';

/** Whom clients call. */
export const ownName = workloadName('web', 'shop');
export const own = testCertificate({ dnsNames: [ownName] });
/** By an authority that is not trusted here. */
export const stranger = strangerCertificate(workloadName('orders', 'shop'));

export interface Served {
  readonly port: number;
  readonly sallyport: Sallyport;
}

/** A client, by the address from which it calls; ends when it has been served or refused. */
export type Call<T = unknown> = (from: string, port: number) => Promise<T>;

/** Real clients of TLS, and proxies for them. */
export interface TlsClients {
  /** A proxy with this certificate; `proxyProtocol` of its one Server, which is open to everybody. */
  serve(t: Test, certificate: TestCertificate, proxyProtocol?: string): Promise<Served>;
  readonly appPort: number;
  openssl(...args: string[]): Call<Finished>;
  /** openssl with a client certificate. */
  showing(certificate: TestCertificate): Call<Finished>;
  /** Whatever the URL's host and port are, it is our port that is dialled. */
  curl(...args: string[]): Call<Finished>;
  /** Files of the trust anchors of our certificate, and of the stranger's. */
  readonly ca: string;
  readonly otherCa: string;
}

export async function tlsClients(t: Test): Promise<TlsClients> {
  const folder = temporaryFolder(t);
  const app = await startWitness(t);
  const ca = join(folder, 'ca.crt');
  const otherCa = join(folder, 'other.crt');
  writeFileSync(ca, own.trustAnchorsPem);
  writeFileSync(otherCa, stranger.trustAnchorsPem);
  let files = 0;
  const openssl =
    (...args: string[]): Call<Finished> =>
    (from, port) => {
      const named = args.includes('-noservername') ? [] : ['-servername', ownName];
      const place = ['-connect', `127.0.0.1:${port}`, '-bind', `${from}:0`];
      return runToEnd(t, 'openssl', ['s_client', ...place, ...named, '-quiet', '-no_ign_eof', ...args]);
    };
  return {
    ...{ appPort: app.port, openssl, ca, otherCa },
    async serve(t, certificate, proxyProtocol) {
      const port = await freePort();
      const home = temporaryFolder(t);
      const env = {
        ...policyEnvironment(home, openServer('web', port, proxyProtocol)),
        SALLYPORT_INBOUND_PORTS: `${port}=127.0.0.1:${app.port}`,
        ...identityEnvironment(join(home, 'identity'), certificate),
      };
      return { port, sallyport: await startSallyport(t, { env }) };
    },
    showing(certificate) {
      const base = join(folder, `client-${files++}`);
      writeFileSync(`${base}.crt`, certificate.certificatePem);
      writeFileSync(`${base}.key`, certificate.keyPem);
      return openssl('-cert', `${base}.crt`, '-key', `${base}.key`);
    },
    curl:
      (...args) =>
      (from, port) =>
        runToEnd(t, 'curl', ['-sS', '--interface', from, '--connect-to', `::127.0.0.1:${port}`, ...args]),
  };
}
