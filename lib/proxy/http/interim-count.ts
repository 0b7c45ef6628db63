/** Interim responses (1xx) that an app may send before the final one, and their bytes. */
const maxInterim = 100;
const maxInterimBytes = 64 * 1024;

/**
 * Counts the interim responses to one request. They are no content, so that no window holds them back: an app that sends
 * them without end would fill the memory of a proxy that passes them on.
 */
export class InterimCount {
  #left = maxInterim;
  #bytesLeft = maxInterimBytes;

  /** False for one too many: the response as a whole is none. */
  allows(bytes: number): boolean {
    this.#left--;
    this.#bytesLeft -= bytes;
    return this.#left >= 0 && this.#bytesLeft >= 0;
  }
}
