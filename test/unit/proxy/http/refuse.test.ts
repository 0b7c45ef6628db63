import t from 'tap';
import type { ClientTls } from '../../../../lib/client.ts';
import { systemErrorCode } from '../../../../lib/errors/coded-error.ts';
import { errorCatalogue } from '../../../../lib/errors/error-codes.ts';
import type { RequestDecision } from '../../../../lib/policy/decision.ts';
import type { ConnectionFacts } from '../../../../lib/proxy/connection-facts.ts';
import {
  type Failure,
  failureOf,
  failures,
  type Refusal,
  refusalFor,
  refusalHeaders,
  upstreamFailure,
} from '../../../../lib/proxy/http/refuse.ts';
import { ip } from '../../../support/lanes.ts';

const facts = (tls: ClientTls): ConnectionFacts => ({
  client: { ip: ip('10.1.2.3'), tls },
  clientPort: 4711,
  targetIp: '10.0.0.9',
  targetPort: 8080,
});
const plain = facts({ kind: 'none', reason: 'no_tls_from_remote' });
const anonymous = facts({ kind: 'mesh', identity: null });
const known = facts({ kind: 'mesh', identity: { form: 'dns', name: 'web.shop' } });

const ref = { group: '', kind: 'default', name: 'deny' };
const limited = {
  authz: ref,
  audit: false,
  limit: ref,
  scope: 'total',
  detail: 'total rate limit exceeded: 2rps',
} as const;
type Refused = Exclude<RequestDecision, { kind: 'permit' }>;

t.test('decisions', async (t) => {
  const rows: readonly (readonly [Refused, Partial<Refusal>])[] = [
    [
      { kind: 'deny', server: ref, route: ref },
      { status: 403, grpc: 7, close: false, location: null },
    ],
    [
      { kind: 'no-route', server: ref },
      { status: 404, grpc: 5, close: false },
    ],
    [
      { kind: 'rate-limited', server: ref, route: ref, ...limited },
      { status: 429, grpc: 8, close: false },
    ],
    [
      { kind: 'invalid', server: ref, detail: 'readings differ' },
      { status: 400, grpc: 3, close: true },
    ],
    [
      { kind: 'redirect', server: ref, route: ref, authz: ref, audit: false, status: 301, location: 'https://a/' },
      { status: 301, close: false, location: 'https://a/', message: 'redirected' },
    ],
    [
      { kind: 'redirect', server: ref, route: ref, authz: ref, audit: false, status: 301, location: null },
      { status: 500, close: true, location: null },
    ],
  ];
  for (const [decision, wanted] of rows) t.match(refusalFor(decision, plain), wanted, decision.kind);
  t.match(
    refusalFor({ kind: 'deny', server: ref, route: ref }, plain).message,
    /^client 10\.1\.2\.3:4711: server: 10\.0\.0\.9:8080: /,
  );
});

t.test('failures', async (t) => {
  const coded = (code: string): Error => Object.assign(new Error('x'), { code });
  const rows: readonly (readonly [name: string, error: unknown, wanted: Partial<Refusal>, label: Failure['label']])[] =
    [
      ['a connect that takes too long', coded('ERR_SALLYPORT_CONNECT_TIMEOUT'), { status: 504, grpc: 4 }, 'i/o'],
      ['a connect to ourselves', coded('ERR_SALLYPORT_LOOP'), { status: 508, grpc: 10 }, 'gateway loop'],
      ['a port of loopback that nobody declared', coded('ERR_SALLYPORT_LOOPBACK'), { status: 502, grpc: 14 }, 'i/o'],
      ['a fault of ours', coded('ERR_SALLYPORT_UNEXPECTED'), { status: 500, grpc: 13 }, 'unexpected'],
      ['a refused connect', coded('ECONNREFUSED'), { status: 502, grpc: 14 }, 'i/o'],
      ['no descriptor left', coded('EMFILE'), { status: 503, grpc: 14, message: 'service unavailable' }, 'loadshed'],
      [
        'no HTTP, says the parser',
        coded('HPE_INVALID_CONSTANT'),
        { status: 502, grpc: 14, message: 'the application sent an invalid response' },
        'i/o',
      ],
      [
        'no HTTP, says the parser of undici',
        Object.assign(new Error('x'), { name: 'HTTPParserError', code: undefined }),
        { status: 502, grpc: 14, message: 'the application sent an invalid response' },
        'i/o',
      ],
      ['a code of nobody', coded('ERR_SALLYPORT_NO_SUCH'), { status: 502, grpc: 14 }, 'i/o'],
      [
        'a fault inside a fault',
        Object.assign(new Error('x', { cause: coded('ERR_SALLYPORT_CONNECT_TIMEOUT') }), { code: 'UND_ERR_SOCKET' }),
        { status: 504 },
        'i/o',
      ],
      ['no error at all', undefined, { status: 502 }, 'i/o'],
    ];
  for (const [name, error, wanted, label] of rows) {
    const { refusal, label: labelled } = upstreamFailure(error);
    t.match(refusal, { ...wanted, close: true }, name);
    t.equal(labelled, label, name);
  }
  t.match(failures.overload, { refusal: { status: 503, close: true }, label: 'loadshed' });
  t.match(failureOf('ERR_SALLYPORT_BAD_RESPONSE'), { refusal: { status: 502, close: true }, label: 'i/o' });
});

