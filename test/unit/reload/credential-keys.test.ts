/** Credentials are accepted exactly where a handshake with them succeeds; what they are made of is tried for real. */
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { duplexPair } from 'node:stream';
import tls from 'node:tls';
import t from 'tap';
import { createAuthority } from '../../../certs/authority.ts';
import { CredentialsUnusable, createCredentialSource } from '../../../lib/reload/credential-source.ts';
import { type CredentialsResult, verifyCredentials } from '../../../lib/reload/credentials.ts';
import { testCertificate } from '../../support/certificates.ts';
import { temporaryFolder } from '../../support/files.ts';
import { within } from '../../support/until.ts';

const files = { certFile: 'c', keyFile: 'k', trustAnchorsFile: 'a' };

const kinds: readonly (readonly [name: string, options: readonly string[], usable: boolean])[] = [
  ['P-256', ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1'], true],
  ['P-384', ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:secp384r1'], true],
  ['P-521', ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:secp521r1'], true],
  ['Ed25519', ['-newkey', 'ed25519'], true],
  ['Ed448', ['-newkey', 'ed448'], true],
  ['RSA', ['-newkey', 'rsa:2048'], true],
  ['RSA-PSS', ['-newkey', 'rsa-pss', '-pkeyopt', 'rsa_keygen_bits:2048'], true],
  ['secp256k1', ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:secp256k1'], false],
  ['brainpool', ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:brainpoolP256r1'], true],
  ['P-224', ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:secp224r1'], false],
];

for (const [name, options, usable] of kinds) {
  t.test(name, async (t) => {
    const folder = temporaryFolder(t);
    const [certFile, keyFile] = [join(folder, 'c'), join(folder, 'k')];
    const subject = ['-subj', '/CN=web', '-addext', 'subjectAltName=DNS:web.example'];
    const out = ['-nodes', '-days', '1', '-out', certFile, '-keyout', keyFile];
    execFileSync('openssl', ['req', '-x509', ...options, ...subject, ...out], { stdio: 'pipe' });
    const cert = readFileSync(certFile, 'latin1');
    const bytes = { cert, key: readFileSync(keyFile, 'latin1'), trustAnchors: cert };
    const result = verifyCredentials(files, bytes, { now: new Date(), generation: 1 });
    t.equal(result.kind, usable ? 'usable' : 'faulty', JSON.stringify(result.kind === 'faulty' && result.faults));
    if (result.kind === 'faulty') t.match(result.faults, [{ file: 'k', message: /TLS 1\.3/, hint: /P-256/ }]);
    t.equal(await handshakes(result, bytes), usable, 'as a handshake says');
  });
}

type ContextFound = (error: Error | null, context: tls.SecureContext) => void;

async function handshakes(result: CredentialsResult, { cert, key }: { cert: string; key: string }): Promise<boolean> {
  const made =
    result.kind === 'usable'
      ? { SNICallback: (_name: string, done: ContextFound) => done(null, result.credentials.secureContext) }
      : { cert, key };
  const server = tls.createServer({ ...made, minVersion: 'TLSv1.3' }).listen(0, '127.0.0.1');
  server.on('tlsClientError', () => server.emit('ended'));
  await new Promise((resolve) => server.once('listening', resolve));
  const client = tls.connect({
    host: '127.0.0.1',
    port: (server.address() as AddressInfo).port,
    servername: 'web.example',
    rejectUnauthorized: false,
  });
  const done = new Promise<boolean>((resolve) => {
    client.once('secureConnect', () => resolve(true));
    client.once('error', () => resolve(false));
  });
  try {
    return await within('the handshake', 10_000, done);
  } finally {
    client.destroy();
    server.close();
  }
}

t.test('a certificate that comes alone is sent with the anchor that issued it', async (t) => {
  const own = testCertificate({ dnsNames: ['web.example'] });
  const other = createAuthority({ commonName: 'another anchor', days: 1 });
  const bytes = { cert: own.certificatePem, key: own.keyPem };
  const rows = [
    { name: 'one anchor' },
    { name: 'one of two', trustAnchors: other.certificatePem + own.trustAnchorsPem },
    { name: 'the file has it as well', cert: own.certificatePem + own.trustAnchorsPem },
  ];
  for (const { name, ...row } of rows) {
    const given = { trustAnchors: own.trustAnchorsPem, ...bytes, ...row };
    const result = verifyCredentials(files, given, { now: new Date(), generation: 1 });
    if (result.kind === 'faulty') throw new Error(JSON.stringify(result.faults));
    const [ours, theirs] = duplexPair();
    const { secureContext } = result.credentials;
    const server = new tls.TLSSocket(ours, { isServer: true, secureContext });
    const client = tls.connect({ socket: theirs, servername: 'web.example', ca: own.trustAnchorsPem });
    t.teardown(() => [client, server].map((each) => each.destroy()));
    await within('the handshake', 10_000, once(client, 'secureConnect'));
    const sent = client.getPeerX509Certificate();
    t.same(sent?.raw, own.der, name);
    t.match(sent?.issuerCertificate?.toString(), own.trustAnchorsPem.trim(), name);
    t.equal(sent?.issuerCertificate?.issuerCertificate, undefined, name);
  }
});

t.test('what is no certificate, and no file, is named, and keeps the last good one', async (t) => {
  const folder = temporaryFolder(t);
  const good = testCertificate({ dnsNames: ['web.example'] });
  const [certFile, keyFile, trustAnchorsFile] = ['c', 'k', 'a'].map((name) => join(folder, name)) as [
    string,
    string,
    string,
  ];
  writeFileSync(certFile, good.certificatePem);
  writeFileSync(keyFile, good.keyPem);
  writeFileSync(trustAnchorsFile, good.trustAnchorsPem);
  const failures: string[] = [];
  const source = createCredentialSource({
    certFile,
    keyFile,
    trustAnchorsFile,
    onLoaded() {},
    onFailed: (faults) => void failures.push(...faults.map(({ file, message }) => `${file}: ${message}`)),
    log: { info() {}, warn() {}, error() {} },
  });
  t.teardown(() => source.stop());
  const loaded = await source.start();

  const attempt = async (make: () => void): Promise<unknown> => {
    make();
    const other = createCredentialSource({
      certFile,
      keyFile,
      trustAnchorsFile,
      onLoaded() {},
      onFailed() {},
      log: { info() {}, warn() {}, error() {} },
    });
    return within(
      'an answer',
      10_000,
      other.start().then(
        () => null,
        (error: unknown) => error,
      ),
    );
  };
  const rows: [string, () => void, RegExp][] = [
    ['a pipe', () => execFileSync('mkfifo', [certFile]), /no regular file/],
    ['a device without end', () => symlinkSync('/dev/zero', certFile), /no regular file/],
    ['a folder', () => symlinkSync('/', certFile), /a folder/],
    ['a circle', () => symlinkSync(certFile, certFile), /circle/],
    ['nothing', () => writeFileSync(certFile, ''), /empty/],
    ['half of it', () => writeFileSync(certFile, good.certificatePem.slice(0, 300)), /cannot be parsed/],
    [
      'noise',
      () => writeFileSync(certFile, Buffer.from(Array.from({ length: 5_000 }, (_, i) => (i * 7919) % 256))),
      /no PEM/,
    ],
    [
      'noise in a block',
      () => writeFileSync(certFile, '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n'),
      /cannot be parsed/,
    ],
    ['too much', () => writeFileSync(certFile, Buffer.alloc(5 * 1024 * 1024, 'x')), /too large/],
  ];
  for (const [title, make, message] of rows) {
    rmSync(certFile, { force: true });
    const error = await attempt(make);
    t.ok(error instanceof CredentialsUnusable && message.test(error.message), `${title}: ${String(error)}`);
  }
  t.equal(source.current(), loaded, 'through all of it');
});
