import { hostPort } from '../../ip.ts';

/** Where the app listens. */
export interface Endpoint {
  readonly host: string;
  readonly port: number;
  /** Nobody declared the port: where a name leads to loopback, what listens there is left alone. */
  readonly notLoopback?: true;
}

/** So many are kept, used or not: an app has a few addresses, though a port scan through the redirect asks for 65,535. */
const mostUnused = 64;
/** Beyond that so many are looked at for each new one, so that those that nobody uses go faster than others come. */
const lookedAt = 4;

/** One of something for each address of the app, made when it is first asked for. */
export class ByEndpoint<T> {
  readonly #made = new Map<string, T>();
  readonly #make: (endpoint: Endpoint) => T;
  readonly #letGo: (one: T) => boolean;
  /** Goes round and round; what is added meanwhile is met too. */
  #round: Iterator<[string, T]> = this.#made.entries();
  /** Most requests go where the last one went: no text need be made of it. */
  #last: { readonly endpoint: Endpoint; readonly made: T } | null = null;

  /** @param letGo ends one that nothing uses; false where something does. */
  constructor(make: (endpoint: Endpoint) => T, letGo: (one: T) => boolean = () => false) {
    this.#make = make;
    this.#letGo = letGo;
  }

  at(endpoint: Endpoint): T {
    if (this.#last !== null && this.#last.endpoint === endpoint) return this.#last.made;
    const key = `${hostPort(endpoint.host, endpoint.port)}${endpoint.notLoopback === true ? ' not loopback' : ''}`;
    let one = this.#made.get(key);
    if (one === undefined) {
      if (this.#made.size >= mostUnused) this.#letSomeGo();
      one = this.#make(endpoint);
      this.#made.set(key, one);
    }
    this.#last = { endpoint, made: one };
    return one;
  }

  #letSomeGo(): void {
    for (let i = 0; i < lookedAt; i++) {
      const next = this.#round.next();
      if (next.done) {
        this.#round = this.#made.entries();
        return;
      }
      const [key, one] = next.value;
      if (this.#letGo(one)) this.#made.delete(key);
    }
  }

  values(): Iterable<T> {
    return this.#made.values();
  }
}
