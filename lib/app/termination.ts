import { TlsTermination } from '../proxy/tls/termination.ts';
import type { Credentials } from '../reload/credentials.ts';

/** @param anchorsRemoved how often an anchor has gone: another number puts all sessions in doubt. */
export function terminationOf(loaded: Credentials, anchorsRemoved: number): TlsTermination {
  return new TlsTermination({
    names: new Set(loaded.names),
    secureContext: loaded.secureContext,
    anchors: { generation: anchorsRemoved, endOfChain: loaded.endOfChain },
    own: loaded,
  });
}
