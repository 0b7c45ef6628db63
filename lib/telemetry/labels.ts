/**
 * Label values, and how many of each there may be. Whatever a client can choose (the destination port it dials, the
 * certificate it presents) has a limit here, after which one shared value stands for the rest: CVE-2025-43915 is what
 * happens to a proxy whose label values come from clients without one.
 */
import type { Client } from '../client.ts';
import { clientId } from '../client.ts';
import { hostPort } from '../ip.ts';
import type { PortPolicy, ProbeKind } from '../policy/decision.ts';
import type { ConnectionFacts } from '../proxy/connection-facts.ts';
import type { ResourceRef } from '../resource-ref.ts';
import { constantGroup, type LabelGroup, labelGroup, overflowValue } from './series.ts';

export const limits = {
  /** Verified identities. */
  clientIds: 1000,
  /** Names of foreign TLS servers. Any client can make up as many as it likes, so only few; the log has them all. */
  snis: 32,
  /** Destinations on ports that no document names: a port scan reaches all 65,535 of them. */
  unnamedTargets: 64,
  /** Destinations on ports that a Server names. */
  namedTargets: 1024,
  unnamedServerPorts: 64,
  namedServerPorts: 4096,
  /** Routes, authorizations, rate limits: from documents, so only many reloads with new names get here. */
  resources: 20_000,
} as const;

/** A SPIFFE ID has at most 2048 bytes (SPIFFE-ID section 2.3), a DNS name 253. */
const maxValueLength = 2048;

// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what a label value must not carry
const unprintable = /[\u0000-\u001f\u007f]/g;

/** The value that stands for all beyond a limit, except identities, which say `overflow`. */
const other = 'other';

/**
 * The text format is UTF-8 and ends at NUL; a value that is neither printable nor well-formed would break a scrape.
 * Groups are interned by these values, not by the raw ones: two raw values must not yield one series twice.
 */
export function labelValue(text: string): string {
  if (text.length > maxValueLength) return other;
  return text.replace(unprintable, '?').toWellFormed();
}

type Pairs = Record<string, string>;

/** Groups by key, at most `limit`; what comes after is given another one. */
class Bound {
  readonly #groups = new Map<string, LabelGroup>();
  readonly #name: string;
  readonly #limit: number;
  readonly #beyond: (pairs: Pairs) => LabelGroup;

  constructor(name: string, limit: number, beyond: (pairs: Pairs) => LabelGroup) {
    this.#name = name;
    this.#limit = limit;
    this.#beyond = beyond;
  }

  find(key: string): LabelGroup | undefined {
    return this.#groups.get(key);
  }

