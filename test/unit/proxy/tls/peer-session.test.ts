import { X509Certificate } from 'node:crypto';
import t from 'tap';
import { KnownCertificate } from '../../../../lib/proxy/tls/known-certificates.ts';
import { PeerSession, type TrustAnchors } from '../../../../lib/proxy/tls/peer-session.ts';
import { workloadCertificate } from '../../../support/certificates.ts';

const certificate = new X509Certificate(workloadCertificate('orders', 'shop').certificatePem);

/** Longer than any chain waits to be looked at, in milliseconds. */
const later = 6000;

/** A session on a connection of its own, which counts how often it is asked for its certificate. */
function sessionOf(leaf: KnownCertificate): { readonly session: PeerSession; reads(): number } {
  let reads = 0;
  const socket = {
    getPeerX509Certificate: () => {
      reads++;
      return certificate;
    },
  };
  return { session: new PeerSession(socket, leaf, { generation: 0 }), reads: () => reads };
}

function anchors(generation: number, endOfChain: () => number | null): TrustAnchors {
  return { generation, endOfChain };
}

t.test('one session of a certificate reads the chain for all', async (t) => {
  const leaf = new KnownCertificate(certificate);
  const sound = anchors(0, () => Date.now() + 3_600_000);
  const [first, second] = [sessionOf(leaf), sessionOf(leaf)];
  t.equal(second.session.standing(0, sound), 'sound', 'OpenSSL has said so');
  t.equal(first.reads() + second.reads(), 0, 'a handshake waits for nothing');
  first.session.standing(0, sound);
  t.equal(first.session.standing(later, sound), 'sound');
  t.equal(first.reads(), 1);
  t.equal(second.session.standing(later, sound), 'sound');
  t.equal(second.reads(), 0);
  const stranger = sessionOf(new KnownCertificate(certificate));
  stranger.session.standing(0, sound);
  stranger.session.standing(later, sound);
  t.equal(stranger.reads(), 1, 'which one with another record knows nothing of');
});

t.test('that a chain is bad is said of the session alone that has read it', async (t) => {
  const rows: readonly (readonly [string, () => number | null, 'expired' | 'untrusted'])[] = [
    ['it leads nowhere', () => null, 'untrusted'],
    ['it has expired', () => Date.now() - 1, 'expired'],
  ];
  for (const [name, endOfChain, standing] of rows) {
    const leaf = new KnownCertificate(certificate);
    const [first, second] = [sessionOf(leaf), sessionOf(leaf)];
    first.session.standing(0, anchors(0, endOfChain));
    t.equal(first.session.standing(later, anchors(0, endOfChain)), standing, name);
    t.equal(leaf.chain, null, name);
    const other = anchors(0, () => Date.now() + 3_600_000);
    second.session.standing(0, other);
    t.equal(second.session.standing(later, other), 'sound', `${name}, for the other`);
    t.equal(second.reads(), 1, name);
  }
});

t.test('what was sound for other anchors, or until a moment ago, is read again', async (t) => {
  const leaf = new KnownCertificate(certificate);
  let untilMs = Date.now() + 3_600_000;
  const before = anchors(0, () => untilMs);
  const [first, second] = [sessionOf(leaf), sessionOf(leaf)];
  for (const { session } of [first, second]) {
    session.standing(0, before);
    session.standing(later, before);
  }
  const gone = anchors(1, () => null);
  for (const { session, reads } of [first, second]) {
    const had = reads();
    t.equal(session.standing(later, gone), 'sound', 'each in its time');
    t.equal(session.standing(2 * later, gone), 'untrusted');
    t.equal(reads(), had + 1);
  }
  t.equal(sessionOf(leaf).session.standing(0, null), 'sound', 'which is not looked at yet');
  const none = sessionOf(leaf);
  none.session.standing(0, null);
  t.equal(none.session.standing(later, null), 'untrusted', 'without anchors nothing known helps');

  untilMs = Date.now() - 1;
  const short = new KnownCertificate(certificate);
  short.chain = { kind: 'sound', generation: 0, untilMs };
  const late = sessionOf(short);
  late.session.standing(0, before);
  t.equal(late.session.standing(later, before), 'expired');
  t.equal(late.reads(), 1, 'a chain that has come to its end is no answer');
});

t.test('whether a client is vouched for at this moment', async (t) => {
  const hour = 3_600_000;
  type Step = readonly [what: string, anchors: TrustAnchors | null, holds: boolean, reads: number];
  const sound = (generation: number): TrustAnchors => anchors(generation, () => Date.now() + hour);
  const rows: readonly (readonly Step[])[] = [
    [
      ['as at its handshake', sound(0), true, 0],
      ['an anchor has gone, not its own', sound(1), true, 1],
      ['the same, and nothing is read again', sound(1), true, 1],
    ],
    [
      ['its anchor has gone', anchors(1, () => null), false, 1],
      ['for good, whoever asks', anchors(1, () => null), false, 1],
      ['until another one vouches for it', sound(2), true, 2],
    ],
    [['something in its chain has expired', anchors(1, () => Date.now() - 1), false, 1]],
    [['there are no anchors any more', null, false, 0]],
  ];
  for (const steps of rows) {
    const { session, reads } = sessionOf(new KnownCertificate(certificate));
    for (const [what, given, holds, read] of steps) {
      t.equal(session.holds(given), holds, what);
      t.equal(reads(), read, `${what}: what it costs`);
    }
  }
  const { session } = sessionOf(new KnownCertificate(certificate));
  t.equal(session.holds(anchors(1, () => null)), false);
  t.equal(
    session.standing(
      0,
      anchors(1, () => null),
    ),
    'sound',
    'the looks of others have their own time',
  );
  t.equal(
    session.standing(
      later,
      anchors(1, () => null),
    ),
    'untrusted',
  );
});
