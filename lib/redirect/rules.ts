import type { PortRange } from '../config/values.ts';
import { type Family, mergeRanges, multiportLists, type Subnet } from './exemptions.ts';

export interface RedirectOptions {
  /** Where redirected connections arrive: the port of `SALLYPORT_INBOUND_LISTEN`. */
  readonly inboundPort: number;
  /** Ports that are left alone: the admin and health ports, which answer for themselves, and those to be skipped. */
  readonly exemptPorts: readonly PortRange[];
  /** Clients whose connections are left alone. */
  readonly exemptSources: readonly Subnet[];
  /** Whose own connections to the app are never sent back to it. */
  readonly proxyUid: number;
  /** Whether connections from inside the pod to the pod's own address are guarded, too. */
  readonly ownAddress: boolean;
}

/** One rule of a chain of ours, as `iptables-save` prints it; `only` where it has a meaning in one family alone. */
interface Rule {
  readonly only?: Family;
  readonly text: string;
}

interface Guard {
  readonly hook: Hook;
  readonly chain: string;
  readonly rules: readonly Rule[];
}

export type Hook = 'PREROUTING' | 'OUTPUT';

/** A rule in a built-in chain that leads into one of ours. Positions count from 1. */
export interface Jump {
  readonly hook: Hook;
  readonly position: number;
  readonly rule: string;
}

/** What is ours in one family's nat table. */
export interface OwnRules {
  /** Our chains, with their rules in order. */
  readonly chains: ReadonlyMap<string, readonly string[]>;
  readonly jumps: readonly Jump[];
}

export const nothing: OwnRules = { chains: new Map(), jumps: [] };

/** netfilter allows 28 characters. */
const ownChain = { inbound: 'SALLYPORT_INBOUND', output: 'SALLYPORT_OUTPUT' } as const;

const toOwn = (chain: string): string => `-p tcp -j ${chain}`;

function guards(options: RedirectOptions): Guard[] {
  const exempt = multiportLists(mergeRanges(options.exemptPorts)).map(
    (ports): Rule => ({ text: `-p tcp -m multiport --dports ${ports} -j RETURN` }),
  );
  const redirect = `-j REDIRECT --to-ports ${options.inboundPort}`;
  const inbound: Guard = {
    hook: 'PREROUTING',
    chain: ownChain.inbound,
    rules: [
      ...exempt,
      ...options.exemptSources.map(({ family, cidr }): Rule => ({ only: family, text: `-s ${cidr} -j RETURN` })),
      { text: `-p tcp ${redirect}` },
    ],
  };
  const output: Guard = {
    hook: 'OUTPUT',
    chain: ownChain.output,
    rules: [
      { text: `-m owner --uid-owner ${options.proxyUid} -j RETURN` },
      // Containers of a pod share its loopback as they share a disk; what is addressed there is nobody else's traffic.
      { only: 4, text: '-d 127.0.0.0/8 -j RETURN' },
      { only: 6, text: '-d ::1/128 -j RETURN' },
      ...exempt,
      // By type rather than by address: the rules then hold for every address that the pod has or will ever get.
      { text: `-p tcp -m addrtype --dst-type LOCAL ${redirect}` },
    ],
  };
  return options.ownAddress ? [inbound, output] : [inbound];
}

/**
 * The rules that guard the pod in one family. Each jump stands first in its chain, so that no rule of another program
 * decides before ours.
 */
export function redirectRules(options: RedirectOptions, family: Family): OwnRules {
  const wanted = guards(options);
  const of = ({ rules }: Guard): string[] =>
    rules.filter(({ only }) => only === undefined || only === family).map(({ text }) => text);
  return {
    chains: new Map(wanted.map((guard) => [guard.chain, of(guard)])),
    jumps: wanted.map(({ hook, chain }) => ({ hook, position: 1, rule: toOwn(chain) })),
  };
}

/** Reads what is ours from `iptables-save -t nat`. Everything else in the table is somebody else's. */
export function ownRulesIn(saved: string): OwnRules {
  const own: readonly string[] = Object.values(ownChain);
  const chains = new Map<string, string[]>();
  const jumps: Jump[] = [];
  const positions = { PREROUTING: 0, OUTPUT: 0 };
  for (const line of saved.split('\n')) {
    const declared = /^:(\S+) /.exec(line)?.[1] ?? '';
    if (own.includes(declared)) chains.set(declared, []);
    const [, chain = '', rule = ''] = /^-A (\S+) (.*)$/.exec(line) ?? [];
    chains.get(chain)?.push(rule);
    if (chain !== 'PREROUTING' && chain !== 'OUTPUT') continue;
    positions[chain] += 1;
    const target = / -[jg] (\S+)$/.exec(` ${rule}`)?.[1] ?? '';
    if (own.includes(target)) jumps.push({ hook: chain, position: positions[chain], rule });
  }
  return { chains, jumps };
}

export function sameRules(a: OwnRules, b: OwnRules): boolean {
  const text = ({ chains, jumps }: OwnRules): string => JSON.stringify([[...chains].sort(), jumps]);
  return text(a) === text(b);
}

/**
 * Input for `iptables-restore --noflush` that turns what is ours from `before` into `after` and touches nothing else.
 * A restore takes effect as a whole at COMMIT, or not at all: between the old rules and the new ones there is no moment
 * with neither. `null` where there is nothing to do.
 */
export function restoreInput(before: OwnRules, after: OwnRules): string | null {
  if (sameRules(before, after)) return null;
  return script(before, [...after.chains.keys()], rulesOf(after), after);
}

/**
 * The same for a table in which nothing is ours yet, as one text for both programs: `iptables-restore` skips lines that
 * begin with -6, and `ip6tables-restore` those that begin with -4 (iptables(8)).
 */
export function printedRules(options: RedirectOptions, families: readonly Family[]): string {
  const both = families.length > 1;
  const wanted = guards(options);
  const rules = wanted.flatMap(({ chain, rules }) =>
    rules
      .filter(({ only }) => only === undefined || families.includes(only))
      .map(({ only, text }) => `${both && only !== undefined ? `-${only} ` : ''}-A ${chain} ${text}`),
  );
  const chains = wanted.map(({ chain }) => chain);
  return script(nothing, chains, rules, redirectRules(options, 4));
}

function rulesOf({ chains }: OwnRules): string[] {
  return [...chains].flatMap(([chain, rules]) => rules.map((rule) => `-A ${chain} ${rule}`));
}

function script(before: OwnRules, chains: readonly string[], rules: readonly string[], after: OwnRules): string {
  const obsolete = [...before.chains.keys()].filter((chain) => !chains.includes(chain));
  return [
    '*nat',
    // Declaring a chain makes it, or empties it where it exists.
    ...[...chains, ...obsolete].map((chain) => `:${chain} - [0:0]`),
    ...rules,
    ...before.jumps.map(({ hook, rule }) => `-D ${hook} ${rule}`),
    ...after.jumps.map(({ hook, position, rule }) => `-I ${hook} ${position} ${rule}`),
    ...obsolete.map((chain) => `-X ${chain}`),
    'COMMIT',
    '',
  ].join('\n');
}
