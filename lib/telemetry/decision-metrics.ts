/** What policy decided: counters that never expire, so that a rate over them never forgets a denial. */
import type { ErrorLabel } from '../proxy/recorder.ts';
import type { Families } from './figures.ts';
import { type Cell, constantGroup, type LabelGroup, type SeriesMap } from './series.ts';

export class DecisionMetrics {
  readonly httpAllow: SeriesMap<Cell>;
  readonly httpDeny: SeriesMap<Cell>;
  readonly routeNotFound: SeriesMap<Cell>;
  readonly rateLimited: SeriesMap<Cell>;
  readonly httpInvalid: SeriesMap<Cell>;
  readonly tcpAllow: SeriesMap<Cell>;
  readonly tcpDeny: SeriesMap<Cell>;
  readonly tcpTerminate: SeriesMap<Cell>;
  readonly httpTerminate: SeriesMap<Cell>;
  readonly networkRefused: SeriesMap<Cell>;
  readonly probes: SeriesMap<Cell>;
  readonly #httpErrors: SeriesMap<Cell>;
  readonly #tcpErrors: SeriesMap<Cell>;
  readonly #errorGroups: ReadonlyMap<ErrorLabel, LabelGroup>;

  constructor(families: Families) {
    const family = (name: string, help: string) => families.counter(name, help);
    this.httpAllow = family('inbound_http_authz_allow_total', 'HTTP requests that an authorization let through.');
    this.httpDeny = family('inbound_http_authz_deny_total', 'HTTP requests that no authorization let through.');
    this.routeNotFound = family(
      'inbound_http_route_not_found_total',
      'HTTP requests that no route of the server matched.',
    );
    this.rateLimited = family(
      'inbound_http_local_ratelimit_total',
      'Authorized HTTP requests refused by a rate limit.',
    );
    this.httpInvalid = family(
      'sallyport_http_invalid_requests_total',
      'HTTP requests answered 400: malformed, or with a path that servers read in ways which policy decides differently.',
    );
    this.tcpAllow = family('inbound_tcp_authz_allow_total', 'Connections that an authorization let through.');
    this.tcpDeny = family('inbound_tcp_authz_deny_total', 'Connections that no authorization let through.');
    this.tcpTerminate = family('inbound_tcp_authz_terminate_total', 'Open connections ended by a later policy.');
    this.httpTerminate = family(
      'sallyport_http_authz_terminate_total',
      'HTTP requests under way, and tunnels that such have become, ended by a later policy.',
    );
    this.networkRefused = family(
      'sallyport_network_policy_refused_total',
      'Connections that no NetworkPolicy admits: refused at accept (new), or ended by a later policy (open).',
    );
    this.probes = family(
      'sallyport_probes_admitted_total',
      'Probes that were let in as such: requests, and connections that sent nothing.',
    );
    this.#httpErrors = family('inbound_http_errors_total', 'HTTP requests that failed here, by kind of error.');
    this.#tcpErrors = family('inbound_tcp_errors_total', 'Connections that failed here, by kind of error.');
    this.#errorGroups = new Map(errorLabels.map((error) => [error, constantGroup({ error })]));
  }

  httpError(error: ErrorLabel, target: LabelGroup, server: LabelGroup): Cell {
    return this.#httpErrors.at(this.#error(error), target, server);
  }

  tcpError(error: ErrorLabel, target: LabelGroup): Cell {
    return this.#tcpErrors.at(this.#error(error), target);
  }

  /** Whatever is not in the closed list is `unexpected`, as in Linkerd. */
  #error(error: ErrorLabel): LabelGroup {
    return this.#errorGroups.get(error) ?? (this.#errorGroups.get('unexpected') as LabelGroup);
  }
}

const errorLabels: readonly ErrorLabel[] = ['loadshed', 'i/o', 'tls detection timeout', 'gateway loop', 'unexpected'];
