import { execFileSync, spawnSync } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import t from 'tap';
import type { CertificateRequest } from '../../certs/authority.ts';
import { dnsNamesOfCertificate, identityFromCertificate, keyIdsOfCertificate } from '../../lib/certificate-names.ts';
import { testCertificate } from '../support/certificates.ts';

const orders = 'orders.shop.serviceaccount.identity.linkerd.cluster.local';
const text = (tag: number, content: string) => ({ tag, content: Buffer.from(content, 'latin1') });
const dns = (content: string) => text(2, content);
const uri = (content: string) => text(6, content);
/** DER by hand, for what no sane issuer writes. */
const extension = (oid: string, ...bytes: number[]) => ({ oid, critical: false, value: Buffer.from(bytes) });
const subjectAltName = '2.5.29.17';

interface Row {
  readonly name: string;
  readonly request: Partial<CertificateRequest>;
}

const accepted: readonly (Row & { readonly identity: { form: 'dns' | 'spiffe'; name: string } })[] = [
  { name: 'a workload name', request: { dnsNames: [orders] }, identity: { form: 'dns', name: orders } },
  {
    name: 'upper case becomes lower',
    request: { dnsNames: ['ORDERS.Shop'] },
    identity: { form: 'dns', name: 'orders.shop' },
  },
  { name: 'a single label', request: { dnsNames: ['orders'] }, identity: { form: 'dns', name: 'orders' } },
  { name: 'an underscore', request: { dnsNames: ['a_b.shop'] }, identity: { form: 'dns', name: 'a_b.shop' } },
  {
    name: 'numeric labels before the last',
    request: { dnsNames: ['1.2.x3'] },
    identity: { form: 'dns', name: '1.2.x3' },
  },
  { name: 'the first of two DNS names', request: { dnsNames: ['a.b', 'c.d'] }, identity: { form: 'dns', name: 'a.b' } },
  {
    name: 'a wildcard is passed over',
    request: { dnsNames: ['*.shop', 'a.b'] },
    identity: { form: 'dns', name: 'a.b' },
  },
  {
    name: 'an e-mail address is passed over',
    request: { extraSans: [text(1, 'a@b.c'), dns('a.b')] },
    identity: { form: 'dns', name: 'a.b' },
  },
  {
    name: 'an IP address is passed over, zero octets and all',
    request: { extraSans: [{ tag: 7, content: Buffer.from([10, 0, 0, 1]) }, dns('a.b')] },
    identity: { form: 'dns', name: 'a.b' },
  },
  {
    name: 'a web address second',
    request: { extraSans: [dns('a.b'), uri('https://a.b/')] },
    identity: { form: 'dns', name: 'a.b' },
  },
  {
    name: 'a CN beside a SAN is ignored',
    request: { commonName: 'admin', dnsNames: ['a.b'] },
    identity: { form: 'dns', name: 'a.b' },
  },
  {
    name: 'a SPIFFE ID',
    request: { spiffeIds: ['spiffe://root.test/ns/Shop/sa/orders_1'] },
    identity: { form: 'spiffe', name: 'spiffe://root.test/ns/Shop/sa/orders_1' },
  },
  {
    name: 'a SPIFFE ID first',
    request: { extraSans: [uri('spiffe://td/a'), dns('a.b')] },
    identity: { form: 'spiffe', name: 'spiffe://td/a' },
  },
  {
    name: 'a SPIFFE ID second',
    request: { extraSans: [dns('a.b'), uri('spiffe://td/a')] },
    identity: { form: 'dns', name: 'a.b' },
  },
  {
    name: 'three dots are no dot segment',
    request: { spiffeIds: ['spiffe://td/...'] },
    identity: { form: 'spiffe', name: 'spiffe://td/...' },
  },
  {
    name: 'a trust domain alone',
    request: { spiffeIds: ['spiffe://td'] },
    identity: { form: 'spiffe', name: 'spiffe://td' },
  },
  {
    name: 'clientAuth alone',
    request: { dnsNames: ['a.b'], usages: ['clientAuth'] },
    identity: { form: 'dns', name: 'a.b' },
  },
  {
    name: 'no extendedKeyUsage at all',
    request: { dnsNames: ['a.b'], usages: null },
    identity: { form: 'dns', name: 'a.b' },
  },
  {
    name: 'an unknown extension',
    request: { dnsNames: ['a.b'], extraExtensions: [extension('1.3.6.1.4.1.5', 5, 0)] },
    identity: { form: 'dns', name: 'a.b' },
  },
  {
    name: 'the first of ten thousand names',
    request: { dnsNames: Array.from({ length: 10_000 }, (_, i) => `n${i}.shop`) },
    identity: { form: 'dns', name: 'n0.shop' },
  },
];

