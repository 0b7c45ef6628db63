import type { Config } from '../config/config.ts';
import type { TlsTermination } from '../proxy/tls/termination.ts';
import type { CredentialSource } from '../reload/credential-source.ts';
import type { LoadListeners } from './load-listeners.ts';

export interface FollowedIdentity {
  /** Null where this proxy has no identity, or not yet. */
  termination(): TlsTermination | null;
  readonly source: CredentialSource | null;
}

/** Identity: files → TLS termination. */
export async function followIdentity(
  identity: Config['identity'],
  { readiness, telemetry, logger }: LoadListeners,
): Promise<FollowedIdentity> {
  if (identity === null) {
    readiness.up('identity');
    return { termination: () => null, source: null };
  }
  // Loaded here alone: what reads certificates takes 3 MB of memory, and many sidecars have none.
  const { TlsTermination } = await import('../proxy/tls/termination.ts');
  const { createCredentialSource } = await import('../reload/credential-source.ts');
  let termination: TlsTermination | null = null;
  let anchorIds: readonly string[] = [];
  let anchorsRemoved = 0;
  const source = createCredentialSource({
    ...identity,
    names: identity.names ?? undefined,
    onLoaded: (loaded) => {
      // One more anchor leaves all sessions as sound as they were; one less puts all in doubt.
      if (anchorIds.some((id) => !loaded.anchorIds.includes(id))) anchorsRemoved++;
      anchorIds = loaded.anchorIds;
      termination = new TlsTermination({
        names: new Set(loaded.names),
        options: loaded.secureContextOptions,
        anchors: { generation: anchorsRemoved, endOfChain: loaded.endOfChain },
        own: loaded,
      });
      telemetry.identityLoaded({ expiresAt: loaded.notAfter, refreshedAt: new Date() });
      readiness.up('identity');
      logger.info({ names: loaded.names, notAfter: loaded.notAfter.toISOString() }, 'Identity loaded');
    },
    onFailed: (faults) => {
      telemetry.identityLoadFailed();
      for (const fault of faults) logger.error({ ...fault }, 'Identity not reloaded; the last good one stays in use');
    },
    onOverdue: (waitingFor) => {
      telemetry.identityOverdue(waitingFor !== null);
      if (waitingFor !== null)
        logger.error({ code: 'load-overdue', waitingFor }, 'Identity load overdue: it has not ended for 15 s');
      else logger.info({}, 'Identity load ended after all');
    },
    log: logger,
  });
  return { termination: () => termination, source };
}
