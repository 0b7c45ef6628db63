import { X509Certificate } from 'node:crypto';
import t from 'tap';
import { type Authority, createAuthority, issueCertificate } from '../../../certs/authority.ts';
import { chainEndsAt } from '../../../lib/reload/chain-end.ts';
import { costlyIssuers, craft, extensions } from '../../support/crafted-certificate.ts';

const root = createAuthority({ commonName: 'Root', days: 30 });
const shortRoot = createAuthority({ commonName: 'Short root', days: 2 });
const stranger = createAuthority({ commonName: 'Root', days: 30 });
const authority = (issuer: Authority, commonName: string, days: number): Authority =>
  issueCertificate(issuer, { commonName, days, authority: true });
const [long, short, other] = [authority(root, 'Long', 20), authority(root, 'Short', 3), authority(stranger, 'Long', 9)];
const below = authority(short, 'Below short', 10);
const gone = issueCertificate(root, {
  commonName: 'Gone',
  authority: true,
  days: 1,
  notBefore: new Date(Date.now() - 3 * 86_400_000),
});
const unborn = issueCertificate(root, {
  commonName: 'Unborn',
  authority: true,
  days: 9,
  notBefore: new Date(Date.now() + 86_400_000),
});
const leafOf = (issuer: Authority, days = 10): X509Certificate =>
  new X509Certificate(issueCertificate(issuer, { dnsNames: ['a.b'], days }).certificatePem);
const x509 = (each: Authority): X509Certificate => new X509Certificate(each.certificatePem);

/** In days from now, rounded up; negative where it has come. */
const rows: readonly {
  readonly what: string;
  readonly leaf: X509Certificate;
  readonly sent?: readonly Authority[];
  readonly anchors: readonly Authority[];
  readonly days: number | null;
}[] = [
  { what: 'no anchors', leaf: leafOf(root), anchors: [], days: null },
  { what: 'the leaf ends first', leaf: leafOf(root), anchors: [root], days: 10 },
  { what: 'the anchor ends first', leaf: leafOf(shortRoot), anchors: [root, shortRoot], days: 2 },
  { what: 'the intermediate ends first', leaf: leafOf(short), sent: [short], anchors: [root], days: 3 },
  { what: 'one further up ends first', leaf: leafOf(below), sent: [below, short], anchors: [root], days: 3 },
  { what: 'in any order', leaf: leafOf(below), sent: [long, short, below], anchors: [root], days: 3 },
  { what: 'an anchor on the way ends it', leaf: leafOf(below), sent: [below, short], anchors: [root, below], days: 10 },
  { what: 'the intermediate was not sent', leaf: leafOf(below), sent: [below], anchors: [root], days: null },
  { what: 'a name alone', leaf: leafOf(long), sent: [other], anchors: [root, stranger], days: null },
  { what: 'a stranger of the same name', leaf: leafOf(stranger), anchors: [root], days: null },
  { what: 'an expired intermediate', leaf: leafOf(gone), sent: [gone], anchors: [root], days: -2 },
  { what: 'one that is not valid yet', leaf: leafOf(unborn), sent: [unborn], anchors: [root], days: null },
  { what: 'an issuer that is no authority', leaf: leafOf(root), sent: [], anchors: [stranger], days: null },
];
for (const { what, leaf, sent = [], anchors, days } of rows) {
  const end = chainEndsAt(leaf, sent.map(x509), anchors.map(x509), new Date());
  t.equal(end === null ? null : Math.ceil((end - Date.now()) / 86_400_000), days, what);
}

t.test('of two chains the one that lasts', (t) => {
  const [one, two] = [craft({ cn: 'One' }), craft({ cn: 'Two' })];
  const inDays = (days: number): Date => new Date(Date.now() + days * 86_400_000);
  const crossed = (by: typeof one, days: number): typeof one =>
    craft({ cn: 'Renewed', extensions: [extensions.authority()], notAfter: inDays(days), key: renewed.key }, by);
  const renewed = craft({ cn: 'Renewed' });
  const leaf = craft({ cn: 'Leaf', notAfter: inDays(25) }, renewed);
  const [brief, lasting, lost] = [crossed(one, 0.5), crossed(one, 0.8), crossed(two, 20)];
  for (const sent of [
    [brief, lasting, lost],
    [lost, lasting, brief],
    [lasting, lost, brief],
  ]) {
    const end = chainEndsAt(
      leaf.certificate,
      sent.map(({ certificate }) => certificate),
      [one.certificate],
      new Date(),
    );
    t.equal(end, lasting.certificate.validToDate.getTime());
  }
  t.end();
});

t.test('issuers whose keys are made to cost', (t) => {
  const leaf = leafOf(root);
  const before = process.threadCpuUsage();
  for (const kind of ['rsa', 'dsa'] as const) {
    const sent = costlyIssuers(kind, 'Root', 8);
    t.equal(chainEndsAt(leaf, sent, [x509(root)], new Date()), leaf.validToDate.getTime(), `${kind}, beside an anchor`);
    t.equal(chainEndsAt(leaf, sent, [x509(shortRoot)], new Date()), null, `${kind} alone`);
  }
  const { user, system } = process.threadCpuUsage(before);
  t.ok((user + system) / 1000 < 100, 'none of their signatures is looked at, which would take 0.9 s');
  t.end();
});
