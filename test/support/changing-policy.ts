import { createAuthorizer, type PolicyAuthorizer } from '../../lib/policy/authorizer.ts';
import { compileNow } from '../../lib/policy/compile/compile.ts';
import type { PolicyIndex } from '../../lib/policy/decide/policy-index.ts';
import type { Admission, Authorizer } from '../../lib/policy/decision.ts';
import { readDocuments } from '../../lib/policy/documents/read.ts';
import type { Teardown } from './children.ts';
import { type Engine, type Lane, type LaneOptions, startLane } from './lanes.ts';
import { sources, workload } from './policy-fixtures.ts';

function indexOf(documents: string): PolicyIndex {
  const read = readDocuments(sources(documents), { namespace: 'shop' });
  return compileNow(read.documents, workload({ authorizeLocalhost: false })).index;
}

export interface PolicyChange {
  readonly engine: Engine;
  /** What clients speak; of documents the Server's protocol. */
  readonly protocol: 'HTTP/1' | 'HTTP/2' | 'opaque' | 'gRPC';
  readonly first: string;
  readonly second: string;
  /** By the second no NetworkPolicy lets connections in. */
  readonly closes: boolean;
}

/** What there is in a test of a change, once its app is known. */
export interface World {
  readonly lane: Lane;
  readonly change: () => void;
  /** The change comes as soon as `/late` has been decided, or a tunnel, before anything else can happen. */
  readonly changeOnceDecided: () => void;
  readonly isDecided: () => boolean;
}

/** A proxy before an app, by the first policy, and the way to the second. `PROTOCOL` in them is the protocol. */
export async function changingWorld(
  t: Teardown,
  { engine, protocol, first, second, closes }: PolicyChange,
  app: number,
  options: Partial<LaneOptions> = {},
): Promise<World> {
  const text = (documents: string): string => documents.replaceAll('PROTOCOL', protocol);
  const policies: PolicyAuthorizer = createAuthorizer({ nowMs: () => 0 });
  policies.swap(indexOf(text(first)));
  const next = indexOf(text(second));
  // NetworkPolicies hold nobody on the loopback, from where tests call.
  const admits = (): Admission =>
    closes && policies.generation > 1
      ? { kind: 'refused', policies: [{ group: 'networking.k8s.io', kind: 'networkpolicy', name: 'closed' }] }
      : { kind: 'admitted' };
  const authorizer: Authorizer = Object.create(policies, { admits: { value: admits } });
  let isDecided = false;
  let isArmed = false;
  const swap = (): void => policies.swap(next);
  const decided = (): void => {
    isDecided = true;
    if (isArmed) process.nextTick(swap);
    isArmed = false;
  };
  const lane = await startLane(t, {
    engine,
    app,
    authorizer,
    protocol: protocol === 'HTTP/2' || protocol === 'gRPC' ? 'http2' : 'http1',
    onDecided: (request) => {
      if (request.endsWith('/late')) decided();
    },
    onTunnel: decided,
    ...options,
  });
  return {
    lane,
    change: swap,
    isDecided: () => isDecided,
    changeOnceDecided: () => {
      isArmed = true;
    },
  };
}
