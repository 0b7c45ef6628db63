import type { ConnectionOptions } from 'node:tls';
import type { TlsTermination } from '../../lib/proxy/tls/termination.ts';
import { meshClient, workloadCertificate, workloadName } from './certificates.ts';
import { terminationOf } from './termination.ts';

/** TLS that ends at the proxy of the workload `web`, and the workload `caller` as its client. */
export function meshed(protocol: 'http/1.1' | 'h2'): {
  readonly termination: TlsTermination;
  readonly client: ConnectionOptions;
} {
  const own = workloadCertificate('web', 'shop');
  const name = workloadName('web', 'shop');
  return {
    termination: terminationOf(own, name),
    client: { ...meshClient(name, workloadCertificate('caller', 'shop')), ALPNProtocols: [protocol] },
  };
}
