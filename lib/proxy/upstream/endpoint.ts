import { hostPort } from '../../ip.ts';

/** Where the app listens. */
export interface Endpoint {
  readonly host: string;
  readonly port: number;
  /** Nobody declared the port: where a name leads to loopback, what listens there is left alone. */
  readonly notLoopback?: true;
}

/** One of something for each address of the app, made when it is first asked for. */
export class ByEndpoint<T> {
  readonly #made = new Map<string, T>();
  readonly #make: (endpoint: Endpoint) => T;
  /** Most requests go where the last one went: no text need be made of it. */
  #last: { readonly endpoint: Endpoint; readonly made: T } | null = null;

  constructor(make: (endpoint: Endpoint) => T) {
    this.#make = make;
  }

  at(endpoint: Endpoint): T {
    if (this.#last !== null && this.#last.endpoint === endpoint) return this.#last.made;
    const key = `${hostPort(endpoint.host, endpoint.port)}${endpoint.notLoopback === true ? ' not loopback' : ''}`;
    let one = this.#made.get(key);
    if (one === undefined) {
      one = this.#make(endpoint);
      this.#made.set(key, one);
    }
    this.#last = { endpoint, made: one };
    return one;
  }

  values(): Iterable<T> {
    return this.#made.values();
  }
}
