import type { ExplainJson } from '../policy/explain.ts';
import { type ResourceRef, refText } from '../resource-ref.ts';
import type { Expectation } from './suite.ts';

/** One field of an expectation that the answer does not meet. */
export interface Mismatch {
  readonly field: string;
  readonly expected: string;
  readonly got: string;
}

/** What an expectation calls the absence of a resource. */
const none = 'none';

/**
 * Every field of the expectation that the answer does not meet, in the order in which lib/policy-test/README.md lists them;
 * none: it passes.
 */
export function mismatchesOf(expected: Expectation, answer: ExplainJson): readonly Mismatch[] {
  const found: Mismatch[] = [];
  const differs = (field: string, wanted: string, got: string): void =>
    void found.push({ field, expected: wanted, got });
  const { verdict, status, grpcStatus, tcp, audit, rule, failing, networkPolicy, reason } = expected;
  const isVerdict =
    verdict === 'refused' ? answer.verdict !== 'permit' : answer.verdict === (verdict ?? answer.verdict);
  if (!isVerdict) differs('verdict', String(verdict), answer.verdict);
  if (status !== undefined && status !== answer.httpStatus)
    differs(
      'status',
      String(status),
      answer.httpStatus === null ? `${none} (${answer.verdict})` : `${answer.httpStatus}`,
    );
  const plain = [
    ['grpcStatus', grpcStatus, answer.grpcStatus],
    ['tcp', tcp, answer.tcp],
    ['audit', audit, answer.audit],
    ['rule', rule, answer.rule],
  ] as const;
  for (const [name, wanted, got] of plain) {
    if (wanted !== undefined && wanted !== got) differs(name, String(wanted), String(got ?? none));
  }
  const resources = [
    ['server', expected.server, answer.server],
    ['route', expected.route, answer.route],
    ['authorization', expected.authorization, answer.authz],
  ] as const;
  for (const [name, wanted, got] of resources) {
    if (wanted !== undefined && !isNamed(wanted, got)) differs(name, wanted, got === null ? none : refText(got));
  }
  for (const [name, clause] of failing ?? []) {
    const candidate = answer.candidates.find(({ authz }) => isNamed(name, authz));
    const got = candidate === undefined ? 'not weighed' : (candidate.failed ?? 'admits');
    if (got !== clause) differs(`failing ${name}`, clause, got);
  }
  if (networkPolicy !== undefined) {
    const policies = answer.networkPolicies;
    const isMet = policies.length === 0 ? networkPolicy === none : policies.some((one) => isNamed(networkPolicy, one));
    if (!isMet) differs('networkPolicy', networkPolicy, policies.map(refText).join(', ') || none);
  }
  if (reason !== undefined && !answer.reason.includes(reason)) differs('reason', `… ${reason} …`, answer.reason);
  return found;
}

/** By its name, `KIND/NAME` or `GROUP/KIND/NAME`, as it is printed. */
function isNamed(name: string, ref: ResourceRef | null): boolean {
  if (ref === null) return name === none;
  return `/${refText(ref)}`.endsWith(`/${name}`);
}
