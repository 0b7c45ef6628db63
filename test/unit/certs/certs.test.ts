import { execFileSync, spawnSync } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { mkdtemp, readdir, readFile, rmdir, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { parseCommandLine, UsageError } from '../../../bin/arguments.ts';
import { main } from '../../../bin/certs.ts';
import { type CertificateRequest, createAuthority, issueCertificate } from '../../../certs/authority.ts';
import { identityFromCertificate } from '../../../lib/certificate-names.ts';
import { usageExit } from '../../../lib/errors/exits.ts';
import { within } from '../../support/until.ts';

const opensslVersion = spawnSync('openssl', ['version']);
const needsOpenssl = { skip: opensslVersion.status === 0 ? (false as const) : 'openssl is not installed' };
const authority = createAuthority({ commonName: 'root.linkerd.cluster.local', days: 365 });

function describe(pem: string): string {
  return execFileSync('openssl', ['x509', '-noout', '-text'], { input: pem, encoding: 'utf8' });
}

async function run(args: readonly string[], env: Record<string, string> = {}) {
  let out = '';
  let err = '';
  const io = {
    stdout: { write: (text: string) => (out += text) },
    stderr: { write: (text: string) => (err += text) },
    env,
  };
  const called = (async () => main(parseCommandLine('certs', args), io))();
  const status = await called.catch((error: unknown) => {
    // bin/main.ts prints these and exits with 64, for every command alike.
    if (!(error instanceof UsageError)) throw error;
    err += `${error.message}\n`;
    return usageExit;
  });
  return { status, out, err };
}

t.test('openssl verifies what is issued', needsOpenssl, async (t) => {
  const folder = t.testdir();
  const write = async (name: string, pem: string): Promise<string> => {
    await writeFile(join(folder, name), pem);
    return join(folder, name);
  };
  const verify = (...args: string[]) => spawnSync('openssl', ['verify', '-x509_strict', ...args], { encoding: 'utf8' });
  const root = await write('root', authority.certificatePem);
  const between = issueCertificate(authority, { commonName: 'between', authority: true, days: 30 });
  const middle = await write('middle', between.certificatePem);
  const leaf = await write('leaf', issueCertificate(authority, { dnsNames: ['a.b'], days: 1 }).certificatePem);
  const deep = await write('deep', issueCertificate(between, { dnsNames: ['a.b'], days: 1 }).certificatePem);
  const server = await write(
    'server',
    issueCertificate(authority, { dnsNames: ['a.b'], days: 1, usages: ['serverAuth'] }).certificatePem,
  );
  const past = { dnsNames: ['a.b'], days: 1, notBefore: new Date('2020-01-01T00:00:00Z') };
  const old = await write('old', issueCertificate(authority, past).certificatePem);
  const other = await write(
    'other',
    createAuthority({ commonName: 'root.linkerd.cluster.local', days: 1 }).certificatePem,
  );

  const rows: readonly [string, string[], boolean][] = [
    ['the root', ['-CAfile', root, root], true],
    ['a leaf as server', ['-CAfile', root, '-purpose', 'sslserver', '-verify_hostname', 'a.b', leaf], true],
    ['a leaf as client', ['-CAfile', root, '-purpose', 'sslclient', leaf], true],
    ['through an intermediate', ['-CAfile', root, '-untrusted', middle, deep], true],
    ['without the intermediate', ['-CAfile', root, deep], false],
    ['a server certificate as client', ['-CAfile', root, '-purpose', 'sslclient', server], false],
    ['an expired one', ['-CAfile', root, old], false],
    ['another root of the same name', ['-CAfile', other, leaf], false],
  ];
  for (const [name, args, valid] of rows) {
    const { status, stdout, stderr } = verify(...args);
    t.equal(status === 0, valid, `${name}: ${stdout}${stderr}`);
  }
});

t.test('extensions as openssl prints them', needsOpenssl, async (t) => {
  const root = describe(authority.certificatePem);
  t.match(root, /Version: 3 /);
  t.match(root, /Subject: CN ?= ?root\.linkerd\.cluster\.local/);
  t.match(root, /Basic Constraints: critical\s+CA:TRUE/);
  t.match(root, /Key Usage: critical\s+Certificate Sign, CRL Sign\n/);
  t.match(root, /ASN1 OID: prime256v1/);
  t.match(root, /Signature Algorithm: ecdsa-with-SHA256/);

  const sans = { dnsNames: ['a.b', 'c.d'], spiffeIds: ['spiffe://td/x'], ipAddresses: ['10.0.0.1', 'fd00::1'] };
  const leaf = describe(issueCertificate(authority, { ...sans, days: 1 }).certificatePem);
  t.match(leaf, /Subject: *\n/);
  t.match(leaf, /Basic Constraints: critical\s+CA:FALSE/);
  t.match(leaf, /X509v3 Key Usage: critical\s+Digital Signature\n/);
  t.match(leaf, /Extended Key Usage: *\n\s+TLS Web Server Authentication, TLS Web Client Authentication/);
  t.match(
    leaf,
    /Subject Alternative Name: critical\s+DNS:a\.b, DNS:c\.d, URI:spiffe:\/\/td\/x, IP Address:10\.0\.0\.1, IP Address:FD00:0:0:0:0:0:0:1/,
  );
  const keyId = (text: string, name: string): string =>
    new RegExp(`${name} Key Identifier: *\\n\\s+(?:keyid:)?([0-9A-F:]+)`).exec(text)?.[1] ?? '';
  t.match(keyId(leaf, 'Authority'), /^([0-9A-F]{2}:){19}[0-9A-F]{2}$/);
  t.equal(keyId(leaf, 'Authority'), keyId(root, 'Subject'));
  t.not(keyId(leaf, 'Subject'), keyId(root, 'Subject'));

  const named = describe(issueCertificate(authority, { commonName: 'x', dnsNames: ['a.b'], days: 1 }).certificatePem);
  t.match(named, /Subject Alternative Name: *\n\s+DNS:a\.b/, 'not critical where a subject names the holder');
});

t.test('dates on both sides of 2050', async (t) => {
  const dayMs = 24 * 60 * 60 * 1000;
  const rows: readonly [string, number, string, string][] = [
    ['2026-11-20T10:11:12Z', 1, '2026-11-20T10:11:12.000Z', '2026-11-21T10:11:12.000Z'],
    ['2049-12-31T23:59:59Z', 1, '2049-12-31T23:59:59.000Z', '2050-01-01T23:59:59.000Z'],
    ['2050-01-01T00:00:00Z', 1, '2050-01-01T00:00:00.000Z', '2050-01-02T00:00:00.000Z'],
    ['1999-12-31T00:00:00Z', 1, '1999-12-31T00:00:00.000Z', '2000-01-01T00:00:00.000Z'],
    ['2026-01-01T00:00:00.900Z', 0.5, '2026-01-01T00:00:00.000Z', '2026-01-01T12:00:00.000Z'],
  ];
  for (const [from, days, notBefore, notAfter] of rows) {
    const { certificatePem } = issueCertificate(authority, { dnsNames: ['a'], days, notBefore: new Date(from) });
    const { validFromDate, validToDate } = new X509Certificate(certificatePem);
    t.strictSame([validFromDate.toISOString(), validToDate.toISOString()], [notBefore, notAfter], from);
  }
  const fresh = new X509Certificate(issueCertificate(authority, { dnsNames: ['a'], days: 1 }).certificatePem);
  t.ok(fresh.validFromDate.getTime() < Date.now() && fresh.validToDate.getTime() > Date.now() + dayMs / 2);
});

t.test('serial numbers are 128 bits, positive and different', async (t) => {
  const serials = Array.from({ length: 50 }, () => {
    const { certificatePem } = issueCertificate(authority, { dnsNames: ['a'], days: 1 });
    return new X509Certificate(certificatePem).serialNumber;
  });
  t.equal(new Set(serials).size, serials.length);
  t.strictSame(
    serials.filter((serial) => !/^[4-7][0-9A-F]{31}$/.test(serial)),
    [],
  );
});

t.test('an authority that cannot sign is refused', async (t) => {
  const other = createAuthority({ commonName: 'other', days: 1 });
  const request: CertificateRequest = { dnsNames: ['a'], days: 1 };
  t.throws(() => issueCertificate({ ...authority, keyPem: other.keyPem }, request), /does not belong/);
  t.throws(() => issueCertificate(authority, { ...request, ipAddresses: ['10.1'] }), /not an IP address: 10\.1/);
});

t.test('certs init and issue write files that fit together', async (t) => {
  const out = join(t.testdir(), 'new', 'folder');
  const made = await run(['init', '--out', out, '--trust-domain', 'test.example', '--days', '10']);
  t.match(made, { status: 0, err: '' });
  t.match(made.out, `SALLYPORT_IDENTITY_TRUST_ANCHORS=${join(out, 'ca.crt')}\n`);
  const root = new X509Certificate(await readFile(join(out, 'ca.crt')));
  t.equal(root.subject, 'CN=root.linkerd.test.example');
  t.equal((await stat(join(out, 'ca.key'))).mode & 0o777, 0o600);

  const plane = 'serviceaccount.identity.linkerd.cluster.local';
  const rows: readonly [string[], Record<string, string>, string, string][] = [
    [['--service-account', 'orders', '--namespace', 'shop'], {}, 'orders', `orders.shop.${plane}`],
    [
      ['--service-account', 'web', '--namespace', 'shop'],
      { SALLYPORT_TRUST_DOMAIN: 'td', SALLYPORT_CONTROL_PLANE_NAMESPACE: 'mesh' },
      'web',
      'web.shop.serviceaccount.identity.mesh.td',
    ],
    [
      ['--service-account', 'api', '--namespace', 'shop', '--trust-domain', 'flag'],
      { SALLYPORT_TRUST_DOMAIN: 'td' },
      'api',
      'api.shop.serviceaccount.identity.linkerd.flag',
    ],
    [['--dns', 'Proxy.Test', '--dns', 'other.test'], {}, 'proxy', 'proxy.test'],
    [['--spiffe', 'spiffe://td/ns/shop/sa/cart'], {}, 'cart', 'spiffe://td/ns/shop/sa/cart'],
    [['--dns', 'x.y', '--spiffe', 'spiffe://td/a', '--name', 'both'], {}, 'both', 'x.y'],
  ];
  for (const [args, env, base, identity] of rows) {
    const issued = await run(['issue', '--out', out, '--json', ...args], env);
    t.equal(issued.status, 0, issued.err);
    const certFile = join(out, `${base}.crt`);
    const keyFile = join(out, `${base}.key`);
    const leaf = new X509Certificate(await readFile(certFile));
    t.match(JSON.parse(issued.out), {
      written: [certFile, keyFile],
      identity,
      notAfter: leaf.validToDate.toISOString(),
      environment: {
        SALLYPORT_IDENTITY_CERT: certFile,
        SALLYPORT_IDENTITY_KEY: keyFile,
        SALLYPORT_IDENTITY_TRUST_ANCHORS: join(out, 'ca.crt'),
      },
    });
    t.equal(identityFromCertificate(leaf.raw)?.name, identity);
    t.ok(leaf.verify(root.publicKey));
    t.ok(leaf.validToDate <= root.validToDate, 'thirty days were asked for, the CA has ten');
    t.equal((await stat(keyFile)).mode & 0o777, 0o600);
  }
});

t.test('nothing is overwritten without --force', async (t) => {
  const out = t.testdir({ 'orders.crt': 'mine' });
  t.equal((await run(['init', '--out', out])).status, 0);
  const before = await readFile(join(out, 'ca.crt'), 'utf8');
  const again = await run(['init', '--out', out]);
  t.match(again, { status: 1, out: '', err: /ca\.crt and .*ca\.key exist: use --force/ });
  const issue = ['issue', '--out', out, '--dns', 'orders.shop'];
  t.match(await run(issue), { status: 1, out: '', err: /orders\.crt exist/ });
  t.equal(await readFile(join(out, 'ca.crt'), 'utf8'), before);
  t.strictSame((await readdir(out)).sort(), ['ca.crt', 'ca.key', 'orders.crt']);
  t.equal((await run([...issue, '--force'])).status, 0);
  t.equal((await run(['init', '--out', out, '--force'])).status, 0);
  t.not(await readFile(join(out, 'ca.crt'), 'utf8'), before);
});

t.test('faults', async (t) => {
  const out = t.testdir({ 'a-file': '' });
  await run(['init', '--out', out]);
  const broken = join(out, 'broken');
  await run(['init', '--out', broken]);
  await writeFile(join(broken, 'ca.key'), 'hello');
  const issue = ['issue', '--out', out];

  const rows: readonly [string, string[], number, RegExp][] = [
    ['no action', [], 64, /init or issue is missing/],
    ['an unknown action', ['revoke'], 64, /unknown action "revoke" \(init or issue\)/],
    ['an unknown option', ['init', '--bogus'], 64, /--bogus/],
    ['a surplus argument', ['init', 'here'], 64, /unexpected argument "here"/],
    ['a name for the CA', ['init', '--dns', 'a.b'], 64, /--dns belongs to issue/],
    ['a namespace for the CA', ['init', '--namespace', 'a'], 64, /--namespace belongs to issue/],
    ['no name', issue, 64, /a name is missing/],
    ['an account without a namespace', [...issue, '--service-account', 'a'], 64, /needs --namespace/],
    ['a namespace without an account', [...issue, '--namespace', 'a'], 64, /needs --service-account/],
    ['a wildcard', [...issue, '--dns', '*.shop'], 64, /not a DNS name that can be an identity: "\*\.shop"/],
    ['two names in one', [...issue, '--dns', 'a.b,c.d'], 64, /not a DNS name/],
    ['a bad second name', [...issue, '--dns', 'a.b', '--dns', 'c d'], 64, /not a DNS name/],
    ['a namespace that breaks out', [...issue, '--service-account', 'a', '--namespace', 'b c'], 64, /not a DNS name/],
    ['two SPIFFE IDs', [...issue, '--spiffe', 'spiffe://td/a', '--spiffe', 'spiffe://td/b'], 64, /two SPIFFE IDs/],
    ['a bad SPIFFE ID', [...issue, '--spiffe', 'spiffe://TD/a'], 64, /not a SPIFFE ID: "spiffe:\/\/TD\/a"/],
    ['no days', [...issue, '--dns', 'a.b', '--days', '0'], 64, /--days "0"/],
    ['too many days', [...issue, '--dns', 'a.b', '--days', '99999'], 64, /--days/],
    ['a bad trust domain', ['init', '--trust-domain', 'a b'], 64, /not a DNS name: "a b"/],
    ['a path as file name', [...issue, '--dns', 'a.b', '--name', '../x'], 64, /cannot name the files/],
    ['the name of the CA', [...issue, '--dns', 'a.b', '--name', 'ca'], 64, /cannot name the files/],
    [
      'no CA',
      ['issue', '--out', join(out, 'nowhere'), '--dns', 'a.b'],
      1,
      /ca\.crt: no such file or folder: make the CA with/,
    ],
    ['a CA with a broken key', ['issue', '--out', broken, '--dns', 'a.b'], 1, /are no usable CA/],
    ['a folder that is a file', ['init', '--out', join(out, 'a-file')], 1, /a-file/],
  ];
  for (const [name, args, status, message] of rows) {
    const result = await run(args);
    t.match(result, { status, out: '', err: message }, name);
  }
  t.strictSame((await readdir(out)).sort(), ['a-file', 'broken', 'ca.crt', 'ca.key'], 'and nothing was written');
});

t.test('a place that cannot be written is an error with its remedy, at once', async (t) => {
  const folder = t.testdir({ file: 'mine' });
  const rows: readonly (readonly [out: string, err: RegExp])[] = [
    [join(folder, 'file'), /file: something else is there already: .*--out/],
    [join(folder, 'file', 'below'), /file: something else is there already: .*--out/],
    // Node's own recursive mkdir never comes back from here.
    ...(process.platform === 'linux'
      ? ([
          ['/proc/sallyport', /\/proc\/sallyport: no such file or folder: .*--out/],
          ['/proc/sallyport/deep/er', /\/proc\/sallyport: no such file or folder: .*--out/],
          ['/dev/null/certs', /\/dev\/null: something else is there already: .*--out/],
        ] as const)
      : []),
  ];
  for (const [out, err] of rows) {
    const made = await within(`init --out ${out}`, 20_000, run(['init', '--out', out]));
    t.match(made, { status: 1, out: '', err }, out);
  }
  t.same(await readdir(folder), ['file']);
});

const root = process.getuid?.() === 0 && process.platform === 'linux';
t.test('a disk without room for both files gets neither', { skip: !root && 'takes root' }, async (t) => {
  const disk = await mkdtemp(join(tmpdir(), 'sallyport-certs-'));
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=4k', 'tmpfs', disk]);
  t.teardown(async () => {
    execFileSync('umount', ['-l', disk]);
    await rmdir(disk);
  });
  const made = await run(['init', '--out', disk]);
  t.match(made, { status: 1, out: '', err: /ca\.crt: no space left: make room there/ });
  t.same(await readdir(disk), []);
});