const refused: readonly Row[] = [
  // The URI is the identity, though no policy can name it.
  ...['https://td/x', 'urn:uuid:1', 'mailto:a@b', 'tag:b,2020:x', 'spiffe:x', 'SPIFFE://td/x', 'x', 'http://a.b'].map(
    (text): Row => ({ name: `${text} before a DNS name`, request: { extraSans: [uri(text), dns('a.b')] } }),
  ),
  {
    name: 'a URI behind a DNS name that is none',
    request: { extraSans: [dns('*.b'), uri('https://td/x'), dns('a.b')] },
  },
  { name: 'no SAN', request: {} },
  { name: 'CN only', request: { commonName: orders } },
  { name: 'wildcard only', request: { dnsNames: ['*.shop'] } },
  { name: 'star alone', request: { dnsNames: ['*'] } },
  { name: 'trailing dot', request: { dnsNames: ['a.b.'] } },
  { name: 'leading dot', request: { dnsNames: ['.a.b'] } },
  { name: 'empty label', request: { dnsNames: ['a..b'] } },
  { name: "hyphen at a label's edge", request: { dnsNames: ['-a.b'] } },
  { name: 'label of 64 characters', request: { dnsNames: [`${'a'.repeat(64)}.b`] } },
  { name: 'name of 254 characters', request: { dnsNames: [`${'a.'.repeat(126)}bb`] } },
  { name: 'all-numeric final label', request: { dnsNames: ['a.1'] } },
  { name: 'IPv4 address as DNS name', request: { dnsNames: ['10.0.0.1'] } },
  { name: 'empty DNS name', request: { dnsNames: [''] } },
  { name: 'empty DNS name before a good one', request: { dnsNames: ['', 'a.b'] } },
  { name: 'NUL inside', request: { extraSans: [dns('admin.shop\0.evil.test')] } },
  { name: 'NUL in a later name', request: { extraSans: [dns('a.b'), dns('c\0')] } },
  { name: 'NUL in an e-mail address', request: { extraSans: [dns('a.b'), text(1, 'a@b\0')] } },
  { name: 'comma injection', request: { extraSans: [dns('evil.test, DNS:admin.shop')] } },
  { name: 'comma without white space', request: { extraSans: [dns('evil.test,DNS:admin.shop')] } },
  { name: 'comma injection in a URI', request: { extraSans: [uri('http://x/,URI:spiffe://td/admin'), dns('a.b')] } },
  { name: 'space', request: { extraSans: [dns('a .b')] } },
  { name: 'line feed', request: { extraSans: [dns('a.b\n')] } },
  { name: 'DEL', request: { extraSans: [dns('a\x7f.b')] } },
  { name: 'UTF-8 letters', request: { extraSans: [{ tag: 2, content: Buffer.from('ördërs.shop') }] } },
  {
    name: 'Kelvin sign, which lower-cases to k',
    request: { extraSans: [{ tag: 2, content: Buffer.from('\u212a.shop') }] },
  },
  { name: 'quote', request: { extraSans: [dns('a"b.c')] } },
  { name: 'two URIs', request: { spiffeIds: ['spiffe://td/a', 'spiffe://td/b'] } },
  { name: 'the same URI twice', request: { spiffeIds: ['spiffe://td/a', 'spiffe://td/a'] } },
  { name: 'two URIs beside a DNS name', request: { dnsNames: ['a.b'], spiffeIds: ['spiffe://td/a', 'https://x/'] } },
  { name: 'web address only', request: { extraSans: [uri('https://a.b/')] } },
  { name: 'missing clientAuth', request: { dnsNames: ['a.b'], usages: ['serverAuth'] } },
  { name: 'empty extendedKeyUsage', request: { dnsNames: ['a.b'], usages: [] } },
  {
    name: 'anyExtendedKeyUsage instead of clientAuth',
    request: {
      dnsNames: ['a.b'],
      usages: null,
      extraExtensions: [extension('2.5.29.37', 0x30, 6, 6, 4, 0x55, 0x1d, 0x25, 0)],
    },
  },
  {
    name: 'extendedKeyUsage twice',
    request: { dnsNames: ['a.b'], extraExtensions: [extension('2.5.29.37', 0x30, 0)] },
  },
  { name: 'a CA certificate', request: { dnsNames: ['a.b'], authority: true } },
  {
    name: 'SAN extension twice',
    request: { dnsNames: ['a.b'], extraExtensions: [extension(subjectAltName, 0x30, 3, 0x82, 1, 0x61)] },
  },
  {
    name: 'another extension twice',
    request: { dnsNames: ['a.b'], extraExtensions: [extension('1.2.3', 5, 0), extension('1.2.3', 5, 0)] },
  },
  {
    name: 'a usage whose OID is padded',
    request: {
      dnsNames: ['a.b'],
      usages: null,
      extraExtensions: [extension('2.5.29.37', 0x30, 11, 6, 9, 0x2b, 6, 1, 5, 5, 7, 3, 0x80, 2)],
    },
  },
  { name: 'empty list of SANs', request: { extraExtensions: [extension(subjectAltName, 0x30, 0)] } },
  { name: 'empty SAN extension', request: { extraExtensions: [extension(subjectAltName)] } },
  { name: 'truncated SAN', request: { extraExtensions: [extension(subjectAltName, 0x30, 5, 0x82, 3, 0x61)] } },
  {
    name: 'bytes after the SANs',
    request: { extraExtensions: [extension(subjectAltName, 0x30, 3, 0x82, 1, 0x61, 5, 0)] },
  },
  {
    name: 'SAN of indefinite length',
    request: { extraExtensions: [extension(subjectAltName, 0x30, 0x80, 0x82, 1, 0x61, 0, 0)] },
  },
  {
    name: 'SAN with a padded length',
    request: { extraExtensions: [extension(subjectAltName, 0x30, 0x81, 3, 0x82, 1, 0x61)] },
  },
  { name: 'SANs as a SET', request: { extraExtensions: [extension(subjectAltName, 0x31, 3, 0x82, 1, 0x61)] } },
  {
    name: 'universal string as a SAN',
    request: { extraExtensions: [extension(subjectAltName, 0x30, 3, 0x16, 1, 0x61)] },
  },
  {
    name: 'structured DNS name',
    request: { extraExtensions: [extension(subjectAltName, 0x30, 5, 0xa2, 3, 0x82, 1, 0x61)] },
  },
  { name: 'unknown kind of SAN', request: { extraSans: [text(9, 'a'), dns('a.b')] } },
  { name: 'IP address of five octets', request: { extraSans: [{ tag: 7, content: Buffer.alloc(5) }, dns('a.b')] } },
  { name: 'IP address only', request: { ipAddresses: ['10.0.0.1', '::1'] } },
  ...[
    'spiffe://',
    'spiffe:///a',
    'spiffe://TD/a',
    'SPIFFE://td/a',
    'Spiffe://td/a',
    'spiffe:td/a',
    'spiffe:/td/a',
    'spiffe://td/',
    'spiffe://td/a/',
    'spiffe://td//a',
    'spiffe://td/./a',
    'spiffe://td/../a',
    'spiffe://td/a/..',
    'spiffe://td/a?q',
    'spiffe://td/a#f',
    'spiffe://td:80/a',
    'spiffe://u@td/a',
    'spiffe://td/%61',
    'spiffe://td/a b',
    'spiffe://td/ä',
    'spiffe://[::1]/a',
    `spiffe://td/${'a'.repeat(2048)}`,
    `spiffe://${'t'.repeat(256)}/a`,
  ].map((id) => ({
    name: `SPIFFE ID ${JSON.stringify(id.slice(0, 40))}, with a DNS name behind it`,
    request: { extraSans: [uri(id), dns('a.b')] },
  })),
];

