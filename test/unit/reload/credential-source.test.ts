import { spawn, spawnSync } from 'node:child_process';
import { generateKeyPairSync, X509Certificate } from 'node:crypto';
import { existsSync, renameSync } from 'node:fs';
import { copyFile, mkdir, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import tls from 'node:tls';
import t, { type Test } from 'tap';
import { createAuthority, issueCertificate } from '../../../certs/authority.ts';
import { systemClock } from '../../../lib/reload/clock.ts';
import { CredentialsUnusable, createCredentialSource } from '../../../lib/reload/credential-source.ts';
import { type CredentialFault, type Credentials, credentialFaultText } from '../../../lib/reload/credentials.ts';
import { filesOnDisk, type World } from '../../../lib/reload/world.ts';
import {
  strangerCertificate,
  type TestCertificate,
  testAuthority,
  testCertificate,
  workloadCertificate,
} from '../../support/certificates.ts';
import { tied } from '../../support/children.ts';
import { until } from '../../support/until.ts';

const dayMs = 24 * 60 * 60 * 1000;
const web = workloadCertificate('web', 'shop');
const orders = workloadCertificate('orders', 'shop');
const webName = 'web.shop.serviceaccount.identity.linkerd.cluster.local';
const anchors = testAuthority().certificatePem;

/** As contexts are before any credentials have been loaded in this process. */
const withTickets = tls.createSecureContext({
  cert: web.certificatePem,
  key: web.keyPem,
  ca: anchors,
  minVersion: 'TLSv1.3',
  sessionIdContext: 'test',
});

interface Contents {
  readonly cert?: string | undefined;
  readonly key?: string | undefined;
  readonly anchors?: string | undefined;
}
const good: Contents = { cert: web.certificatePem, key: web.keyPem, anchors };

interface Files {
  readonly certFile: string;
  readonly keyFile: string;
  readonly trustAnchorsFile: string;
}

function filesIn(folder: string): Files {
  return {
    certFile: join(folder, 'tls.crt'),
    keyFile: join(folder, 'tls.key'),
    trustAnchorsFile: join(folder, 'ca.crt'),
  };
}

/** Each file is replaced whole, by a rename. Contents that are undefined leave their file as it is. */
async function write(files: Files, contents: Contents): Promise<void> {
  const replace = async (file: string, content: string | undefined): Promise<void> => {
    if (content === undefined) return;
    await writeFile(`${file}.new`, content);
    await rename(`${file}.new`, file);
  };
  await replace(files.certFile, contents.cert);
  await replace(files.keyFile, contents.key);
  await replace(files.trustAnchorsFile, contents.anchors);
}

/** A source, and everything it has told. It is stopped with the test. */
function sourceOf(t: Test, files: Files, more: { names?: readonly string[]; now?: Date; world?: World } = {}) {
  const loaded: Credentials[] = [];
  const failed: (readonly CredentialFault[])[] = [];
  const warnings: string[] = [];
  const source = createCredentialSource({
    ...files,
    names: more.names,
    ...(more.world === undefined ? {} : { world: more.world }),
    clock: { ...systemClock, now: () => more.now ?? new Date() },
    onLoaded: (credentials) => void loaded.push(credentials),
    onFailed: (faults) => void failed.push(faults),
    log: {
      info: () => {},
      warn: (_fields, message) => void warnings.push(message),
      error: (_fields, message) => void warnings.push(message),
    },
  });
  t.teardown(() => source.stop());
  return { source, loaded, failed, warnings };
}

/** The certificate that a client is served, by serial number. */
async function servedSerial(port: number, servername: string): Promise<string> {
  const socket = tls.connect({ host: '127.0.0.1', port, servername, ca: anchors });
  await new Promise<void>((resolve, reject) => socket.once('secureConnect', resolve).once('error', reject));
  const serial = socket.getPeerX509Certificate()?.serialNumber ?? '';
  socket.destroy();
  return serial;
}

t.test('the first load', async (t) => {
  const files = filesIn(t.testdir());
  await write(files, good);
  const { source, loaded, failed, warnings } = sourceOf(t, files);
  t.throws(() => source.current(), /no credentials/);
  const credentials = await source.start();
  t.equal(source.current(), credentials);
  t.strictSame(loaded, [credentials]);
  t.strictSame(credentials.names, [webName]);
  t.equal(credentials.generation, 1);
  t.equal(credentials.notAfter.getTime(), new X509Certificate(web.certificatePem).validToDate.getTime());
  t.ok(Object.isFrozen(credentials) && Object.isFrozen(credentials.names));
  t.strictSame([failed, warnings], [[], []], 'a fresh certificate of one day is no reason to warn');
  await t.rejects(source.start(), /starts only once/);
});

t.test('credentials that could not be put in use are tried again', async (t) => {
  const files = filesIn(t.testdir());
  await write(files, good);
  let faults = 0;
  const used: number[] = [];
  const failed: string[] = [];
  const source = createCredentialSource({
    ...files,
    onLoaded: ({ generation }) => {
      if (faults-- > 0) throw new Error('no room');
      used.push(generation);
    },
    onFailed: ([fault]) => void failed.push(fault?.message ?? ''),
    log: { info() {}, warn() {}, error() {} },
    retryMs: 5,
  });
  t.teardown(() => source.stop());
  await source.start();
  faults = 2;
  const next = testCertificate({ dnsNames: [webName] });
  await write(files, { ...good, cert: next.certificatePem, key: next.keyPem });
  await until('the attempt that succeeds', () => source.current().generation === 2);
  t.same([used, failed], [[1, 2], ['unexpected error: no room']]);
});

t.test('files whose change nobody tells are looked at when that is asked for', async (t) => {
  const files = filesIn(t.testdir());
  await write(files, good);
  const disk = filesOnDisk({ paths: Object.values(files), onWatchError: () => {} });
  const { source, loaded } = sourceOf(t, files, { world: { ...disk, watch: () => {} } });
  await source.start();
  await write(files, { cert: orders.certificatePem, key: orders.keyPem });
  source.reload();
  await until('the other certificate', () => loaded.length === 2);
  t.match(loaded[1]?.names, [/^orders\./]);
});

t.test('configured names replace those of the certificate', async (t) => {
  const files = filesIn(t.testdir());
  await write(files, good);
  const { names } = await sourceOf(t, files, { names: ['Web.Shop.svc', 'web.shop.svc', 'b'] }).source.start();
  t.strictSame(names, ['web.shop.svc', 'b']);
});

t.test('faults of the first load name the file and the remedy', async (t) => {
  const intermediate = issueCertificate(testAuthority(), { commonName: 'intermediate', authority: true, days: 1 });
  const deep = testCertificate({ dnsNames: ['a.b'] }, intermediate);
  const longAgo = new Date(Date.now() - 10 * dayMs);
  const expired = testCertificate({ dnsNames: ['a.b'], notBefore: longAgo, days: 1 });
  const future = testCertificate({ dnsNames: ['a.b'], notBefore: new Date(Date.now() + dayMs) });
  const oldRoot = createAuthority({ commonName: 'old root', days: 1, notBefore: longAgo });
  const nameless = testCertificate({ spiffeIds: ['spiffe://td/web'] });
  const encrypted = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({
    type: 'pkcs8',
    format: 'pem',
    cipher: 'aes-256-cbc',
    passphrase: 'secret',
  });
  const weak = generateKeyPairSync('rsa', { modulusLength: 512 }).privateKey.export({ type: 'pkcs8', format: 'pem' });
  const bad = '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n';
  const cut = web.certificatePem.slice(0, 300);

  type File = 'tls.crt' | 'tls.key' | 'ca.crt';
  const rows: readonly [string, Contents, File, RegExp][] = [
    ['no certificate file', { ...good, cert: undefined }, 'tls.crt', /no such file.*SALLYPORT_IDENTITY/],
    ['no key file', { ...good, key: undefined }, 'tls.key', /no such file/],
    ['no trust anchors', { ...good, anchors: undefined }, 'ca.crt', /no such file/],
    ['empty trust anchors', { ...good, anchors: ' \n' }, 'ca.crt', /is empty where trust anchors should be/],
    ['trust anchors that are no PEM', { ...good, anchors: 'hello' }, 'ca.crt', /no PEM certificate/],
    ['a key as trust anchor', { ...good, anchors: web.keyPem }, 'ca.crt', /no PEM certificate/],
    ['a malformed trust anchor', { ...good, anchors: bad }, 'ca.crt', /1 of 1 cannot be parsed.*copy it again/],
    ['a malformed one after a good one', { ...good, anchors: anchors + bad }, 'ca.crt', /certificate 2 of 2/],
    ['a trust anchor cut short', { ...good, anchors: anchors + cut }, 'ca.crt', /certificate 2 of 2/],
    ['trust anchors all expired', { ...good, anchors: oldRoot.certificatePem }, 'ca.crt', /expired, the last on 20/],
    ['an empty certificate', { ...good, cert: '' }, 'tls.crt', /is empty where a certificate should be/],
    ['a certificate cut short', { ...good, cert: cut }, 'tls.crt', /certificate 1 of 1 cannot be parsed/],
    ['a key that is none', { ...good, key: 'hello' }, 'tls.key', /no readable private key/],
    ['an encrypted key', { ...good, key: encrypted }, 'tls.key', /is encrypted.*openssl pkey/],
    ['somebody else’s key', { ...good, key: orders.keyPem }, 'tls.key', /not the one of the certificate in .*tls\.crt/],
    ['a weak key of somebody else', { ...good, key: weak }, 'tls.key', /not the one of the certificate/],
    [
      'expired',
      { ...good, cert: expired.certificatePem, key: expired.keyPem },
      'tls.crt',
      /expired on 20\d\d-\d\d-\d\dT/,
    ],
    ['not yet valid', { ...good, cert: future.certificatePem, key: future.keyPem }, 'tls.crt', /not valid before 20/],
    [
      'of an unknown issuer',
      { ...good, anchors: strangerCertificate('x').trustAnchorsPem },
      'tls.crt',
      /none of the trust anchors.*test authority/,
    ],
    [
      'without its intermediate',
      { ...good, cert: deep.certificatePem, key: deep.keyPem },
      'tls.crt',
      /append the intermediate/,
    ],
    [
      'without a DNS name',
      { ...good, cert: nameless.certificatePem, key: nameless.keyPem },
      'tls.crt',
      /SALLYPORT_IDENTITY_NAME/,
    ],
  ];
  for (const [name, contents, file, message] of rows) {
    await t.test(name, async (t) => {
      const files = filesIn(t.testdir());
      await write(files, contents);
      const { source, loaded } = sourceOf(t, files);
      const error: unknown = await source.start().catch((reason: unknown) => reason);
      if (!(error instanceof CredentialsUnusable)) throw new Error(`expected a refusal, got ${String(error)}`);
      t.strictSame(
        error.faults.map((fault) => fault.file),
        [join(files.certFile, '..', file)],
      );
      const lines = error.faults.map(credentialFaultText);
      t.match(lines[0], message);
      t.notMatch(lines[0], /\n/);
      t.throws(() => source.current());
      t.strictSame(loaded, []);
    });
  }

  await t.test('every fault at once', async (t) => {
    const { source } = sourceOf(t, filesIn(t.testdir()));
    const error = await source.start().catch((reason: unknown) => reason);
    t.equal((error as CredentialsUnusable).faults.length, 3);
    t.equal((error as CredentialsUnusable).message.split('\n').length, 3);
  });
});

t.test('chains', async (t) => {
  const root = testAuthority();
  const middle = issueCertificate(root, { commonName: 'middle', authority: true, days: 1 });
  const issuing = issueCertificate(middle, { commonName: 'issuing', authority: true, days: 1 });
  const leaf = testCertificate({ dnsNames: ['a.b'] }, issuing);
  const stranger = strangerCertificate('x').trustAnchorsPem;
  // Carries the right names, but a workload's certificate is no authority.
  const workload = testCertificate({ commonName: 'issuing', dnsNames: ['c.d'] }, middle);
  const forged = testCertificate({ dnsNames: ['a.b'] }, workload);

  const rows: readonly [string, string, string, boolean][] = [
    ['whole', leaf.certificatePem + issuing.certificatePem + middle.certificatePem, root.certificatePem, true],
    [
      'in another order',
      leaf.certificatePem + middle.certificatePem + issuing.certificatePem,
      root.certificatePem,
      true,
    ],
    [
      'with the root and a stranger',
      leaf.certificatePem + stranger + issuing.certificatePem + middle.certificatePem,
      root.certificatePem,
      true,
    ],
    ['anchored at an intermediate', leaf.certificatePem + issuing.certificatePem, middle.certificatePem, true],
    ['among several anchors', leaf.certificatePem, stranger + issuing.certificatePem, true],
    [
      'with notes between the blocks',
      `issued today\n${leaf.certificatePem}`,
      `# root -- of trust\n${issuing.certificatePem}`,
      true,
    ],
    ['with a gap', leaf.certificatePem + middle.certificatePem, root.certificatePem, false],
    [
      'whose root, which issued itself, is no anchor',
      leaf.certificatePem + issuing.certificatePem + middle.certificatePem + root.certificatePem,
      stranger,
      false,
    ],
  ];
  for (const [name, cert, bundle, usable] of rows) {
    const files = filesIn(t.testdir());
    await write(files, { cert, key: leaf.keyPem, anchors: bundle });
    const outcome = await sourceOf(t, files)
      .source.start()
      .then(
        () => true,
        (error: unknown) => String(error),
      );
    if (usable) t.equal(outcome, true, name);
    else t.match(outcome, /leads to none of the trust anchors/, name);
  }
  const files = filesIn(t.testdir());
  const cert = forged.certificatePem + workload.certificatePem + middle.certificatePem;
  await write(files, { cert, key: forged.keyPem, anchors: root.certificatePem });
  await t.rejects(sourceOf(t, files).source.start(), /leads to none of the trust anchors/, 'signed by a workload');
});

t.test('who is believed', async (t) => {
  const between = issueCertificate(testAuthority(), { commonName: 'between', authority: true, days: 1 });
  const own = testCertificate({ dnsNames: ['own.test'] }, between);
  const files = filesIn(t.testdir());
  // An issuer as the only anchor, as Linkerd takes it; OpenSSL left to itself would want the root.
  await write(files, { cert: own.certificatePem, key: own.keyPem, anchors: between.certificatePem });
  const { secureContext } = await sourceOf(t, files).source.start();
  const asked = { requestCert: true, rejectUnauthorized: false };
  const server = tls.createServer({ SNICallback: (_name, done) => done(null, secureContext), ...asked }, (socket) => {
    socket.on('error', () => {});
    socket.end(JSON.stringify([socket.authorized, socket.getPeerX509Certificate() !== undefined]));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => server.close());
  const { port } = server.address() as AddressInfo;

  const longAgo = new Date(Date.now() - 10 * dayMs);
  const dnsNames = ['a.b'];
  const rows: readonly [string, TestCertificate | null, boolean, boolean][] = [
    ['no certificate', null, false, false],
    ['issued by the anchor', testCertificate({ dnsNames }, between), true, true],
    ['issued by the root, which is no anchor', testCertificate({ dnsNames }), false, true],
    ['issued by a stranger', strangerCertificate('a.b'), false, true],
    ['expired', testCertificate({ dnsNames, notBefore: longAgo }, between), false, true],
    ['for servers only', testCertificate({ dnsNames, usages: ['serverAuth'] }, between), false, true],
  ];
  for (const [name, certificate, authorized, presented] of rows) {
    const pair = certificate === null ? {} : { cert: certificate.certificatePem, key: certificate.keyPem };
    const socket = tls.connect({
      host: '127.0.0.1',
      port,
      servername: 'own.test',
      ca: own.trustAnchorsPem,
      allowPartialTrustChain: true,
      ...pair,
    });
    t.strictSame(JSON.parse(await text(socket)), [authorized, presented], name);
  }
});

t.test('rotation in place, key first', async (t) => {
  const files = filesIn(t.testdir());
  await write(files, good);
  const { source, loaded, failed } = sourceOf(t, files);
  const first = await source.start();
  const server = tls.createServer({ SNICallback: (_name, done) => done(null, source.current().secureContext) });
  server.on('tlsClientError', () => {});
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => server.close());
  const { port } = server.address() as AddressInfo;
  const serialOf = (pem: string): string => new X509Certificate(pem).serialNumber;

  const next = workloadCertificate('web', 'shop');
  // Truncated and written again, as `cp` does, so even half a key may be read on the way.
  await writeFile(files.keyFile, next.keyPem);
  const mismatch = /private key is not the one of the certificate/;
  await until('the mismatch to be noticed', () =>
    failed
      .flat()
      .map(credentialFaultText)
      .some((line) => mismatch.test(line)),
  );
  t.equal(source.current(), first, 'the last good set stays');
  t.equal(await servedSerial(port, webName), serialOf(web.certificatePem));

  await writeFile(files.certFile, next.certificatePem);
  await until('the new certificate', () => source.current().generation === 2);
  t.equal(await servedSerial(port, webName), serialOf(next.certificatePem));
  t.equal(loaded.length, 2);
});

t.test('a bad bundle on reload keeps the last good one', async (t) => {
  const files = filesIn(t.testdir());
  await write(files, good);
  const { source, failed } = sourceOf(t, files);
  const first = await source.start();
  for (const [index, bad] of ['', 'hello'].entries()) {
    await write(files, { anchors: bad });
    await until('the fault', () => failed.length === index + 1);
    t.equal(source.current(), first);
  }
  await rm(files.trustAnchorsFile);
  await until('the missing file', () => failed.length === 3);
  t.match(failed[2]?.map(credentialFaultText), [/ca\.crt: cannot be read: no such file/]);
  t.equal(source.current(), first);

  const root = createAuthority({ commonName: 'next root', days: 1 });
  await write(files, { anchors: anchors + root.certificatePem });
  await until('the wider bundle', () => source.current().generation === 2);
});

/** A second source, over a folder of its own: once it has seen a later change, the first has had its turn too. */
async function witnessOf(t: Test, beside: Files) {
  const files = filesIn(join(beside.certFile, '..', 'witness'));
  await mkdir(join(files.certFile, '..'));
  await write(files, good);
  const { source } = sourceOf(t, files);
  await source.start();
  return async (): Promise<void> => {
    const generation = source.current().generation + 1;
    const next = workloadCertificate('web', 'shop');
    await write(files, { key: next.keyPem, cert: next.certificatePem });
    await until('the witness to load', () => source.current().generation === generation);
  };
}

t.test('files that stay bad are told once', async (t) => {
  const files = filesIn(t.testdir());
  await write(files, good);
  const { source, failed } = sourceOf(t, files);
  await source.start();
  const turn = await witnessOf(t, files);
  for (let times = 0; times < 3; times += 1) {
    await write(files, { anchors: 'hello' });
    await until('the fault', () => failed.length > 0);
    await turn();
  }
  t.equal(failed.length, 1);

  await write(files, { anchors: anchors + strangerCertificate('x').trustAnchorsPem });
  await until('the recovery', () => source.current().generation === 2);
  await write(files, { anchors: 'hello' });
  await until('the same fault anew', () => failed.length === 2);
});

t.test('touching the files without changing them publishes nothing', async (t) => {
  const files = filesIn(t.testdir());
  await write(files, good);
  const { source, loaded } = sourceOf(t, files);
  await source.start();
  const turn = await witnessOf(t, files);
  for (let times = 0; times < 3; times += 1) {
    await write(files, good);
    await turn();
  }
  const next = testCertificate({ dnsNames: ['next.test'] });
  await write(files, { key: next.keyPem, cert: next.certificatePem });
  await until('the real change', () => source.current().names[0] === 'next.test');
  t.strictSame(
    loaded.map(({ generation }) => generation),
    [1, 2],
  );
});

t.test('a Kubernetes Secret: the ..data link is swapped', async (t) => {
  const folder = t.testdir();
  const publish = async (version: string, contents: Contents): Promise<void> => {
    await mkdir(join(folder, version));
    await write(filesIn(join(folder, version)), contents);
    await symlink(version, join(folder, '..data_tmp'));
    await rename(join(folder, '..data_tmp'), join(folder, '..data'));
  };
  await publish('..2026_11_20_1', good);
  for (const file of ['tls.crt', 'tls.key', 'ca.crt']) await symlink(join('..data', file), join(folder, file));
  const { source, failed } = sourceOf(t, filesIn(folder));
  await source.start();

  for (const generation of [2, 3, 4]) {
    const next = workloadCertificate('web', 'shop');
    await publish(`..2026_11_20_${generation}`, { cert: next.certificatePem, key: next.keyPem, anchors });
    await rm(join(folder, `..2026_11_20_${generation - 1}`), { recursive: true });
    await until(`generation ${generation}`, () => source.current().generation === generation);
  }
  t.strictSame(failed, [], 'a swap is never seen half done');
});

t.test('expiry is told ahead, of the trust anchor too', async (t) => {
  const monthly = testCertificate({ dnsNames: ['a.b'], days: 30 });
  const rows: readonly [string, number, string[]][] = [
    ['two weeks before', 30 - 14, []],
    ['two days before', 28, ['Identity certificate expires soon', 'Trust anchor expires soon']],
    ['an hour before', 30 - 1 / 24, ['Identity certificate expires soon', 'Trust anchor expires soon']],
  ];
  for (const [name, days, expected] of rows) {
    const files = filesIn(t.testdir());
    await write(files, { cert: monthly.certificatePem, key: monthly.keyPem, anchors });
    // The test's authority lives for thirty days too, and a little longer than what it has just issued.
    const now = new Date(new X509Certificate(monthly.certificatePem).validFromDate.getTime() + days * dayMs - 5000);
    const { source, warnings } = sourceOf(t, files, { now });
    await source.start();
    t.strictSame(warnings, expected, name);
  }
});

t.test('after stop nothing is loaded', async (t) => {
  const files = filesIn(t.testdir());
  await write(files, good);
  const { source, loaded } = sourceOf(t, files);
  await source.start();
  await source.stop();
  const witness = sourceOf(t, files);
  await witness.source.start();
  const next = workloadCertificate('web', 'shop');
  await write(files, { key: next.keyPem, cert: next.certificatePem });
  await until('another source to see the change', () => witness.source.current().generation === 2);
  t.equal(loaded.length, 1);
});

const openssl = spawnSync('openssl', ['version']).status === 0;

t.test('a key that OpenSSL will not serve', { skip: openssl ? false : 'openssl is not installed' }, async (t) => {
  const files = filesIn(t.testdir());
  const args = ['req', '-x509', '-newkey', 'rsa:512', '-nodes', '-subj', '/CN=x', '-addext', 'subjectAltName=DNS:a.b'];
  const made = spawnSync('openssl', [...args, '-keyout', files.keyFile, '-out', files.certFile]);
  t.equal(made.status, 0, made.stderr.toString());
  await copyFile(files.certFile, files.trustAnchorsFile);
  await t.rejects(sourceOf(t, files).source.start(), /tls\.crt: refused by OpenSSL: .*key too small.*P-256/);
});

t.test('no session resumes', { skip: openssl ? false : 'openssl is not installed' }, async (t) => {
  const folder = t.testdir();
  const files = filesIn(folder);
  await write(files, good);
  const credentials = await sourceOf(t, files).source.start();
  const client = filesIn(join(folder, 'client'));
  await mkdir(join(folder, 'client'));
  await write(client, { cert: orders.certificatePem, key: orders.keyPem, anchors });

  const resumed: boolean[] = [];
  const rows: readonly [string, tls.SecureContext, RegExp[], boolean[]][] = [
    // Without our settings the same steps do resume, so the other row proves something.
    ['with tickets', withTickets, [/^New, TLSv1\.3/m, /^Reused, TLSv1\.3/m], [false, true]],
    ['ours', credentials.secureContext, [/^New, TLSv1\.3/m, /^New, TLSv1\.3/m], [false, false]],
  ];
  for (const [name, secureContext, outputs, expected] of rows) {
    resumed.length = 0;
    // As the proxy does: no tls.Server.
    const server = createServer((raw) => {
      const socket = new tls.TLSSocket(raw, { isServer: true, secureContext, requestCert: true });
      socket.on('error', () => {});
      socket.once('secure', () => {
        resumed.push(socket.isSessionReused());
        socket.end('over\n');
      });
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    const connect = async (...more: string[]): Promise<string> => {
      const own = ['-cert', client.certFile, '-key', client.keyFile, '-CAfile', client.trustAnchorsFile];
      // -ign_eof: it stays until the server, which sends its tickets before any data, closes.
      const place = ['-connect', `127.0.0.1:${port}`, '-servername', webName];
      const args = ['s_client', ...place, '-ign_eof', '-msg', ...own, ...more];
      const child = spawn(...tied('openssl', args), { stdio: ['ignore', 'pipe', 'ignore'] });
      return text(child.stdout);
    };
    // What the first row has left is the only session that there is: we give none.
    const session = join(folder, 'session.pem');
    const given = join(folder, `${name}.pem`);
    const first = await connect('-sess_out', given);
    const hasGiven = existsSync(given);
    if (hasGiven) renameSync(given, session);
    const seen = [first, await connect('-sess_in', session)];
    t.match(seen, outputs, name);
    t.strictSame(resumed, expected, name);
    const tickets = seen.map((output) => output.match(/NewSessionTicket/g)?.length ?? 0);
    t.equal(tickets[0], expected[1] ? 2 : 0, `${name}: tickets, which would say that it can be`);
    t.equal(hasGiven, expected[1], `${name}: a session for the client to keep`);
    server.close();
  }
});
