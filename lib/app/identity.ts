import type { Config } from '../config/config.ts';
import type { TlsTermination } from '../proxy/tls/termination.ts';
import { systemClock } from '../reload/clock.ts';
import type { CredentialSource } from '../reload/credential-source.ts';
import type { Credentials } from '../reload/credentials.ts';
import { Standing } from '../reload/standing.ts';
import { type LoadListeners, standingView } from './load-listeners.ts';
import type { Workers } from './workers/workers.ts';

export interface FollowedIdentity {
  /** Null where this proxy has no identity, or not yet. */
  termination(): TlsTermination | null;
  readonly source: Pick<CredentialSource, 'start' | 'reload' | 'stop'> | null;
  /** For the admin server; null where this proxy has no identity, or not yet. */
  view(): unknown;
}

/** Identity: files → TLS termination. */
export async function followIdentity(
  identity: Config['identity'],
  { readiness, telemetry, logger }: LoadListeners,
  workers: Pick<Workers, 'change'>,
): Promise<FollowedIdentity> {
  if (identity === null) {
    readiness.up('identity');
    return { termination: () => null, source: null, view: () => null };
  }
  // Loaded here alone: what reads certificates takes 3 MB of memory, and many sidecars have none.
  const { terminationOf } = await import('./termination.ts');
  const { createCredentialSource } = await import('../reload/credential-source.ts');
  const { credentialFaultText } = await import('../reload/credentials.ts');
  const restart = 'A restart now would not start.';
  let termination: TlsTermination | null = null;
  let inUse: Credentials | null = null;
  const standing = new Standing({
    code: 'identity-stale',
    messages: {
      still: () => 'Identity still not reloaded; the last good one stays in use',
      again: 'Identity files are good again',
    },
    fields: () => ({ notAfter: inUse?.notAfter.toISOString() }),
    staleFields: () => ({ restart }),
    onChange(stale) {
      telemetry.stale('identity', stale);
      readiness.stale('identity', stale);
    },
    log: logger,
    clock: systemClock,
  });
  let anchorIds: readonly string[] = [];
  let anchorsRemoved = 0;
  const source = createCredentialSource({
    ...identity,
    names: identity.names ?? undefined,
    onLoaded: async (loaded, origin) => {
      // One more anchor leaves all sessions as sound as they were; one less puts all in doubt.
      if (anchorIds.some((id) => !loaded.anchorIds.includes(id))) anchorsRemoved++;
      anchorIds = loaded.anchorIds;
      const { certFile, keyFile, trustAnchorsFile } = identity;
      const files = { certFile, keyFile, trustAnchorsFile };
      await workers.change({ kind: 'identity', identity: { files, ...origin, anchorsRemoved } }, () => {
        termination = terminationOf(loaded, anchorsRemoved);
        inUse = loaded;
      });
      const anchors = loaded.validities.filter(({ kind, id }) => kind === 'trust anchor' && anchorIds.includes(id));
      telemetry.identityLoaded({ expiresAt: loaded.notAfter, refreshedAt: new Date(), anchors });
      readiness.up('identity');
      standing.accepted();
      logger.info({ names: loaded.names, notAfter: loaded.notAfter.toISOString() }, 'Identity loaded');
    },
    onFailed: (faults) => {
      telemetry.identityLoadFailed();
      for (const fault of faults)
        logger.error(
          { ...fault, ...(inUse === null ? {} : { restart }) },
          'Identity not reloaded; the last good one stays in use',
        );
      standing.refused('the files cannot be used', faults.map(credentialFaultText));
    },
    onMended: () => standing.accepted(),
    onOverdue: (waitingFor) => {
      telemetry.identityOverdue(waitingFor !== null);
      if (waitingFor !== null)
        logger.error({ code: 'load-overdue', waitingFor }, 'Identity load overdue: it has not ended for 15 s');
      else logger.info({}, 'Identity load ended after all');
      standing.overdue(waitingFor);
    },
    log: logger,
  });
  return {
    termination: () => termination,
    source: {
      start: () => source.start(),
      reload: () => source.reload(),
      async stop() {
        standing.stop();
        await source.stop();
      },
    },
    view: () => (inUse === null ? null : { ...identityView(inUse), ...standingView(standing.state) }),
  };
}

function identityView({ names, issuer, notAfter, trusts, generation }: Credentials): object {
  return { names, issuer, notAfter: notAfter.toISOString(), trusts, generation };
}
