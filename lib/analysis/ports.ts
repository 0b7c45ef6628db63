import type { NetworkIsolation } from '../policy/decide/network-policy.ts';
import type { PolicyIndex } from '../policy/decide/policy-index.ts';
import { push } from '../policy/lists.ts';
import type { PortRange, Workload } from '../policy/workload.ts';

/** Ports that nothing tells apart. */
export interface PortClass {
  readonly ranges: readonly PortRange[];
  /** One of them. */
  readonly sample: number;
}

const last = 65_535;

/** All ports, in classes: each with a Server or a probe by itself, all others by what their default depends on. */
export function portClasses(indexes: readonly PolicyIndex[], workload: Workload): PortClass[] {
  const alone = new Set([
    ...indexes.flatMap(({ servers }) => servers.map(({ port }) => port)),
    ...workload.probes.keys(),
  ]);
  const opened = indexes.map(({ isolation }) => new OpenedPorts(isolation));
  const classes = new Map<string, PortRange[]>();
  const { opaquePorts, requireIdentityPorts } = workload;
  let segment = '';
  let key = '';
  let first = 1;
  const end = (port: number): void => {
    if (port === first) return;
    push(classes, key, { first, last: port - 1 });
    first = port;
  };
  for (let port = 1; port <= last; port++) {
    let moved = false;
    for (const each of opened) if (each.moveTo(port)) moved = true;
    if (moved) segment = opened.map((each) => each.key).join('|');
    const flags = (opaquePorts.has(port) ? 'o' : '') + (requireIdentityPorts.has(port) ? 'i' : '');
    const own = alone.has(port) ? `port ${port}` : `${flags} ${segment}`;
    if (own === key) continue;
    end(port);
    key = own;
  }
  end(last + 1);
  return [...classes.values()].map((ranges) => ({ ranges, sample: sampleOf(ranges) }));
}

/** Where a person would look for an app, if it is one of them. */
function sampleOf(ranges: readonly PortRange[]): number {
  const usual = [8080, 80, 8000, 9090].find((port) =>
    ranges.some(({ first, last: to }) => first <= port && port <= to),
  );
  return usual ?? (ranges[0] as PortRange).first;
}

/** Follows the ports upwards, and which ingress rules open them. */
class OpenedPorts {
  readonly #events = new Map<number, { readonly opens: number[]; readonly closes: number[] }>();
  readonly #active = new Map<number, number>();

  constructor({ openings }: NetworkIsolation) {
    openings.forEach(({ ports }, i) => {
      for (const range of ports ?? []) {
        this.#at(range.first).opens.push(i);
        this.#at(range.last + 1).closes.push(i);
      }
    });
  }

  #at(port: number): { readonly opens: number[]; readonly closes: number[] } {
    const known = this.#events.get(port) ?? { opens: [], closes: [] };
    this.#events.set(port, known);
    return known;
  }

  /** Whether others open this port than the one before. */
  moveTo(port: number): boolean {
    const event = this.#events.get(port);
    if (event === undefined) return false;
    for (const i of event.opens) this.#active.set(i, (this.#active.get(i) ?? 0) + 1);
    for (const i of event.closes) {
      const left = (this.#active.get(i) ?? 0) - 1;
      if (left > 0) this.#active.set(i, left);
      else this.#active.delete(i);
    }
    return true;
  }

  get key(): string {
    return [...this.#active.keys()].sort((a, b) => a - b).join();
  }
}
