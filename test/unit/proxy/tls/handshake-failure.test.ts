import { X509Certificate } from 'node:crypto';
import t from 'tap';
import { certificateFailure, closedFailure, errorFailure } from '../../../../lib/proxy/tls/handshake-failure.ts';
import { strangerCertificate } from '../../../support/certificates.ts';

/* What real clients provoke is in test/e2e/tls-failures.test.ts; here are the words of OpenSSL that they do not. */

const notAfter = new Date('2026-11-22T12:00:00Z');
const own = { names: ['web.shop'], issuer: 'CN=root', notAfter, trusts: ['CN=root'], anchors: [] };
const valid = { own, clockMs: notAfter.getTime() };
const expired = { own, clockMs: notAfter.getTime() + 1 };

function alert(number: number, name: string): object {
  const message = `40E3:error:0A000418:SSL routines:ssl3_read_bytes:${name}:../rec_layer_s3.c:918:SSL alert number ${number}\n`;
  return Object.assign(new Error(message), { code: 'ERR_SSL_SOME_ALERT', reason: name });
}

const coded = (code: string, reason = ''): object => Object.assign(new Error(code), { code, reason });

t.test('errors', async (t) => {
  const rows: readonly (readonly [error: unknown, reason: string, reasonWhenExpired?: string])[] = [
    [alert(42, 'ssl/tls alert bad certificate'), 'client_distrusts_us', 'own_expired'],
    [alert(45, 'ssl/tls alert certificate expired'), 'client_distrusts_us', 'own_expired'],
    [alert(46, 'ssl/tls alert certificate unknown'), 'client_distrusts_us', 'own_expired'],
    [alert(48, 'tlsv1 alert unknown ca'), 'client_distrusts_us', 'own_expired'],
    [alert(70, 'tlsv1 alert protocol version'), 'no_shared_version'],
    [alert(40, 'ssl/tls alert handshake failure'), 'client_alert'],
    [alert(90, 'tlsv1 alert user cancelled'), 'client_alert'],
    [coded('ECONNRESET'), 'closed', 'own_expired'],
    [coded('EPIPE'), 'closed', 'own_expired'],
    [coded('ERR_TLS_HANDSHAKE_TIMEOUT'), 'timeout'],
    [coded('ERR_SSL_UNSUPPORTED_PROTOCOL', 'unsupported protocol'), 'no_shared_version'],
    [coded('ERR_SSL_NO_SHARED_CIPHER', 'no shared cipher'), 'no_shared_cipher'],
    [coded('ERR_SSL_NO_SUITABLE_KEY_SHARE'), 'no_shared_group'],
    [coded('ERR_SSL_HTTP_REQUEST', 'http request'), 'malformed'],
    [coded('ERR_SSL_WRONG_VERSION_NUMBER', 'wrong version number'), 'malformed'],
    [coded('ERR_SSL_UNEXPECTED_MESSAGE'), 'malformed'],
    [coded('ERR_SSL_DECRYPTION_FAILED_OR_BAD_RECORD_MAC'), 'malformed'],
    [coded('ERR_SSL_LENGTH_MISMATCH'), 'malformed'],
    [coded('ERR_SSL_SOMETHING_NEW'), 'other'],
    [coded('ENOMEM'), 'other'],
    [new Error('without a code'), 'other'],
    [{}, 'other'],
  ];
  for (const [error, reason, reasonWhenExpired = reason] of rows) {
    const what = JSON.stringify(error);
    t.equal(errorFailure(error, valid).reason, reason, what);
    t.equal(errorFailure(error, expired).reason, reasonWhenExpired, `${what}, and our own certificate has expired`);
    t.notMatch(errorFailure(error, valid).detail, /\.c:|\n/, 'no lines of OpenSSL');
    t.not(errorFailure(error, valid).detail, '');
  }
  t.equal(closedFailure(valid).reason, 'closed');
  t.equal(closedFailure(expired).reason, 'own_expired');
});

t.test('certificates', async (t) => {
  const rows: readonly (readonly [fault: string, reason: string])[] = [
    ['UNABLE_TO_GET_ISSUER_CERT', 'unknown_issuer'],
    ['UNABLE_TO_GET_ISSUER_CERT_LOCALLY', 'unknown_issuer'],
    ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', 'unknown_issuer'],
    ['SELF_SIGNED_CERT_IN_CHAIN', 'unknown_issuer'],
    ['DEPTH_ZERO_SELF_SIGNED_CERT', 'unknown_issuer'],
    ['CERT_SIGNATURE_FAILURE', 'unknown_issuer'],
    ['CERT_HAS_EXPIRED', 'client_expired'],
    ['CERT_NOT_YET_VALID', 'client_not_yet_valid'],
    ['CERT_CHAIN_TOO_LONG', 'client_invalid'],
    ['INVALID_PURPOSE', 'client_invalid'],
    ['ERROR_IN_CERT_NOT_AFTER_FIELD', 'client_invalid'],
  ];
  const certificate = new X509Certificate(strangerCertificate('orders.shop').certificatePem);
  for (const [fault, reason] of rows) {
    const failure = certificateFailure(certificate, fault, expired);
    t.equal(failure.reason, reason, `${fault}: whatever our own is`);
    t.match(failure.detail, new RegExp(`\\(${fault}\\)$`));
    t.match(failure.certificate?.(), { subject: '', names: 'DNS:orders.shop', issuer: 'CN=Nobody you know' });
  }
});

t.test('what is no date stays text: a client must not make us throw', async (t) => {
  const fields = {
    subject: 'CN=a\nO=b',
    subjectAltName: undefined,
    issuer: undefined,
    validFrom: 'Nov 22 00:00:00 2026 GMT',
    validFromDate: new Date('2026-11-22T00:00:00Z'),
    validTo: 'Bad time value',
    validToDate: new Date(Number.NaN),
  };
  const odd = fields as unknown as X509Certificate;
  const shown = certificateFailure(odd, 'CERT_HAS_EXPIRED', valid).certificate?.();
  t.same(shown, {
    subject: 'CN=a, O=b',
    names: '',
    issuer: '',
    authority: { name: '', keyId: '' },
    notBefore: '2026-11-22T00:00:00.000Z',
    notAfter: 'Bad time value',
  });
});