t.test('names that are identities', async (t) => {
  for (const { name, request, identity } of accepted) {
    t.strictSame(identityFromCertificate(testCertificate(request).der), identity, name);
  }
});

t.test('certificates without an identity', async (t) => {
  for (const { name, request } of refused) t.equal(identityFromCertificate(testCertificate(request).der), null, name);
});

t.test('no byte string makes it throw, and none but the certificate itself has a name', async (t) => {
  const { der } = testCertificate({ dnsNames: [orders] });
  const wrong: unknown[] = [];
  for (let length = 0; length < der.length; length += 1) {
    if (identityFromCertificate(der.subarray(0, length)) !== null) wrong.push(`cut at ${length}`);
  }
  if (identityFromCertificate(Buffer.concat([der, Buffer.from([0])])) !== null) wrong.push('one byte more');
  if (identityFromCertificate(Buffer.alloc(4096, 0x30)) !== null) wrong.push('deep nesting');
  for (let at = 0; at < der.length; at += 1) {
    const changed = Buffer.from(der);
    changed.writeUInt8(changed.readUInt8(at) ^ 0x80, at);
    identityFromCertificate(changed);
  }
  t.strictSame(wrong, []);
});

t.test('a huge list of names costs little more than reading it', async (t) => {
  const { der } = testCertificate({ dnsNames: Array.from({ length: 20_000 }, (_, i) => `n${i}.shop`) });
  const before = process.cpuUsage();
  t.strictSame(identityFromCertificate(der), { form: 'dns', name: 'n0.shop' });
  const spent = process.cpuUsage(before);
  t.ok(spent.user + spent.system < 2_000_000, 'linear, not quadratic');
});

