import type { Admitted } from '../../http/admitted.ts';
import type { PendingConnect } from '../../upstream/upstreams.ts';
import type { AppConnection } from '../app-connection.ts';

/** Which way the request has gone. */
export type Way =
  /** To nobody: it is not admitted, or not any more on its way. */
  | { readonly kind: 'none' }
  /** To nobody yet: its client has been told to send its content (`Expect: 100-continue`), and the app gets both together. */
  | { readonly kind: 'awaits-content'; readonly admitted: Admitted }
  | { readonly kind: 'connecting'; readonly pending: PendingConnect; readonly contentBytes: number }
  | AppConnection;

export const noWay: Way = { kind: 'none' };

/** Bytes of the request that wait for the app. */
export function heldOn(way: Way): number {
  if (way.kind === 'app') return way.socket.writableLength;
  return way.kind === 'connecting' ? way.contentBytes : 0;
}
