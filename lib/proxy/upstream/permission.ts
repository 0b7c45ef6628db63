import type { ConnectionPermit } from '../../policy/decision.ts';

declare const permitted: unique symbol;

/** What an admitted request is to those who do not know requests. See `Admitted` (lib/proxy/http/admitted.ts). */
export interface AdmittedRequest {
  readonly [permitted]: true;
}

/**
 * Evidence that policy has let something in, without which nothing dials the app. The symbols of both are nobody's to
 * name, so that only who decides can make one: the policy core for connections, the request pipeline for requests.
 */
export type Permission = ConnectionPermit | AdmittedRequest;
