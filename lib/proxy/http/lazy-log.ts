import type { Authorizer, PortPolicy, RequestDecision } from '../../policy/decision.ts';
import type { ConnectionFacts } from '../connection-facts.ts';
import type { RequestLog } from '../recorder.ts';
import type { Request } from './exchange.ts';

/** Reasons cost a second walk through the policy, so they are computed only when a line is written. */
export class LazyLog implements RequestLog {
  readonly #authorizer: Authorizer;
  readonly #policy: PortPolicy;
  readonly #connection: { readonly facts: ConnectionFacts };
  readonly #request: Request;
  readonly #decision: RequestDecision | null;
  /** Why it was refused, where that follows from no document that decides requests. */
  readonly #lapse: string | null;

  constructor(
    authorizer: Authorizer,
    policy: PortPolicy,
    connection: { readonly facts: ConnectionFacts },
    request: Request,
    decision: RequestDecision | null,
    lapse: string | null = null,
  ) {
    this.#authorizer = authorizer;
    this.#policy = policy;
    this.#connection = connection;
    this.#request = request;
    this.#decision = decision;
    this.#lapse = lapse;
  }

  get method(): string {
    return this.#request.method;
  }
  get path(): string {
    return this.#request.path;
  }
  get host(): string {
    return this.#request.host;
  }
  get version(): string {
    return this.#request.version;
  }
  get facts(): Request {
    return this.#request;
  }
  reasons(): ReturnType<RequestLog['reasons']> {
    if (this.#decision === null || this.#lapse !== null) return { reason: this.#lapse ?? '', candidates: [] };
    const { client } = this.#connection.facts;
    return this.#authorizer.requestReasons(this.#policy, client, this.#request, this.#decision);
  }
}
