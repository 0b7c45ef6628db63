import { type CaseSets, readCases } from './cases.ts';
import type { CaseClient, CasePod, CaseRequest, CaseSettings, PolicyDocument } from './policy-cases.ts';

/** What the real linkerd2-proxy did with one connection or request. */
export interface RecordedCheck {
  readonly id: string;
  readonly client: CaseClient;
  /** `dst_ip`: sent to this address in place of the pod's. */
  readonly request: CaseRequest & { readonly dst_ip?: string };
  readonly linkerd: {
    readonly outcome: string;
    readonly counters: readonly { readonly metric: string; readonly labels: Readonly<Record<string, string>> }[];
  };
}

/** A state of the documents, and what was tried under it. */
export interface RecordedWorld {
  readonly id: string;
  readonly title?: string;
  readonly settings: Omit<CaseSettings, 'detectTimeout'>;
  readonly pod: CasePod;
  readonly resources: readonly PolicyDocument[];
  /** `Kind/name` of those that the API server or the webhook refused. */
  readonly refused: readonly { readonly doc: string; readonly by: string; readonly why: string }[];
  readonly checks: readonly RecordedCheck[];
}

/** A document that the API server or the webhook refuses, and why. */
export interface AdmissionGap {
  readonly what: string;
  readonly refusal: string;
  readonly document: PolicyDocument;
}

/** What a check says of the decision, in words that an explanation of ours can be held against. */
export interface RecordedDecision {
  readonly verdict: 'permit' | 'deny' | 'no-route' | 'redirect' | 'redirect-failed' | 'invalid' | 'closed';
  readonly wire: 'http' | 'tcp';
  /** As `group/kind/name`; null where none applies. */
  readonly server: string | null;
  readonly route: string | null;
  readonly authz: string | null;
}

export function readRecordedWorlds(): CaseSets<readonly RecordedWorld[]> {
  return readCases('linkerd-decisions.yaml', 'linkerd-recorded.jsonl');
}

export function readAdmissionGaps(): CaseSets<readonly AdmissionGap[]> {
  return readCases('admission-gaps.yaml', 'admission-gaps.jsonl');
}

/**
 * The decision behind a recorded outcome. Where the recording client's own TLS failed, the counter still says what the
 * proxy decided. A check that was neither counted nor answered was closed before any decision.
 */
export function recordedDecision(check: RecordedCheck): RecordedDecision {
  const { outcome, counters } = check.linkerd;
  const [counted] = counters;
  if (counted === undefined) {
    const verdict = outcome === 'closed' ? 'closed' : 'invalid';
    return { verdict, wire: verdict === 'closed' ? 'tcp' : 'http', server: null, route: null, authz: null };
  }
  const { metric, labels } = counted;
  const named = (prefix: string): string | null =>
    labels[`${prefix}_name`] === undefined
      ? null
      : `${labels[`${prefix}_group`]}/${labels[`${prefix}_kind`]}/${labels[`${prefix}_name`]}`;
  return {
    verdict: verdictOf(check, metric),
    wire: metric.startsWith('inbound_tcp_') ? 'tcp' : 'http',
    server: named('srv'),
    route: named('route'),
    authz: named('authz'),
  };
}

function verdictOf({ linkerd, request }: RecordedCheck, metric: string): RecordedDecision['verdict'] {
  if (metric.endsWith('_deny_total')) return 'deny';
  if (metric.endsWith('_not_found_total')) return 'no-route';
  if (/^http 30\d$/.test(linkerd.outcome)) return 'redirect';
  // Linkerd counts a redirect that cannot be made as allowed. The recording app answers 500 to methods that it does not know.
  if (linkerd.outcome === 'http 500' && request.method === 'GET') return 'redirect-failed';
  return 'permit';
}

/** Where we decide otherwise on purpose. */
export interface KnownDifference {
  /** Words of the row in the README's table of differences. */
  readonly row: string;
  is(check: RecordedCheck, ours: { readonly verdict: string; readonly reason: string }): boolean;
}

export const knownDifferences: readonly KnownDifference[] = [
  {
    row: 'on a port of unknown protocol with routes or a rate limit nothing but HTTP goes on',
    is: ({ request }, { verdict }) => request.proto === 'tcp' && verdict === 'deny',
  },
  {
    row: 'a path that servers could read in several ways',
    is: ({ request }, { verdict }) => verdict === 'invalid' && /%|\/\//.test(request.path ?? ''),
  },
  {
    row: 'a regular expression matches the whole value',
    is: ({ id }) => id === 'regex.2' || id === 'regex.8',
  },
  {
    row: 'user information, or a port that is no number, in Host or `:authority`',
    is: ({ request }, { verdict }) => verdict === 'invalid' && /@| |:[^:]*[^0-9:\]]$|:.*:/.test(request.host ?? ''),
  },
  {
    row: 'a target that is neither a path nor an `http` URL',
    is: ({ request }, { verdict }) => verdict === 'invalid' && !(request.path ?? '/').startsWith('/'),
  },
  {
    row: 'a known method in another case',
    is: ({ request }, { verdict }) => verdict === 'invalid' && ['get', 'Get'].includes(request.method ?? ''),
  },
  {
    row: "white space around an HTTP/2 field's value",
    is: ({ request }, { verdict }) =>
      verdict === 'invalid' && request.proto !== 'http/1.1' && (request.headers ?? []).some(([, v]) => v !== v.trim()),
  },
  {
    row: '`PRI` over HTTP/1',
    is: ({ request }, { verdict }) => verdict === 'invalid' && request.method === 'PRI',
  },
  {
    row: 'a fragment in a target',
    is: ({ request }) => (request.path ?? '').includes('#'),
  },
];
