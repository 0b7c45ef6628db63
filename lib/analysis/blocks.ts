import type { IpAddress } from '../ip.ts';
import type { PolicyIndex } from '../policy/decide/policy-index.ts';
import type { Authorizer } from '../policy/decision.ts';
import type { ExplainQuery } from '../policy/explain.ts';
import type { AddressClasses } from './addresses.ts';
import type { TlsClass } from './callers.ts';
import type { ClientCell } from './clients.ts';
import type { Leaf, RequestsAsked } from './leaves.ts';
import type { Answered } from './outcome.ts';
import type { PortClass } from './ports.ts';

/** A policy that is looked at. */
export interface AskedPolicy {
  readonly index: PolicyIndex;
  /** In which `index` is in force; its clock must move on with each question, or rate limits are used up. */
  readonly authorizer: Authorizer;
}

export type AskedProtocol = NonNullable<ExplainQuery['protocol']>;

/** Questions to look at in place of all. */
export interface QuestionScope extends RequestsAsked {
  readonly ports?: readonly number[] | undefined;
  readonly ip?: IpAddress | undefined;
  /** A client without identity is given by its kind alone. */
  readonly tls?: TlsClass | undefined;
}

/** Ports × protocols × clients × requests that are decided alike, with one question of them. */
export interface QuestionBlock {
  readonly port: PortClass;
  readonly protocols: readonly AskedProtocol[];
  readonly clients: readonly ClientCell[];
  readonly addresses: AddressClasses;
  /** All that clients of these kinds are told apart by. */
  readonly tls: readonly TlsClass[];
  /** Null: no request is read, and bytes are carried or not. */
  readonly requests: readonly Leaf[] | null;
  readonly example: ExplainQuery;
  /** One for each policy. */
  readonly outcomes: readonly Answered[];
}
