import t from 'tap';
import { ParameterNames } from '../../../../lib/policy/decide/asked-parameters.ts';
import type { Authorizer, PortPolicy, RequestDecision } from '../../../../lib/policy/decision.ts';
import { BufferBudget } from '../../../../lib/proxy/fairness/buffer-budget.ts';
import type { Decided, Request } from '../../../../lib/proxy/http/exchange.ts';
import { type HttpConnection, RequestPipeline } from '../../../../lib/proxy/http/request-pipeline.ts';
import type { ConnectionScope, Recorder } from '../../../../lib/proxy/recorder.ts';
import { defaultLimits } from '../../../support/limits.ts';

const server = { group: 'policy.linkerd.io', kind: 'server', name: 'web' };
const policyOf = (decisionsLast: boolean): PortPolicy => ({
  port: 8080,
  server,
  protocol: 'http1',
  detectTimeoutMs: 1000,
  hasRequestRules: true,
  decisionsLast,
  rateLimit: null,
  asks: { headers: [], query: new ParameterNames([]), spells: () => false },
});

t.test('a decision is kept for as long as it must be the same', async (t) => {
  let policy = policyOf(true);
  let asked = 0;
  let recorded = 0;
  let kind: 'deny' | 'no-route' = 'deny';
  const authorizer = {
    port: () => policy,
    request: () => {
      asked++;
      return { kind, server, route: server } as RequestDecision;
    },
  } as unknown as Authorizer;
  const recorder = { access: null, limitReached: () => {} } as unknown as Recorder;
  const budget = new BufferBudget(defaultLimits, recorder);
  t.teardown(() => budget.close());
  const pipeline = new RequestPipeline({ authorizer, recorder, limits: defaultLimits, budget });
  const scope = { requestDecided: () => recorded++ } as unknown as ConnectionScope;
  const facts = {
    client: { ip: { text: '127.0.0.1' }, tls: { kind: 'none' } },
    clientPort: 1,
    targetIp: '127.0.0.1',
    targetPort: 8080,
  };
  const connection = { facts, scope, policyPort: 8080 } as unknown as HttpConnection;
  const repeated = { method: 'GET', path: '/', decided: null as Decided | null } as unknown as Request;
  const once = { method: 'GET', path: '/' } as unknown as Request;
  const statusOf = (request: Request): number => {
    const admitted = pipeline.admit(connection, request);
    return admitted.kind === 'refused' ? admitted.refusal.status : 0;
  };
  const rows: readonly (readonly [what: string, request: Request, asks: number, change?: () => void])[] = [
    ['the first time', repeated, 1],
    ['the same again', repeated, 0],
    ['one that is not kept', once, 1],
    ['nor the second time', once, 1],
    [
      'under another policy',
      repeated,
      1,
      () => {
        policy = policyOf(true);
        kind = 'no-route';
      },
    ],
    ['the same again, under that', repeated, 0],
    [
      'with a rate limit',
      repeated,
      1,
      () => {
        policy = policyOf(false);
      },
    ],
    ['and each time', repeated, 1],
    [
      'back without',
      repeated,
      1,
      () => {
        policy = policyOf(true);
        kind = 'deny';
      },
    ],
  ];
  for (const [i, [what, request, asks, change]] of rows.entries()) {
    change?.();
    const before = asked;
    t.equal(statusOf(request), kind === 'deny' ? 403 : 404, what);
    t.equal(asked - before, asks, `${what}: asked`);
    t.equal(recorded, i + 1, 'each is recorded');
  }
});

t.test('a message that cannot be read is recorded, and the limit behind that', async (t) => {
  const told: unknown[] = [];
  const policy = policyOf(true);
  const authorizer = { port: (port: number) => ({ ...policy, port }) } as unknown as Authorizer;
  const recorder = { access: null, limitReached: (limit: string) => told.push(limit) } as unknown as Recorder;
  const budget = new BufferBudget(defaultLimits, recorder);
  t.teardown(() => budget.close());
  const pipeline = new RequestPipeline({ authorizer, recorder, limits: defaultLimits, budget });
  const scope = {
    badRequest: ({ port }: PortPolicy, reason: string) => told.push([port, reason]),
    brokenProtocol: () => told.push('broken'),
  } as unknown as ConnectionScope;
  const facts = { client: { ip: { text: '127.0.0.1' } } };
  const connection = { facts, scope, policyPort: 8081 } as unknown as HttpConnection;
  const rows: readonly (readonly [reason: string, limit: readonly string[]])[] = [
    ['no Host', []],
    ['HPE_HEADER_OVERFLOW', ['max_header_bytes']],
    ['too many header fields', ['max_header_fields']],
    ['ERR_HTTP_REQUEST_TIMEOUT', ['header_timeout']],
    ['header list too large', ['max_header_bytes']],
    ['header block not complete in time', ['header_timeout']],
  ];
  for (const [reason, limit] of rows) {
    pipeline.badRequest(connection, reason);
    t.same(told.splice(0), [...limit, [8081, reason]], reason);
    pipeline.brokenHttp1(connection, reason);
    t.same(told.splice(0), [...limit, [8081, reason], 'broken'], `${reason}, over HTTP/1`);
  }
});
