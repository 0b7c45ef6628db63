import type { Authorization, GrantList, TlsRule } from '../policy/decide/client-match.ts';
import { type Interval, type NetworkEntry, type NetworkSet, networkSet, podClusterIp } from '../policy/networks.ts';

/** Whether the networks hold every address of both families. */
export function isEverywhere(entries: readonly NetworkEntry[]): boolean {
  const set = networkSet(entries, []);
  return ([4, 6] as const).every((family) => {
    const [only] = set.intervals(family);
    return only !== undefined && only[0] === 0n && only[1] === (1n << (family === 4 ? 32n : 128n)) - 1n;
  });
}

/** Whether exceptions leave nothing of a network, as far as that does not depend on a pod. */
export function isCovered({ network, except }: NetworkEntry): boolean {
  if (network === podClusterIp || except.length === 0) return false;
  const holes = except.filter((source) => source !== podClusterIp);
  return networkSet([{ network, except: holes }], []).intervals(network.family).length === 0;
}

/** Of so many authorizations it is asked whether they admit everybody whom one admits. */
const mostCompared = 50;

/** The authorizations of a list by whom they might admit in place of others. */
export class Admitting {
  readonly #general: Authorization[] = [];
  readonly #byName = new Map<string, Authorization[]>();

  constructor({ entries }: GrantList) {
    for (const entry of entries) {
      const { tls, audit, ref } = entry;
      // audit comes after all others, and localhost is one address.
      if (audit || (ref.kind === 'default' && ref.name === 'localhost')) continue;
      if (tls.kind !== 'identities' || tls.identities.suffixes.length > 0) this.#general.push(entry);
      else {
        for (const name of tls.identities.exact) {
          const known = this.#byName.get(name);
          if (known === undefined) this.#byName.set(name, [entry]);
          else if (known.length < mostCompared) known.push(entry);
        }
      }
    }
  }

  /** The first that admits whomever `narrow` admits; of equal ones only an earlier one. */
  wider(narrow: Authorization, isOwnList: boolean): Authorization | null {
    const [name] = narrow.tls.kind === 'identities' ? narrow.tls.identities.exact : [];
    const candidates = [...this.#general.slice(0, mostCompared), ...(this.#byName.get(name ?? '') ?? [])];
    let isBehind = false;
    for (const wide of candidates) {
      if (wide === narrow) isBehind = true;
      else if (admitsAll(wide, narrow) && !(isOwnList && isBehind && admitsAll(narrow, wide))) return wide;
    }
    return null;
  }
}

function admitsAll(wide: Authorization, narrow: Authorization): boolean {
  return holdsNetworks(wide.networks, narrow.networks) && holdsTls(wide.tls, narrow.tls);
}

function holdsNetworks(wide: NetworkSet | null, narrow: NetworkSet | null): boolean {
  if (wide === null || wide === narrow) return true;
  if (narrow === null) return false;
  const within = (family: 4 | 6): boolean => {
    const outer = wide.intervals(family);
    const holds = ([first, last]: Interval): boolean => outer.some(([from, to]) => from <= first && last <= to);
    return narrow.intervals(family).every(holds);
  };
  return within(4) && within(6);
}

function holdsTls(wide: TlsRule, narrow: TlsRule): boolean {
  if (wide.kind === 'unauthenticated') return true;
  if (wide.kind === 'any-tls') return narrow.kind !== 'unauthenticated';
  if (narrow.kind !== 'identities') return false;
  const [outer, inner] = [wide.identities, narrow.identities];
  const form = (name: string) => (name.includes('://') ? 'spiffe' : 'dns');
  return (
    [...inner.exact].every((name) => outer.has({ form: form(name), name })) &&
    inner.suffixes.every((suffix) => outer.suffixes.some((end) => suffix.endsWith(end)))
  );
}
