import type { Complaint } from '../errors/complaint.ts';
import { Backend, type BackendName } from './backend.ts';
import type { Family } from './exemptions.ts';
import { effectiveCapabilities, ipv6Addresses } from './kernel.ts';
import type { Machine } from './machine.ts';
import { RedirectError } from './redirect-error.ts';
import { nothing, type OwnRules, restoreInput } from './rules.ts';

export interface Applied {
  /** Null after a removal that found nothing to remove. */
  readonly backend: BackendName | null;
  /** False: everything was as wanted already, and nothing was touched. */
  readonly changed: boolean;
  readonly families: readonly Family[];
  /** What a person should know though it all worked. */
  readonly notes: readonly Complaint[];
}

export interface ApplyOptions {
  /** Undefined: the one that holds our rules already, or the first that takes them. */
  readonly backend: BackendName | undefined;
  /** Whether IPv6 is guarded too. `refuse`: nobody has said so, which is an error where an interface has it. */
  readonly ipv6: 'guard' | 'leave open' | 'refuse';
  readonly wanted: (family: Family) => OwnRules;
}

/** nf_tables first: the kernel's present interface, and the one that needs neither a lock file nor NET_RAW. */
const preference: readonly BackendName[] = ['nft', 'legacy'];

/** capabilities(7). */
const CAP_NET_ADMIN = 12n;

/**
 * Brings the rules into force. Where a part of it is refused, what has been done is undone, so that a pod is never
 * guarded in one family only.
 *
 * @throws RedirectError with the remedy; the tables are then as they were.
 */
export function applyRules(machine: Machine, options: ApplyOptions): Applied {
  requireNetAdmin(machine);
  const notes: Complaint[] = [];
  const families: Family[] = [4];
  const addresses = ipv6Addresses(machine);
  const reachable = interfacesIn(addresses ?? '');
  if (options.ipv6 !== 'guard' && reachable.length > 0) {
    const fact = `${reachable.join(', ')} can be reached over IPv6, which these rules do not guard`;
    if (options.ipv6 === 'refuse') {
      throw new RedirectError(
        'ipv6-open',
        fact,
        'add --ipv6, with SALLYPORT_INBOUND_LISTEN=[::]:4143; or --ipv4-only, if that is meant',
      );
    }
    notes.push({ code: 'ipv6-open', message: fact, hint: '' });
  }
  if (options.ipv6 !== 'leave open') {
    // An interface may get IPv6 later: before the network is up none has it, and rules need no address.
    if (addresses !== null) families.push(6);
    // Not a failure: where the kernel has no IPv6 there is no IPv6 traffic to guard.
    else if (options.ipv6 === 'guard')
      notes.push({ code: 'no-ipv6', message: 'the kernel has no IPv6, so there are no rules for it', hint: '' });
  }
  const installed = findBackends(machine);
  const first = tryEach(installed, families, options);
  if (!(first instanceof RedirectError)) return { ...first, notes: [...notes, ...first.notes] };
  // Whoever has no IPv6 and did not ask for it may lack what its rules take.
  const second = options.ipv6 === 'refuse' && families.length > 1 ? tryEach(installed, [4], options) : first;
  if (second instanceof RedirectError) throw second;
  const message = `no interface has IPv6 yet, and one that gets it is open there: ${first.message}`;
  return { ...second, notes: [...notes, { code: 'ipv6-open', message, hint: first.hint }, ...second.notes] };
}

/** The rules in force by the first programs that take them; why none does. */
function tryEach(
  installed: readonly Backend[],
  families: readonly Family[],
  options: Pick<ApplyOptions, 'backend' | 'wanted'>,
): Applied | RedirectError {
  const refusals: RedirectError[] = [];
  for (const backend of candidates(installed, options.backend)) {
    try {
      const changed = transition(backend, families, options.wanted);
      const leftovers = installed.filter((other) => other !== backend).map((other) => removeFrom(other));
      const notes = leftovers.flatMap(({ doubts }) => doubts);
      return { backend: backend.name, changed: changed || leftovers.some((left) => left.changed), families, notes };
    } catch (error) {
      if (!(error instanceof RedirectError)) throw error;
      refusals.push(error);
    }
  }
  const [first, ...others] = refusals;
  if (first === undefined) throw new Error('no backend was tried');
  return new RedirectError(first.code, [first, ...others].map(({ message }) => message).join('; and '), first.hint);
}

/** Beside loopback: each of them is a way in. */
function interfacesIn(ipv6: string): readonly string[] {
  // One line for each address: address, interface index, prefix length, scope, flags, interface name.
  const lines = ipv6.split('\n').map((line) => line.trim().split(/\s+/));
  return [...new Set(lines.flatMap(([, , , , , device]) => device ?? []).filter((device) => device !== 'lo'))];
}

