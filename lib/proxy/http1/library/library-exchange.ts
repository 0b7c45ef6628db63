import type { Readable } from 'node:stream';
import type { HeaderList } from '../../../request-fields.ts';
import type { Admitted } from '../../http/admitted.ts';
import type { Exchange } from '../../http/exchange.ts';

/** An exchange on one of Node's own servers. */
export interface LibraryExchange extends Exchange {
  /** Null when the message has no body. */
  readonly body: Readable | null;
  /** End-to-end headers for the app, hop-by-hop and identity headers already dealt with. Host included, where there is one. */
  readonly forwardHeaders: HeaderList;
  /** It came with a Connection field. */
  readonly saysConnection: boolean;
  /** Null until it is permitted. */
  admitted: Admitted | null;
  /** Called once when the request is permitted and about to be forwarded. */
  readonly onPermitted: (() => void) | null;
  /** A 1xx. */
  informational(status: number, headers: HeaderList): void;
}