t.test('every code that ends a request has its response', async (t) => {
  const codes = Object.entries(errorCatalogue).flatMap(([code, { ends }]) => (ends === 'request' ? [code] : []));
  t.ok(codes.length > 10, 'codes are found at all');
  for (const code of codes) t.match(upstreamFailure({ code }), { code, refusal: { status: /^[45]\d\d$/ } }, code);
});

t.test('codes of errors', async (t) => {
  const loop: { cause?: unknown } = {};
  loop.cause = loop;
  const rows: readonly (readonly [unknown, string])[] = [
    [null, ''],
    ['ECONNRESET', ''],
    [{ code: 'A' }, 'A'],
    [{ code: 7 }, ''],
    [{ cause: { code: 'B' } }, 'B'],
    [{ code: 'UND_ERR_SOCKET', cause: { code: 'B' } }, 'B'],
    [{ code: 'UND_ERR_SOCKET' }, 'UND_ERR_SOCKET'],
    [loop, ''],
  ];
  for (const [error, code] of rows) t.equal(systemErrorCode(error), code);
});

t.test('headers of refusals', async (t) => {
  const { message } = refusalFor({ kind: 'rate-limited', server: ref, route: ref, ...limited }, known);
  t.match(message, /^client .*: server: .*: total rate limit exceeded: 2rps$/, 'as Linkerd says it');
  const deny = refusalFor({ kind: 'deny', server: ref, route: ref }, known);
  const redirect: Refusal = { status: 302, grpc: 5, close: false, location: 'https://a/', message: 'redirected' };
  const { refusal: gone } = upstreamFailure(new Error('x'));
  const rows: readonly (readonly [name: string, Refusal, ConnectionFacts, grpc: boolean, headers: string[]])[] = [
    ['to a stranger', deny, plain, false, ['content-length', '0']],
    ['to one without a name', deny, anonymous, false, ['content-length', '0']],
    ['to one that is known', deny, known, false, ['content-length', '0', 'l5d-proxy-error', deny.message]],
    ['a redirect, to a stranger', redirect, plain, false, ['content-length', '0', 'location', 'https://a/']],
    [
      'a redirect',
      redirect,
      known,
      false,
      ['content-length', '0', 'location', 'https://a/', 'l5d-proxy-error', 'redirected'],
    ],
    ['a failure, to a stranger', gone, plain, false, ['content-length', '0']],
    [
      'a failure',
      gone,
      known,
      false,
      ['content-length', '0', 'l5d-proxy-error', gone.message, 'l5d-proxy-connection', 'close'],
    ],
    ['gRPC, to a stranger', deny, plain, true, ['content-type', 'application/grpc', 'grpc-status', '7']],
    [
      'gRPC',
      deny,
      known,
      true,
      [
        'content-type',
        'application/grpc',
        'grpc-status',
        '7',
        'l5d-proxy-error',
        deny.message,
        'grpc-message',
        encodeURI(deny.message),
      ],
    ],
  ];
  for (const [name, refusal, connection, grpc, headers] of rows) {
    t.same(refusalHeaders(refusal, connection, grpc), headers, name);
  }
});
