import type { LostBy } from '../../http/retry.ts';
import type { Http2ResponseHead } from '../message/response-head.ts';
import type { Trailers } from '../message/trailers.ts';
import type { HeldBytes } from '../session/held-bytes.ts';

/** How an exchange with the app ends before its time. */
export type ExchangeLoss =
  /** There is no way to the app, none for this request, or its HTTP/1 connection has failed. */
  | { readonly kind: 'connection'; readonly by: LostBy; readonly error: Error }
  /** RST_STREAM of an HTTP/2 app, or what stands for it (RFC 9113 5.4.2, 6.8). */
  | { readonly kind: 'reset'; readonly code: number }
  /** Content of the request has waited too long for the app to read what is before it. */
  | { readonly kind: 'unread' }
  /** A fault of ours. */
  | { readonly kind: 'fault' };

/** Who sends a request and gets its response, in HTTP/2's terms whatever the app speaks. Bytes are only lent. */
export interface Http2ResponseSink {
  /** A 1xx. */
  interim(head: Http2ResponseHead): void;
  /** `endStream`: there is no content, and `ended` follows. */
  head(head: Http2ResponseHead, endStream: boolean): void;
  /** False: they wait for the client, and the exchange's `consume` says when they have left. */
  data(bytes: Buffer, from: number, to: number): boolean;
  /** The response is complete. */
  ended(trailers: Trailers): void;
  /** Once, instead of `ended`. */
  lost(loss: ExchangeLoss): void;
  /** So many bytes of the request's content have left. */
  taken(bytes: number): void;
  /** So many bytes of it wait for the app. */
  holds(bytes: number): void;
  /** The client's connection. */
  readonly owner: object;
  /** Ends that. */
  destroy(): void;
}

/** A request that has left for the app, and its response: a stream, or a connection of HTTP/1. */
export interface AppExchange {
  /**
   * Content that came before there was an exchange. Called first, and only where not all of the request left at once.
   *
   * @param end trailers of a request that is complete; null while it is not.
   */
  takeOver(early: HeldBytes | null, end: Trailers | null): void;
  /** Content, which is only lent. `isLast`: `contentEnded` follows. */
  content(bytes: Buffer, from: number, to: number, isLast: boolean): void;
  contentEnded(trailers: Trailers): void;
  /** So many bytes of the response that had to wait have left. */
  consume(bytes: number): void;
  /** Nobody waits for the response any more. */
  abandon(): void;
}
