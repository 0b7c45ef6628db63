import type { Client } from '../client.ts';
import { closedBody } from './compile/defaults.ts';
import type { BucketStore } from './decide/buckets.ts';
import { decideConnection, decideProbes, decideRequest } from './decide/decide.ts';
import { notIsolated } from './decide/network-policy.ts';
import type { CompiledPort, PolicyIndex } from './decide/policy-index.ts';
import { RateLimiter } from './decide/rate-limit.ts';
import { connectionReasons, requestReasons } from './decide/reasons.ts';
import { SharedPort } from './decide/shared-port.ts';
import type { Authorizer, PortPolicy, RequestDecision, RequestFacts } from './decision.ts';

export interface PolicyAuthorizer extends Authorizer {
  /** Puts another index in force, at once and for every later question. */
  swap(index: PolicyIndex): void;
}

/** Linkerd's timeout for HTTP detection. */
const detectTimeoutMs = 10_000;

/** What is in force before the first good load. One object per port, so that a policy compares equal to itself. */
class ClosedIndex implements PolicyIndex {
  readonly servers: readonly CompiledPort[] = [];
  readonly isolation = notIsolated;
  readonly #ports = new Map<number, CompiledPort>();
  readonly #body = closedBody(detectTimeoutMs);

  port(port: number): CompiledPort {
    let closed = this.#ports.get(port);
    if (closed === undefined) {
      closed = new SharedPort(port, this.#body);
      if (port >= 1 && port <= 65535) this.#ports.set(port, closed);
    }
    return closed;
  }
}

/** Holds the one mutable reference of policy: to the index in force. Until the first swap nothing is authorized. */
export function createAuthorizer(options: {
  readonly nowMs: () => number;
  /** Of rate limits, where several threads keep them together; left out by one that decides alone. */
  readonly buckets?: BucketStore | undefined;
}): PolicyAuthorizer {
  const limiter = new RateLimiter(options.nowMs, options.buckets);
  const listeners = new Set<() => void>();
  let index: PolicyIndex = new ClosedIndex();
  let generation = 0;
  return {
    get generation() {
      return generation;
    },
    admits: (port, ip) => index.isolation.admits(port, ip),
    admissionReasons: (port, ip) => index.isolation.reasons(port, ip),
    port: (port) => index.port(port),
    // Each asks the index for the port again: the policy that the caller holds may be yesterday's.
    connection: ({ port }: PortPolicy, client: Client) => decideConnection(index.port(port), client),
    probes: ({ port }: PortPolicy, client: Client) => decideProbes(index.port(port), client),
    request: ({ port }: PortPolicy, client: Client, request: RequestFacts, letInBy?: PortPolicy) =>
      decideRequest(index.port(port), client, request, limiter, letInBy?.rateLimit?.key ?? null),
    requestAgain: ({ port }: PortPolicy, client: Client, request: RequestFacts) =>
      decideRequest(index.port(port), client, request, null),
    connectionReasons: ({ port }: PortPolicy, client: Client) => connectionReasons(index.port(port), client),
    requestReasons: ({ port }: PortPolicy, client: Client, request: RequestFacts, decision: RequestDecision) =>
      requestReasons(index.port(port), client, request, decision),
    onChange(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    swap(next) {
      index = next;
      generation += 1;
      limiter.retain(next.servers.flatMap(({ rateLimit }) => (rateLimit === null ? [] : [rateLimit])));
      for (const listener of [...listeners]) listener();
    },
  };
}

/**
 * One that holds this index and never another.
 *
 * @param nowMs the time for rate limits; left out, it stands still, so that a limit sees one instant however long it takes.
 */
export function authorizerOf(index: PolicyIndex, nowMs = (): number => 0): Authorizer {
  const authorizer = createAuthorizer({ nowMs });
  authorizer.swap(index);
  return authorizer;
}
