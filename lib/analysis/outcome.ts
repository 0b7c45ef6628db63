import type { RateLimit } from '../policy/decide/policy-index.ts';
import type { Authorizer, RequestDecision } from '../policy/decision.ts';
import { type ExplainJson, type ExplainQuery, explain } from '../policy/explain.ts';
import type { ResourceRef } from '../resource-ref.ts';
import { refText } from '../resource-ref.ts';

/** What becomes of a question, as far as clients and apps can tell, and whom it is credited to. */
export interface Answered {
  readonly verdict: RequestDecision['kind'];
  readonly tcp: ExplainJson['tcp'];
  readonly audit: boolean;
  /** Null where nothing lets it in. */
  readonly authz: ResourceRef | null;
  /** Redirect, changed headers, rate limit: empty for none. */
  readonly effects: readonly string[];
  /** As `explain` has it. */
  readonly status: string;
  /** NetworkPolicies that close the port. */
  readonly closedBy: readonly ResourceRef[];
}

/** Asks the deciding function itself, without reasons; one clock tick a question, so that no rate limit is ever used up. */
export class Judge {
  readonly #authorizer: Authorizer;
  #decision: RequestDecision | null = null;
  asked = 0;

  constructor(authorizer: Authorizer) {
    const nothing = { reason: '', candidates: [] };
    this.#authorizer = Object.create(authorizer, {
      requestReasons: { value: () => nothing },
      connectionReasons: { value: () => nothing },
      admissionReasons: { value: () => nothing },
      request: {
        value: (...facts: Parameters<Authorizer['request']>) => {
          this.#decision = authorizer.request(...facts);
          return this.#decision;
        },
      },
    });
  }

  outcome(query: ExplainQuery, limit: string | null): Answered {
    this.#decision = null;
    this.asked += 1;
    const { verdict, tcp, audit, authz, httpStatus, networkPolicies } = explain(this.#authorizer, query);
    const effects: string[] = [];
    const decision = this.#decision as RequestDecision | null;
    if (decision?.kind === 'permit') {
      if (decision.headerChanges !== null) effects.push(`headers ${JSON.stringify(decision.headerChanges)}`);
      if (limit !== null) effects.push(limit);
    }
    if (decision?.kind === 'redirect') effects.push(`redirect ${decision.status} ${decision.location}`);
    const status = tcp ?? (httpStatus === null ? 'forward' : `HTTP ${query.protocol === 'grpc' ? 200 : httpStatus}`);
    return { verdict, tcp, audit, authz, effects, status, closedBy: networkPolicies };
  }
}

/** Equal where client and app can see no difference and the same authorization is credited. */
export function outcomeKey({ verdict, tcp, audit, authz, effects, status }: Answered): string {
  const by = verdict === 'permit' || verdict === 'redirect' ? (authz === null ? '' : refText(authz)) : '';
  return JSON.stringify([verdict, tcp, audit, by, effects, verdict === 'permit' ? '' : statusClass(status)]);
}

/** HTTP and gRPC say the same thing by other numbers; verdicts tell them apart. */
function statusClass(status: string): string {
  return status === 'close' ? 'close' : '';
}

/** The limit that a client with this identity meets; null for none. */
export function limitText(limit: RateLimit | null, identity: string | null): string | null {
  if (limit === null) return null;
  const override = identity === null ? undefined : limit.overrides.get(identity);
  const own = override === undefined ? limit.identity : override.rate;
  const parts: string[] = [];
  if (limit.total !== null) parts.push(`${limit.total}/s in all`);
  if (own !== null) parts.push(`${own}/s ${override === undefined ? 'each' : overrideText(limit, override.entry)}`);
  return parts.length === 0 ? null : `limit ${parts.join(', ')}`;
}

const overrideTexts = new WeakMap<RateLimit, Map<number, string>>();

/** Who has an override together shares what it allows, and one more of them is a narrower limit. */
function overrideText(limit: RateLimit, entry: number): string {
  let texts = overrideTexts.get(limit);
  if (texts === undefined) {
    texts = new Map();
    overrideTexts.set(limit, texts);
  }
  let text = texts.get(entry);
  if (text === undefined) {
    const together = [...limit.overrides].flatMap(([name, override]) => (override.entry === entry ? [name] : []));
    text = together.length === 1 ? 'by override' : `by override, ${together.sort().join(' and ')} together`;
    texts.set(entry, text);
  }
  return text;
}
