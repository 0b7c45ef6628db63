import type { PortPolicy, RequestPermit } from '../../policy/decision.ts';
import type { RequestScope } from '../recorder.ts';
import type { AdmittedRequest } from '../upstream/permission.ts';
import type { Refusal } from './refuse.ts';

/**
 * A request that is to go on to the app: permitted by policy, within the bound on requests in flight, and counted in. Only
 * `RequestPipeline` makes one, and whatever forwards, or dials for it, asks for it. Nothing of it is sent by this alone.
 */
export interface Admitted extends AdmittedRequest {
  readonly kind: 'admitted';
  readonly policy: PortPolicy;
  readonly permit: RequestPermit;
  /** Counted in already; the lane that forwards says when the response has ended. */
  readonly scope: RequestScope;
  /** No other policy has come into force since it was decided. */
  readonly isCurrent: boolean;
}

declare const now: unique symbol;

/**
 * Evidence that the policy in force lets the request be sent, without which nothing writes it to the app: what writes it asks for
 * this. It holds for the turn in which `RequestPipeline.admit` or `admitLate` has returned it, and so no longer than it
 * takes to write. Whatever waits first, for a connect, room, content or a turn, keeps the request as `Admitted` alone and asks
 * `admitLate` when its wait is over.
 */
export interface AdmittedNow extends Admitted {
  readonly [now]: true;
}

/** The last look at a request, where its first bytes are written: a fault of ours sends nothing. */
export function mustBeCurrent({ isCurrent }: AdmittedNow): void {
  if (!isCurrent) throw new Error('a request was about to be sent by a policy that is no longer in force');
}

/** Not to be forwarded; recorded already, the response is all that is left to do. */
export interface Refused {
  readonly kind: 'refused';
  readonly policy: PortPolicy;
  readonly refusal: Refusal;
}
