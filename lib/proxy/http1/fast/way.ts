import type { PendingConnect } from '../../upstream/upstreams.ts';
import type { AppConnection } from '../app-connection.ts';

/** Which way the request has gone. */
export type Way =
  /** To nobody: it is not admitted, or not any more on its way. */
  { readonly kind: 'none' } | { readonly kind: 'connecting'; readonly pending: PendingConnect } | AppConnection;

export const noWay: Way = { kind: 'none' };