/** Takes away what is ours, wherever it is. @throws RedirectError with the remedy, also where some may be left. */
export function removeRules(machine: Machine, backend: BackendName | undefined): Applied {
  requireNetAdmin(machine);
  const installed = findBackends(machine);
  const asked = candidates(installed, backend).map((one) => ({ name: one.name, ...removeFrom(one) }));
  // What can be taken away is gone by now; that nothing is left would be a guess.
  const [doubt] = asked.flatMap(({ doubts }) => doubts);
  if (doubt !== undefined) throw doubt;
  const removed = asked.filter(({ changed }) => changed);
  return { backend: removed[0]?.name ?? null, changed: removed.length > 0, families: [4, 6], notes: [] };
}

function findBackends(machine: Machine): Backend[] {
  const installed = preference.flatMap((name) => Backend.find(machine, name) ?? []);
  if (installed.length === 0) {
    throw new RedirectError(
      'no-iptables',
      'no iptables is installed (looked for iptables-nft-restore, iptables-legacy-restore and iptables-restore)',
      "use Sallyport's own image, which has it, or install the package iptables",
    );
  }
  return installed;
}

function candidates(installed: readonly Backend[], wanted: BackendName | undefined): readonly Backend[] {
  if (wanted === undefined) {
    const holding = installed.filter((backend) => holdsOurs(backend));
    return [...holding, ...installed.filter((backend) => !holding.includes(backend))];
  }
  const found = installed.filter(({ name }) => name === wanted);
  if (found.length > 0) return found;
  const others = installed.map(({ name }) => name).join(', ');
  throw new RedirectError(
    'no-iptables',
    `iptables-${wanted} is not installed`,
    `leave --backend out, or use --backend ${others}`,
  );
}

/** False also where the table cannot be read: the write that follows will then say why. */
function holdsOurs(backend: Backend): boolean {
  return ([4, 6] as const).some((family) => ownIn(backend, family).rules.chains.size > 0);
}

/** What is ours there. `doubt`: why it is not known whether that is all. */
function ownIn(backend: Backend, family: Family): { readonly rules: OwnRules; readonly doubt: RedirectError | null } {
  if (!backend.mayHoldRules(family)) return { rules: nothing, doubt: null };
  try {
    return { rules: backend.ownRules(family), doubt: null };
  } catch (error) {
    if (!(error instanceof RedirectError)) throw error;
    // A legacy table is there, for the kernel has listed it. One of nf_tables is not where the kernel has no nf_tables.
    const isThere = backend.name === 'legacy' || error.code === 'no-net-admin';
    return { rules: nothing, doubt: isThere ? error : null };
  }
}

function transition(backend: Backend, families: readonly Family[], wanted: (family: Family) => OwnRules): boolean {
  const steps = ([4, 6] as const).map((family) =>
    families.includes(family)
      ? { family, before: backend.ownRules(family), after: wanted(family) }
      : // Rules that an earlier command has set for a family that is no longer guarded would lead nowhere.
        { family, before: ownIn(backend, family).rules, after: nothing },
  );
  const done: typeof steps = [];
  for (const step of steps) {
    const input = restoreInput(step.before, step.after);
    if (input === null) continue;
    try {
      backend.restore(step.family, input);
    } catch (error) {
      for (const { family, before, after } of done) backend.restore(family, restoreInput(after, before) ?? '');
      throw error;
    }
    done.push(step);
  }
  return done.length > 0;
}

/** `changed`: there was something to remove. `doubts`: why there may be more. */
function removeFrom(backend: Backend): { readonly changed: boolean; readonly doubts: readonly RedirectError[] } {
  let changed = false;
  const doubts: RedirectError[] = [];
  for (const family of [4, 6] as const) {
    const { rules, doubt } = ownIn(backend, family);
    if (doubt !== null) doubts.push(doubt);
    const input = restoreInput(rules, nothing);
    if (input === null) continue;
    backend.restore(family, input);
    changed = true;
  }
  return { changed, doubts };
}

function requireNetAdmin(machine: Machine): void {
  const effective = effectiveCapabilities(machine);
  if (effective === null) {
    throw new RedirectError(
      'not-linux',
      'this is not Linux',
      'rules are set inside the Linux container or host that runs the pod',
    );
  }
  if ((effective >> CAP_NET_ADMIN) % 2n === 0n) {
    throw new RedirectError(
      'no-net-admin',
      'the capability NET_ADMIN is missing',
      'run it as root; in Kubernetes, an init container with securityContext {runAsUser: 0, capabilities: {add: [NET_ADMIN]}}',
    );
  }
}
