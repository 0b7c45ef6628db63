import { constants } from 'node:crypto';
import { createSecureContext } from 'node:tls';
import type { Asker } from './fairness/fair-queue.ts';
import { HandshakeTurns } from './fairness/handshake-turns.ts';
import type { Application } from './http/application.ts';
import { tlsApplication } from './http/tls-application.ts';
import { TlsTermination } from './tls/termination.ts';
import { throwawayCertificate } from './tls/throwaway.ts';
import type { Endpoint } from './upstream/endpoint.ts';
import type { Upstreams } from './upstream/upstreams.ts';

/**
 * HTTPS probes: TLS that ends here, so that each request is decided, and begins anew towards the app. Both work because the
 * kubelet verifies nobody's certificate. An app that wants a client's certificate cannot be probed so, by the kubelet neither.
 */
export class ProbeTls {
  readonly termination: TlsTermination;
  readonly #turns = new HandshakeTurns();

  constructor() {
    const { cert, key } = throwawayCertificate();
    this.termination = new TlsTermination({
      names: new Set(),
      // Nobody's certificate leads to this anchor, which is a leaf.
      secureContext: createSecureContext({
        cert,
        key,
        ca: cert,
        minVersion: 'TLSv1.2',
        secureOptions: constants.SSL_OP_NO_TICKET,
      }),
      anchors: { generation: 0, endOfChain: () => null },
      own: { names: [], issuer: '', notAfter: new Date(8.64e15), trusts: [], anchors: [] },
    });
  }

  application(upstreams: Upstreams, endpoint: Endpoint, asker: Asker): Application {
    return tlsApplication(upstreams, endpoint, asker, this.#turns);
  }
}
