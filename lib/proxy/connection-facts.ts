import type { Client } from '../client.ts';

/**
 * One accepted connection, and whose it is: what is decided on, and what records say of it. Made
 * once per connection, and again when TLS has verified who the client is.
 */
export interface ConnectionFacts {
  readonly client: Client;
  readonly clientPort: number;
  /** Where the client meant to connect: the original destination, or the listener's own address. */
  readonly targetIp: string;
  readonly targetPort: number;
}
