import t from 'tap';
import { createAuthorizer, type PolicyAuthorizer } from '../../../../lib/policy/authorizer.ts';
import { compileNow } from '../../../../lib/policy/compile/compile.ts';
import type { PolicyIndex } from '../../../../lib/policy/decide/policy-index.ts';
import type { Admission, Authorizer } from '../../../../lib/policy/decision.ts';
import { readDocuments } from '../../../../lib/policy/documents/read.ts';
import { BufferBudget } from '../../../../lib/proxy/fairness/buffer-budget.ts';
import { type AdmittedNow, mustBeCurrent, type Refused } from '../../../../lib/proxy/http/admitted.ts';
import type { Request } from '../../../../lib/proxy/http/exchange.ts';
import { type HttpConnection, RequestPipeline } from '../../../../lib/proxy/http/request-pipeline.ts';
import type { ConnectionScope, Recorder, RequestLog } from '../../../../lib/proxy/recorder.ts';
import { defaultLimits } from '../../../support/limits.ts';
import { ip, open, plainFacts, route, server, sources, workload } from '../../../support/policy-fixtures.ts';

function indexOf(documents: string): PolicyIndex {
  const read = readDocuments(sources(documents), { namespace: 'shop' });
  return compileNow(read.documents, workload()).index;
}

const everybody = `${server('proxyProtocol: HTTP/1')}${route('all', '{path: {value: /}}')}${open('all')}`;
const nobody = `${server('proxyProtocol: HTTP/1')}${route('all', '{path: {value: /}}')}`;

/** At most so many requests at once: the clock stands still. */
function limited(perSecond: number): string {
  return `${everybody}---
apiVersion: policy.linkerd.io/v1alpha1
kind: HTTPLocalRateLimitPolicy
metadata: {name: few, namespace: shop}
spec: {targetRef: {group: policy.linkerd.io, kind: Server, name: web}, total: {requestsPerSecond: ${perSecond}}}
`;
}

interface Stage {
  readonly policies: PolicyAuthorizer;
  readonly pipeline: RequestPipeline;
  readonly connection: HttpConnection;
  /** What was recorded, in its order; of reasons the beginning. */
  readonly told: string[];
  admission: Admission;
  isVouchedFor: boolean;
  ask(): AdmittedNow;
}

function stage(t: { teardown(run: () => void): void }, documents: string): Stage {
  const policies = createAuthorizer({ nowMs: () => 1_000_000 });
  policies.swap(indexOf(documents));
  const told: string[] = [];
  const authorizer: Authorizer = Object.create(policies, { admits: { value: () => made.admission } });
  const recorder = { access: null, limitReached: () => {} } as unknown as Recorder;
  const budget = new BufferBudget(defaultLimits, recorder);
  t.teardown(() => budget.close());
  const pipeline = new RequestPipeline({ authorizer, recorder, limits: defaultLimits, budget });
  const scope = {
    requestDecided: (_policy: unknown, { kind }: { kind: string }, log: RequestLog) =>
      told.push(kind, log.reasons().reason.slice(0, 20)),
    requestStarted: () => ({ refused: (status: number) => told.push(`refused ${status}`) }),
  } as unknown as ConnectionScope;
  const identity = { form: 'dns', name: 'orders.shop' } as const;
  const facts = {
    client: { ip: ip('10.20.0.5'), tls: { kind: 'mesh', identity } as const },
    clientPort: 1,
    targetIp: '10.0.0.1',
    targetPort: 8080,
  };
  const connection = {
    facts,
    scope,
    policyPort: 8080,
    destination: { kind: 'app' },
    untilPermit: null,
    isVouchedFor: () => made.isVouchedFor,
  } as unknown as HttpConnection;
  const made: Stage = {
    policies,
    pipeline,
    connection,
    told,
    admission: { kind: 'admitted' },
    isVouchedFor: true,
    ask: () => {
      const admitted = pipeline.admit(connection, request);
      if (admitted.kind === 'refused') throw new Error(`refused with ${admitted.refusal.status}`);
      told.length = 0;
      return admitted;
    },
  };
  return made;
}

const request = { ...plainFacts, version: 'HTTP/1.1', target: '/', headBytes: 10 } as unknown as Request;

const outcomeOf = (late: AdmittedNow | Refused): string =>
  late.kind === 'refused' ? `refused ${late.refusal.status}` : 'admitted';

const closed: Admission = {
  kind: 'refused',
  policies: [{ group: 'networking.k8s.io', kind: 'networkpolicy', name: 'closed' }],
};

