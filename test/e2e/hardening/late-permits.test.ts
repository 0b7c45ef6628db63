import t, { type Test } from 'tap';
import { createAuthorizer, type PolicyAuthorizer } from '../../../lib/policy/authorizer.ts';
import { compileNow } from '../../../lib/policy/compile/compile.ts';
import type { PolicyIndex } from '../../../lib/policy/decide/policy-index.ts';
import type { Admission, Authorizer } from '../../../lib/policy/decision.ts';
import { readDocuments } from '../../../lib/policy/documents/read.ts';
import { type LaneOptions, startLane } from '../../support/lanes.ts';
import { http1Waits, type Wait, type World } from '../../support/late-requests.ts';
import { http2Waits } from '../../support/late-requests-http2.ts';
import { open, route, server, sources, workload } from '../../support/policy-fixtures.ts';
import { until } from '../../support/until.ts';

/*
 * A request is decided, and then waits: for a connect, a place, room, content, another try. The policy changes meanwhile.
 * Whatever is sent from then on is sent by the policy in force: every kind of wait, on every engine, with every kind of change.
 */

function indexOf(documents: string): PolicyIndex {
  const read = readDocuments(sources(documents), { namespace: 'shop' });
  return compileNow(read.documents, workload({ authorizeLocalhost: false })).index;
}

const others = `${route('rest', '{path: {value: /}}')}${open('rest')}`;

/** The Server's protocol stands where `PROTOCOL` does; what is asked late has a route of its own. */
function documents(late: string, more = ''): string {
  return `${server('proxyProtocol: PROTOCOL')}${route('late', '{path: {value: /late}}', late)}${others}${more}`;
}

const before = documents('', open('late'));
const set = '{set: [{name: x-by, value: the second policy}]}';

interface Change {
  readonly name: string;
  readonly documents: string;
  /** What the client gets: a status, or the end of its connection. */
  readonly outcome: string;
  /** Whether the app gets the request. */
  readonly sent: 'never' | 'once';
}

const changes: readonly Change[] = [
  { name: 'refuses it', documents: documents(''), outcome: '403', sent: 'never' },
  {
    name: 'has no route for it',
    documents: `${server('proxyProtocol: PROTOCOL')}${route('other', '{path: {value: /other}}')}${open('other')}`,
    outcome: '404',
    sent: 'never',
  },
  {
    name: 'takes no requests there',
    documents: before.replace('PROTOCOL', 'opaque'),
    outcome: '404',
    sent: 'never',
  },
  {
    name: 'leads it elsewhere',
    documents: documents(
      ', filters: [{type: RequestRedirect, requestRedirect: {hostname: elsewhere.example}}]',
      open('late'),
    ),
    outcome: '302',
    sent: 'never',
  },
  { name: 'no longer lets its connection in', documents: before, outcome: 'closed', sent: 'never' },
  {
    name: 'gives it another field',
    documents: documents(`, filters: [{type: RequestHeaderModifier, requestHeaderModifier: ${set}}]`, open('late')),
    outcome: '200',
    sent: 'once',
  },
  { name: 'says the same', documents: before, outcome: '200', sent: 'once' },
];

const waits = [...http1Waits, ...http2Waits];

/** A proxy before an app, by the first policy, and the way to the second. */
async function worldOf(
  t: Test,
  wait: Wait,
  change: Change,
  app: number,
  options: Partial<LaneOptions>,
): Promise<World> {
  const { protocol, engine } = wait;
  const text = (documents: string): string => documents.replaceAll('PROTOCOL', protocol);
  const policies: PolicyAuthorizer = createAuthorizer({ nowMs: () => 0 });
  policies.swap(indexOf(text(before)));
  const second = indexOf(text(change.documents));
  // NetworkPolicies hold nobody on the loopback, from where tests call.
  const admits = (): Admission =>
    change.outcome === 'closed' && policies.generation > 1
      ? { kind: 'refused', policies: [{ group: 'networking.k8s.io', kind: 'networkpolicy', name: 'closed' }] }
      : { kind: 'admitted' };
  const authorizer: Authorizer = Object.create(policies, { admits: { value: admits } });
  let decided = false;
  let isArmed = false;
  const swap = (): void => policies.swap(second);
  const lane = await startLane(t, {
    engine,
    app,
    authorizer,
    protocol: protocol === 'HTTP/2' ? 'http2' : 'http1',
    onDecided: (request) => {
      if (!request.endsWith('/late')) return;
      decided = true;
      if (isArmed) process.nextTick(swap);
      isArmed = false;
    },
    ...options,
  });
  return {
    lane,
    change: swap,
    isDecided: () => decided,
    changeOnceDecided: () => {
      isArmed = true;
    },
  };
}

for (const wait of waits) {
  t.test(`${wait.protocol}, ${wait.engine}: ${wait.name}`, async (t) => {
    for (const change of changes) {
      await t.test(`a policy that ${change.name}`, async (t) => {
        let world: World | null = null;
        const result = await wait.run(t, async (app, options = {}) => {
          world = await worldOf(t, wait, change, app, options);
          return world;
        });
        const isOther = change.name === 'gives it another field';
        const expected = (isOther ? wait.otherFields : undefined) ?? change;
        // An app that was asked for a tunnel declines: it says 200.
        t.equal(result.outcome, expected.outcome);
        const value = isOther ? 'the second policy' : '';
        t.same(result.sent, expected.sent === 'once' ? [value] : [], 'what the app has got');
        if (result.another !== undefined) {
          t.same(result.another, { status: '200', connections: 1 }, 'the connection serves another');
        }
        const { counts } = (world as unknown as World).lane;
        await until('the end of all', () => counts.started === counts.ended, {
          lastSeen: () => JSON.stringify(counts),
        });
      });
    }
  });
}
