import type { FastRequest } from './request.ts';

/** What a connection is about. */
export type ConnectionState =
  /** Nothing has come since the last request. */
  | { readonly kind: 'idle' }
  /** Some of a head has come. */
  | { readonly kind: 'head' }
  /** The request that is being answered. */
  | FastRequest
  /** No request will be read any more. */
  | { readonly kind: 'over' };

export const idle: ConnectionState = { kind: 'idle' };
export const inHead: ConnectionState = { kind: 'head' };
export const over: ConnectionState = { kind: 'over' };