interface Row {
  readonly name: string;
  readonly before: string;
  readonly change: (stage: Stage) => void;
  readonly outcome: string;
  readonly told: readonly string[];
}

const rows: readonly Row[] = [
  { name: 'nothing has changed', before: everybody, change: () => {}, outcome: 'admitted', told: [] },
  {
    name: 'the same documents once more',
    before: everybody,
    change: ({ policies }) => policies.swap(indexOf(everybody)),
    outcome: 'admitted',
    told: [],
  },
  {
    name: 'nobody is let in any more',
    before: everybody,
    change: ({ policies }) => policies.swap(indexOf(nobody)),
    outcome: 'refused 403',
    told: ['deny', 'no authorization of ', 'refused 403'],
  },
  {
    name: 'there is no Server any more',
    before: everybody,
    change: ({ policies }) => policies.swap(indexOf('')),
    outcome: 'refused 403',
    told: ['deny', 'no authorization of ', 'refused 403'],
  },
  {
    name: 'there and back',
    before: everybody,
    change: ({ policies }) => {
      policies.swap(indexOf(nobody));
      policies.swap(indexOf(everybody));
    },
    outcome: 'admitted',
    told: [],
  },
  {
    name: 'a NetworkPolicy no longer lets its connection in',
    before: everybody,
    change: (stage) => {
      stage.admission = closed;
      stage.policies.swap(indexOf(everybody));
    },
    outcome: 'refused 403',
    told: ['deny', 'no NetworkPolicy sel', 'refused 403'],
  },
  {
    name: 'nobody vouches for its client any more, without another policy',
    before: everybody,
    change: (stage) => {
      stage.isVouchedFor = false;
    },
    outcome: 'refused 403',
    told: ['deny', 'nobody vouches for t', 'refused 403'],
  },
  {
    name: 'a rate limit comes, which it is within',
    before: everybody,
    change: ({ policies }) => policies.swap(indexOf(limited(1))),
    outcome: 'admitted',
    told: [],
  },
  {
    name: 'a rate limit comes, which others have used up',
    before: everybody,
    change: (stage) => {
      stage.policies.swap(indexOf(limited(1)));
      stage.ask();
    },
    outcome: 'refused 429',
    told: ['rate-limited', 'policy.linkerd.io/HT', 'refused 429'],
  },
  {
    name: 'a rate limit with other numbers, which others have used up',
    before: limited(2),
    change: (stage) => {
      stage.policies.swap(indexOf(limited(1)));
      stage.ask();
    },
    outcome: 'refused 429',
    told: ['rate-limited', 'policy.linkerd.io/HT', 'refused 429'],
  },
  {
    name: 'the same rate limit, of which it has the last token',
    before: limited(1),
    change: ({ policies }) => policies.swap(indexOf(limited(1))),
    outcome: 'admitted',
    told: [],
  },
];

t.test('what becomes of a request that has waited', async (t) => {
  for (const { name, before, change, outcome, told } of rows) {
    const world = stage(t, before);
    const admitted = world.ask();
    change(world);
    const late = world.pipeline.admitLate(world.connection, request, admitted);
    t.equal(outcomeOf(late), outcome, name);
    t.same(world.told, told, `${name}: what is recorded`);
    if (late.kind === 'refused') continue;
    t.equal(late === admitted, name === 'nothing has changed', `${name}: nothing is made where nothing has changed`);
    t.ok(late.isCurrent, name);
    t.equal(late.scope, admitted.scope, `${name}: it is counted once`);
  }
});

t.test('a limit is spent once, however often it is asked about', async (t) => {
  const world = stage(t, limited(2));
  const admitted = world.ask();
  let late: AdmittedNow | Refused = admitted;
  for (let round = 0; round < 5 && late.kind === 'admitted'; round++) {
    world.policies.swap(indexOf(limited(2)));
    late = world.pipeline.admitLate(world.connection, request, late);
  }
  t.equal(late.kind, 'admitted');
  world.ask();
  t.throws(() => world.ask(), 'the two tokens are two requests');
});

t.test('what was decided before is no evidence any more', async (t) => {
  const world = stage(t, everybody);
  const admitted = world.ask();
  mustBeCurrent(admitted);
  world.policies.swap(indexOf(everybody));
  t.throws(() => mustBeCurrent(admitted), 'whatever the other policy says of it');
  mustBeCurrent(world.ask());
});
