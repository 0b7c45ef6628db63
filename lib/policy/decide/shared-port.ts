import type { IpAddress } from '../../ip.ts';
import type { ResourceRef } from '../../resource-ref.ts';
import type { AskedOfRequests, ConnectionDeny, ConnectionPermit, NoRoute, PortProtocol } from '../decision.ts';
import type { Authorization, GrantList } from './client-match.ts';
import type { CompiledPort, DocumentPlace, MissedServer, PortBody, RateLimit, RouteTable } from './policy-index.ts';

/**
 * One of many ports that have their policy in common. A port scan through the redirect reaches all 65,535 of them, and each
 * is kept, so that it compares equal to itself: it holds nothing but its number.
 */
export class SharedPort implements CompiledPort {
  readonly port: number;
  readonly #body: PortBody;

  constructor(port: number, body: PortBody) {
    this.port = port;
    this.#body = body;
    Object.freeze(this);
  }

  get server(): ResourceRef {
    return this.#body.server;
  }
  get protocol(): PortProtocol {
    return this.#body.protocol;
  }
  get detectTimeoutMs(): number {
    return this.#body.detectTimeoutMs;
  }
  get hasRequestRules(): boolean {
    return this.#body.hasRequestRules;
  }
  get decisionsLast(): boolean {
    return this.#body.decisionsLast;
  }
  get asks(): AskedOfRequests {
    return this.#body.asks;
  }
  get routes(): RouteTable | null {
    return this.#body.routes;
  }
  get grants(): GrantList {
    return this.#body.grants;
  }
  get rateLimit(): RateLimit | null {
    return this.#body.rateLimit;
  }
  get document(): DocumentPlace | null {
    return this.#body.document;
  }
  get tcpProbe(): Authorization | null {
    return this.#body.tcpProbe;
  }
  get tlsProbes(): RouteTable | null {
    return this.#body.tlsProbes;
  }
  get nodeIps(): readonly IpAddress[] {
    return this.#body.nodeIps;
  }
  get missed(): readonly MissedServer[] {
    return this.#body.missed;
  }
  get noRoute(): NoRoute {
    return this.#body.noRoute;
  }
  get connectionDeny(): ConnectionDeny {
    return this.#body.connectionDeny;
  }
  get connectionPermits(): Map<Authorization, ConnectionPermit> {
    return this.#body.connectionPermits;
  }
}