t.test('our own names', async (t) => {
  const rows: readonly [string, Partial<CertificateRequest>, readonly string[]][] = [
    ['every DNS name, once, in lower case', { dnsNames: ['a.B', 'c.d', 'A.b'] }, ['a.b', 'c.d']],
    [
      'other kinds and wildcards are left out',
      { dnsNames: ['*.b', 'c.d'], spiffeIds: ['spiffe://td/a'], ipAddresses: ['::1'] },
      ['c.d'],
    ],
    ['the CN does not count', { commonName: 'a.b' }, []],
    ['the key usage of a server is enough', { dnsNames: ['a.b'], usages: ['serverAuth'] }, ['a.b']],
    ['a hostile name spoils the rest', { extraSans: [dns('a.b'), dns('c\0d')] }, []],
  ];
  for (const [name, request, names] of rows) {
    t.strictSame(dnsNamesOfCertificate(testCertificate(request).der), names, name);
  }
  t.strictSame(dnsNamesOfCertificate(Buffer.from('not a certificate')), []);
});

const openssl = spawnSync('openssl', ['version']).status === 0;

t.test('certificates of another maker', { skip: openssl ? false : 'openssl is not installed' }, async (t) => {
  const selfSigned = (subject: string, ...extensions: string[]): Buffer => {
    const key = '-x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout /dev/null -outform DER'.split(' ');
    const more = extensions.flatMap((extension) => ['-addext', extension]);
    return execFileSync('openssl', ['req', ...key, '-subj', subject, ...more], { stdio: 'pipe' });
  };
  const leaf = 'basicConstraints=critical,CA:FALSE';
  const named = selfSigned('/CN=x', leaf, 'subjectAltName=DNS:orders.shop');
  t.strictSame(identityFromCertificate(named), { form: 'dns', name: 'orders.shop' });
  t.equal(identityFromCertificate(selfSigned('/CN=orders.shop', leaf)), null, 'CN only');
  t.equal(identityFromCertificate(selfSigned('/CN=x', 'subjectAltName=DNS:a.b')), null, 'CA:TRUE is the default there');
});

t.test('which key a certificate holds, and which has signed it', async (t) => {
  const issued = testCertificate({ dnsNames: [orders] });
  const [leaf, root] = [issued.certificatePem, issued.trustAnchorsPem].map((pem) => new X509Certificate(pem).raw);
  const [ofLeaf, ofRoot] = [leaf, root].map((der) => keyIdsOfCertificate(der ?? Buffer.alloc(0)));
  t.match(ofLeaf?.own, /^[0-9a-f]{40}$/);
  t.equal(ofLeaf?.issuer, ofRoot?.own);
  t.not(ofLeaf?.own, ofRoot?.own);
  t.same(keyIdsOfCertificate(Buffer.from('no certificate')), { own: '', issuer: '' });
  const long = testCertificate({ dnsNames: Array.from({ length: 1000 }, (_, i) => `name-${i}.shop`) });
  t.same(keyIdsOfCertificate(new X509Certificate(long.certificatePem).raw), { own: '', issuer: '' }, 'not for a line');
});
