import type { Family } from './exemptions.ts';
import type { Machine } from './machine.ts';
import { RedirectError } from './redirect-error.ts';

// What the kernel tells of itself. Its network is read below /proc/self: /proc/net is only a link to there, which is
// missing where /proc shows processes alone (ProcSubset=pid of systemd, subset=pid of proc(5)).

const network = '/proc/self/net';

/** One line for each address of an interface; null where the kernel has no IPv6. @throws RedirectError if unknown. */
export function ipv6Addresses(machine: Machine): string | null {
  return networkFile(machine, 'if_inet6');
}

/** The tables of the legacy programs that are in use. @throws RedirectError if unknown. */
export function legacyTables(machine: Machine, family: Family): readonly string[] {
  return networkFile(machine, `${family === 4 ? 'ip' : 'ip6'}_tables_names`)?.split('\n') ?? [];
}

/** The capabilities in effect; null where this is no Linux. @throws RedirectError if unknown. */
export function effectiveCapabilities(machine: Machine): bigint | null {
  const set = /^CapEff:\s*([0-9a-f]+)$/m.exec(readOrRefuse(machine, '/proc/self/status') ?? '')?.[1];
  return set === undefined ? null : BigInt(`0x${set}`);
}

function networkFile(machine: Machine, name: string): string | null {
  const text = readOrRefuse(machine, `${network}/${name}`);
  // Every kernel has this one: where it is missing, too, that the other is says nothing.
  if (text === null && readOrRefuse(machine, `${network}/dev`) === null) {
    throw unreadable(`${network} is not there`);
  }
  return text;
}

/** Null: it is not there. */
function readOrRefuse(machine: Machine, path: string): string | null {
  const read = machine.read(path);
  if (read.kind === 'failed') throw unreadable(`${path} cannot be read: ${read.reason}`);
  return read.kind === 'text' ? read.text : null;
}

function unreadable(fact: string): RedirectError {
  return new RedirectError(
    'unreadable-proc',
    fact,
    'run it as root, and mount a /proc that root may read; no rules are set while it is unknown what they must guard',
  );
}
