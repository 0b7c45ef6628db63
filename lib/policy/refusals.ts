import type { RequestDecision } from './decision.ts';

/** What goes over the wire in place of the application's response. */
export interface RefusalCodes {
  /** For requests that are not gRPC. */
  readonly http: number;
  /** `grpc-status`, sent with HTTP 200. */
  readonly grpc: number;
  /** Whether the connection ends with it. */
  readonly close: boolean;
}

/** The one table from verdicts to responses; a permit has none. A redirect's HTTP status is the route's own. */
export const refusals = {
  deny: { http: 403, grpc: 7, close: false },
  'no-route': { http: 404, grpc: 5, close: false },
  'rate-limited': { http: 429, grpc: 8, close: false },
  invalid: { http: 400, grpc: 3, close: true },
  redirect: { http: 302, grpc: 5, close: false },
  /** `replacePrefixMatch` on a match that is no prefix. */
  'redirect-failed': { http: 500, grpc: 13, close: true },
} as const satisfies Record<string, RefusalCodes>;

/** The response to a decision; null for a permit. */
export function refusalOf(decision: RequestDecision): RefusalCodes | null {
  switch (decision.kind) {
    case 'permit':
      return null;
    case 'redirect':
      if (decision.location === null) return refusals['redirect-failed'];
      return { ...refusals.redirect, http: decision.status };
    default:
      return refusals[decision.kind];
  }
}
