import { type AdminApp, type AdminOptions, createAdminApp } from '../ops/admin-app.ts';
import type { Readiness } from '../ops/readiness.ts';
import type { Soundness } from '../ops/soundness.ts';
import { requestFault } from '../proxy/guard.ts';
import { recordVersion } from '../records/record.ts';
import type { Log } from '../telemetry/log.ts';
import type { Telemetry } from '../telemetry/metrics.ts';
import type { KeptDecisions } from './decisions.ts';
import type { FollowedIdentity } from './identity.ts';
import type { FollowedPolicy } from './policy.ts';
import type { Workers } from './workers/workers.ts';

interface AdminParts extends Pick<AdminOptions, 'shutdown' | 'candidate'> {
  readonly readiness: Readiness;
  readonly soundness: Soundness;
  readonly workers: Workers;
  readonly telemetry: Telemetry;
  readonly policy: FollowedPolicy;
  readonly identity: FollowedIdentity;
  /** Null where none are recorded. */
  readonly decisions: KeptDecisions | null;
  readonly log: Log;
}

/** The admin server, of what it tells and may do. */
export function adminOf({
  readiness,
  soundness,
  workers,
  telemetry,
  policy,
  identity,
  decisions,
  log,
  ...rest
}: AdminParts): AdminApp {
  return createAdminApp({
    ...rest,
    ready: () => readiness.state(),
    live: () => soundness.live,
    async metrics() {
      await workers.gather();
      return telemetry.exposition();
    },
    policy: () => ({ ...policy.effective(), identity: identity.view() }),
    decisions: {
      version: recordVersion,
      lines: decisions === null ? null : async () => decisions.page(await workers.decided()),
    },
    log: {
      level: () => log.level(),
      setLevel(text) {
        const isLevel = log.setLevel(text);
        if (isLevel) workers.logLevel(log.level());
        return isLevel;
      },
    },
    failed: (path, error) => requestFault(`the admin server, ${path}`, error),
  });
}
