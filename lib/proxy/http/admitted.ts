import type { PortPolicy, RequestPermit } from '../../policy/decision.ts';
import type { RequestScope } from '../recorder.ts';
import type { AdmittedRequest } from '../upstream/permission.ts';
import type { Refusal } from './refuse.ts';

/**
 * A request that goes on to the app: permitted by policy, within the bound on requests in flight, and counted in. Only
 * `RequestPipeline.admit` makes one, and whatever forwards, or dials for it, asks for it.
 */
export interface Admitted extends AdmittedRequest {
  readonly kind: 'admitted';
  readonly policy: PortPolicy;
  readonly permit: RequestPermit;
  /** Counted in already; the lane that forwards says when the response has ended. */
  readonly scope: RequestScope;
}

/** Not to be forwarded; recorded already, the response is all that is left to do. */
export interface Refused {
  readonly kind: 'refused';
  readonly policy: PortPolicy;
  readonly refusal: Refusal;
}
