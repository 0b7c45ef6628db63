import { type IpAddress, parseIp } from '../../ip.ts';

/** Milliseconds until an address that was found is looked for again, and one that was not. */
const foundMs = 2000;
const missedMs = 200;

/** The addresses of this machine, as they are: one that has gone may be somebody else's by now. */
export class LocalAddresses {
  readonly #read: () => readonly string[] | null;
  readonly #now: () => number;
  #texts: ReadonlySet<string> = new Set();
  #readAt = Number.NEGATIVE_INFINITY;

  /**
   * @param read takes some tens of microseconds, so that no client can make us do it for each connection; null where nobody
   *   can tell, and then no address is one of this machine.
   */
  constructor(read: () => readonly string[] | null, now = () => performance.now()) {
    this.#read = read;
    this.#now = now;
  }

  has(ip: IpAddress): boolean {
    const now = this.#now();
    if (now - this.#readAt >= (this.#texts.has(ip.text) ? foundMs : missedMs)) {
      this.#texts = new Set((this.#read() ?? []).flatMap((text) => parseIp(text)?.text ?? []));
      this.#readAt = now;
    }
    return this.#texts.has(ip.text);
  }
}
