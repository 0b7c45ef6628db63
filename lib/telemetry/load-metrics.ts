/** What is known of the loads of policy, identity and the pod's facts, and of what is in force. */
import type { Registry } from 'prom-client';
import { labelValue } from './labels.ts';
import { Cell, gaugeSample, registerCollected, type Sample, sample } from './series.ts';

/** What files say while we run. */
export type Followed = 'policy' | 'identity' | 'pod_facts';

export interface LoadedIdentity {
  readonly expiresAt: Date;
  readonly refreshedAt: Date;
  /** `id` tells anchors of one name apart. */
  readonly anchors?: readonly { readonly subject: string; readonly id: string; readonly notAfter: Date }[];
}

/** Anchors that have a series. */
const maxAnchors = 32;

export interface LoadMetrics {
  /** `timeSeconds`: Unix time of the load. */
  policyLoaded(generation: number, timeSeconds: number): void;
  policyLoadFailed(): void;
  /** The files are being waited for, or read, for longer than they should be. */
  policyOverdue(overdue: boolean): void;
  /** The files of the pod's facts are not what is believed of the pod. */
  podFactsRefused(refused: boolean): void;
  identityLoaded(identity: LoadedIdentity): void;
  identityLoadFailed(): void;
  /** As `policyOverdue`, of the identity's files. */
  identityOverdue(overdue: boolean): void;
  /** What is in force is not what the files hold, whatever the reason. */
  stale(what: Followed, stale: boolean): void;
}

export function loadMetrics(registry: Registry): LoadMetrics {
  return { ...policyMetrics(registry), ...identityMetrics(registry), ...staleMetrics(registry) };
}

const followed: Readonly<Record<Followed, string>> = {
  policy: 'policy',
  identity: 'certificate, key and trust anchors',
  pod_facts: "pod's labels and manifest",
};

function staleMetrics(registry: Registry): Pick<LoadMetrics, 'stale'> {
  const now = new Set<Followed>();
  for (const [what, text] of Object.entries(followed) as [Followed, string][]) {
    registerCollected(
      registry,
      {
        name: `sallyport_${what}_stale`,
        help: `1 while the ${text} in force are not what the files hold: a load was bad, or does not end.`,
        type: 'gauge',
      },
      () => [gaugeSample(Number(now.has(what)))],
    );
  }
  return {
    stale(what, stale) {
      if (stale) now.add(what);
      else now.delete(what);
    },
  };
}

function policyMetrics(
  registry: Registry,
): Pick<LoadMetrics, 'policyLoaded' | 'policyLoadFailed' | 'policyOverdue' | 'podFactsRefused'> {
  let generation = 0;
  let errors = 0;
  let lastLoad = 0;
  let refused = false;
  let late = false;
  let factsRefused = false;
  registerCollected(
    registry,
    {
      name: 'sallyport_pod_facts_refused',
      help: "1 while the files of the pod's labels or manifest are bad, and the previous ones stay in use.",
      type: 'gauge',
    },
    () => [gaugeSample(Number(factsRefused))],
  );
  registerCollected(
    registry,
    {
      name: 'sallyport_policy_refused',
      help: '1 while the policy files hold what is not in force, because the last load of them was bad.',
      type: 'gauge',
    },
    () => [gaugeSample(Number(refused))],
  );
  registerCollected(
    registry,
    {
      name: 'sallyport_policy_reload_overdue',
      help: '1 while a load of the policy has not ended for 15 seconds.',
      type: 'gauge',
    },
    () => [gaugeSample(Number(late))],
  );
  registerCollected(
    registry,
    { name: 'sallyport_policy_generation', help: 'Policies loaded so far; 0 before the first.', type: 'gauge' },
    () => [gaugeSample(generation)],
  );
  registerCollected(
    registry,
    {
      name: 'sallyport_policy_load_errors_total',
      help: 'Policies that did not load; the one before each stayed in force.',
      type: 'counter',
    },
    () => [gaugeSample(errors)],
  );
  registerCollected(
    registry,
    {
      name: 'sallyport_policy_last_load_success_timestamp_seconds',
      help: 'When the policy in force was loaded, in Unix time; 0 before the first.',
      type: 'gauge',
    },
    () => [gaugeSample(lastLoad)],
  );
  return {
    policyLoaded(loaded, timeSeconds) {
      generation = loaded;
      lastLoad = timeSeconds;
      refused = false;
    },
    policyLoadFailed() {
      errors++;
      refused = true;
    },
    policyOverdue(overdue) {
      late = overdue;
    },
    podFactsRefused(bad) {
      factsRefused = bad;
    },
  };
}

function identityMetrics(
  registry: Registry,
): Pick<LoadMetrics, 'identityLoaded' | 'identityLoadFailed' | 'identityOverdue'> {
  let late = false;
  let expires: number | null = null;
  let refreshed: number | null = null;
  let anchors: readonly Sample[] = [];
  const ok = new Cell({ result: 'ok' });
  const failed = new Cell({ result: 'error' });
  const time = (value: number | null) => (value === null ? [] : [gaugeSample(value)]);
  registerCollected(
    registry,
    {
      name: 'control_identity_cert_expiration_timestamp_seconds',
      help: 'When the certificate in use expires, in Unix time.',
      type: 'gauge',
    },
    () => time(expires),
  );
  registerCollected(
    registry,
    {
      name: 'control_identity_cert_refresh_timestamp_seconds',
      help: 'When the certificate in use was loaded, in Unix time.',
      type: 'gauge',
    },
    () => time(refreshed),
  );
  registerCollected(
    registry,
    { name: 'control_identity_cert_refreshes_total', help: 'Loads of the certificate, by result.', type: 'counter' },
    () => [sample(ok), sample(failed)],
  );
  registerCollected(
    registry,
    {
      name: 'sallyport_identity_reload_overdue',
      help: "1 while a load of the identity's files has not ended for 15 seconds.",
      type: 'gauge',
    },
    () => [gaugeSample(Number(late))],
  );
  registerCollected(
    registry,
    {
      name: 'sallyport_trust_anchor_expiration_timestamp_seconds',
      help: 'When each trust anchor in use expires, in Unix time.',
      type: 'gauge',
    },
    () => anchors,
  );
  return {
    identityLoaded({ expiresAt, refreshedAt, anchors: loaded = [] }) {
      // A bundle may hold an anchor twice, and a scrape no series.
      const once = new Map(loaded.map((anchor) => [anchor.id, anchor]));
      anchors = [...once.values()].slice(0, maxAnchors).map(({ subject, id, notAfter }) =>
        gaugeSample(notAfter.getTime() / 1000, {
          subject: labelValue(subject),
          sha256: id.replaceAll(':', '').slice(0, 16),
        }),
      );
      expires = expiresAt.getTime() / 1000;
      refreshed = refreshedAt.getTime() / 1000;
      ok.value++;
    },
    identityLoadFailed() {
      failed.value++;
    },
    identityOverdue(overdue) {
      late = overdue;
    },
  };
}