  at(key: string, pairs: () => Pairs): LabelGroup {
    const known = this.#groups.get(key);
    if (known !== undefined) return known;
    if (this.#groups.size >= this.#limit) return this.#beyond(pairs());
    const made = labelGroup(pairs(), { name: this.#name, key });
    this.#groups.set(key, made);
    return made;
  }
}

/** The bounds of one store, by name. */
class Bounds {
  readonly #byName = new Map<string, Bound>();

  add(name: string, limit: number, beyond: LabelGroup | ((pairs: Pairs) => LabelGroup)): Bound {
    const bound = new Bound(name, limit, typeof beyond === 'function' ? beyond : () => beyond);
    this.#byName.set(name, bound);
    return bound;
  }

  get(name: string): Bound | undefined {
    return this.#byName.get(name);
  }
}

/** A label value holds no NUL, so joined parts stay distinct. */
function keyOf(ref: ResourceRef, more = ''): string {
  return `${labelValue(ref.group)}\0${labelValue(ref.kind)}\0${labelValue(ref.name)}\0${more}`;
}

const otherRef: ResourceRef = { group: other, kind: other, name: other };
const otherTarget = constantGroup({ target_addr: other, target_ip: other, target_port: other });

/** Groups of a resource under one label prefix. */
class ResourceLabels {
  readonly #prefix: string;
  readonly #bound: Bound;
  /** Refs of the current policy are stable objects; weakly, so that a replaced policy can go. */
  readonly #byRef = new WeakMap<ResourceRef, LabelGroup>();

  constructor(bounds: Bounds, prefix: string) {
    this.#prefix = prefix;
    this.#bound = bounds.add(prefix, limits.resources, constantGroup(this.#pairs(otherRef)));
  }

  of(ref: ResourceRef): LabelGroup {
    const cached = this.#byRef.get(ref);
    if (cached !== undefined) return cached;
    const found = this.#bound.at(keyOf(ref), () => this.#pairs(ref));
    this.#byRef.set(ref, found);
    return found;
  }

  #pairs(ref: ResourceRef): Pairs {
    return refPairs(this.#prefix, ref);
  }
}

function refPairs(prefix: string, ref: ResourceRef): Pairs {
  return {
    [`${prefix}_group`]: labelValue(ref.group),
    [`${prefix}_kind`]: labelValue(ref.kind),
    [`${prefix}_name`]: labelValue(ref.name),
  };
}

/** A server and its port, as `srv_*` or as `parent_*`. */
class ServerLabels {
  readonly #prefix: string;
  readonly #named: Bound;
  readonly #unnamed: Bound;
  readonly #byPolicy = new WeakMap<PortPolicy, LabelGroup>();

  constructor(bounds: Bounds, prefix: string) {
    this.#prefix = prefix;
    const port = `${prefix}_port`;
    const overflow = constantGroup({ ...refPairs(prefix, otherRef), [port]: other });
    const portless = bounds.add(`${prefix} without port`, limits.resources, overflow);
    const withoutPort = (pairs: Pairs): LabelGroup => {
      const all = { ...pairs, [port]: other };
      return portless.at(Object.values(all).join('\0'), () => all);
    };
    this.#named = bounds.add(`${prefix} named`, limits.namedServerPorts, withoutPort);
    this.#unnamed = bounds.add(`${prefix} unnamed`, limits.unnamedServerPorts, withoutPort);
  }

  of(policy: PortPolicy): LabelGroup {
    const cached = this.#byPolicy.get(policy);
    if (cached !== undefined) return cached;
    const { server } = policy;
    const port = String(policy.port);
    const bound = isNamed(policy) ? this.#named : this.#unnamed;
    const pairs = () => ({ ...refPairs(this.#prefix, server), [`${this.#prefix}_port`]: port });
    const found = bound.at(keyOf(server, port), pairs);
    this.#byPolicy.set(policy, found);
    return found;
  }
}

/** Whether a document, not a default, speaks for the port. */
function isNamed(policy: PortPolicy): boolean {
  return policy.server.kind !== 'default';
}

/** Every label group of the process. One per telemetry, shared by all connections. */
export class LabelStore {
  readonly #bounds = new Bounds();
  readonly #server = new ServerLabels(this.#bounds, 'srv');
  readonly #parent = new ServerLabels(this.#bounds, 'parent');
  readonly #route = new ResourceLabels(this.#bounds, 'route');
  readonly #authz = new ResourceLabels(this.#bounds, 'authz');
  readonly #networkPolicy = new ResourceLabels(this.#bounds, 'network_policy');
  readonly #limit = this.#bounds.add(
    'ratelimit',
    limits.resources,
    constantGroup({ ...refPairs('ratelimit', otherRef), ratelimit_scope: other }),
  );
  readonly #namedTargets = this.#bounds.add('named target', limits.namedTargets, otherTarget);
  readonly #unnamedTargets = this.#bounds.add('unnamed target', limits.unnamedTargets, otherTarget);
  /** Most connections come to the same. */
  #lastTarget: { readonly ip: string; readonly port: number; readonly group: LabelGroup } | null = null;
  readonly #clients = this.#bounds.add(
    'client',
    limits.clientIds,
    constantGroup({ tls: 'true', client_id: overflowValue }),
  );
  readonly #anonymous = constantGroup({ tls: 'true', client_id: '' });
  readonly #snis = this.#bounds.add('sni', limits.snis, constantGroup({ tls: 'opaque', sni: overflowValue }));
  readonly #noTls = {
    no_tls_from_remote: constantGroup({ tls: 'no_identity', no_tls_reason: 'no_tls_from_remote' }),
    port_skipped: constantGroup({ tls: 'no_identity', no_tls_reason: 'port_skipped' }),
  };
  /** Of a connection that NetworkPolicies do not admit. */
  readonly refused = { new: constantGroup({ connection: 'new' }), open: constantGroup({ connection: 'open' }) };
  readonly #probes = new Map<string, LabelGroup>();
  readonly loopback = constantGroup({ tls: 'no_identity', no_tls_reason: 'loopback' });

  /** The group of this store for one that another thread's store has made. */
  adopt({ bound, pairs }: Pick<LabelGroup, 'bound' | 'pairs'>): LabelGroup {
    if (bound === null) return constantGroup(pairs);
    const known = this.#bounds.get(bound.name);
    if (known === undefined) throw new Error(`there is no bound ${bound.name} of label values`);
    const target = 'target_addr' in pairs ? this.#knownTarget(bound.key) : undefined;
    return target ?? known.at(bound.key, () => pairs);
  }

  /** `srv_*`; a default server on one port too many reports `srv_port="other"`. */
  server(policy: PortPolicy): LabelGroup {
    return this.#server.of(policy);
  }

  /** Whether `server` tells its port from others. */
  hasPort(policy: PortPolicy): boolean {
    return this.#server.of(policy).pairs.srv_port !== other;
  }

  /** The same as `parent_*`, as the `inbound_{http,grpc}_*` families call it. */
  parent(policy: PortPolicy): LabelGroup {
    return this.#parent.of(policy);
  }

  route(ref: ResourceRef): LabelGroup {
    return this.#route.of(ref);
  }

  authz(ref: ResourceRef): LabelGroup {
    return this.#authz.of(ref);
  }

  rateLimit(ref: ResourceRef, scope: 'total' | 'identity'): LabelGroup {
    const pairs = () => ({ ...refPairs('ratelimit', ref), ratelimit_scope: scope });
    return this.#limit.at(keyOf(ref, scope), pairs);
  }

  /** `network_policy_*`, by the first of those that isolate the pod. */
  networkPolicy(policies: readonly ResourceRef[]): LabelGroup {
    return this.#networkPolicy.of(policies[0] ?? otherRef);
  }

  /** By a kind of probe, of which there are few. */
  probe(kind: ProbeKind): LabelGroup {
    const known = this.#probes.get(kind) ?? constantGroup({ probe: kind });
    this.#probes.set(kind, known);
    return known;
  }

  /** Where the client meant to connect. Null where no policy is known yet: counts as a port that nobody named. */
  target(facts: Pick<ConnectionFacts, 'targetIp' | 'targetPort'>, policy: PortPolicy | null): LabelGroup {
    const last = this.#lastTarget;
    if (last !== null && last.port === facts.targetPort && last.ip === facts.targetIp) return last.group;
    const addr = hostPort(facts.targetIp, facts.targetPort);
    const known = this.#knownTarget(addr);
    if (known !== undefined) {
      this.#lastTarget = { ip: facts.targetIp, port: facts.targetPort, group: known };
      return known;
    }
    const store = policy !== null && isNamed(policy) ? this.#namedTargets : this.#unnamedTargets;
    const pairs = () => ({
      target_addr: labelValue(addr),
      target_ip: labelValue(facts.targetIp),
      target_port: String(facts.targetPort),
    });
    return store.at(addr, pairs);
  }

  /** The same whether its port was named when it was first seen or not. */
  #knownTarget(addr: string): LabelGroup | undefined {
    return this.#namedTargets.find(addr) ?? this.#unnamedTargets.find(addr);
  }

  #sni(sni: string): LabelGroup {
    return this.#snis.at(sni, () => ({ tls: 'opaque', sni }));
  }

  /** What TLS found out about the client, in the words of linkerd2-proxy's app/core/src/transport/labels.rs. */
  tls(client: Client): LabelGroup {
    switch (client.tls.kind) {
      case 'none':
        return this.#noTls[client.tls.reason];
      case 'passthrough':
        return this.#sni(labelValue(client.tls.sni));
      case 'mesh': {
        const id = clientId(client);
        if (id === null) return this.#anonymous;
        const value = labelValue(id);
        return this.#clients.at(value, () => ({ tls: 'true', client_id: value }));
      }
    }
  }
}
