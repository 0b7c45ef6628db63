import type { ResponseHead } from './plain-response.ts';

/** What becomes of a connection that leaves HTTP. */
export interface AppTunnel {
  /** The tunnel reads the app's connection itself, and alone knows when there is room (`LentReads`). */
  readonly isLent: boolean;
  /** Bytes from the app, which are only lent; of a tunnel that does not read them itself. */
  receive(bytes: Buffer): void;
}

/**
 * The app has agreed to leave HTTP.
 *
 * @param rest what it has sent behind that; it is only lent.
 */
export type Switch = (head: ResponseHead, rest: Buffer) => AppTunnel;
