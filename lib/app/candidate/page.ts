/** What `/candidate` shows. */
import { oneLine } from '../../printable.ts';
import { type Disagreement, disagreementKey, mostDisagreements, type ReasonedSide } from './disagreements.ts';
import type { ComparedAs, Meeting } from './round.ts';
import type { ComparedPolicies } from './watch.ts';

export interface CandidatePage {
  /** `none`: nothing good was found at `path` yet. */
  readonly state: 'none' | 'decided' | 'stale';
  readonly path: string;
  readonly load: { readonly generation: number; readonly loadedAt: string | null; readonly stale: object | null };
  /** Since when both policies are what they are, and all below is counted; null while none is loaded. */
  readonly since: string | null;
  /** Without a disagreement. */
  readonly agreementSeconds: number | null;
  readonly decisions: Readonly<Record<ComparedAs, number>>;
  readonly counts: readonly Meeting[];
  /** The latest first. */
  readonly disagreements: readonly ShownDisagreement[];
}

type ShownDisagreement = Omit<Disagreement, 'firstMs' | 'lastMs'> & { readonly first: string; readonly last: string };

interface PageParts extends Pick<CandidatePage, 'path' | 'load' | 'agreementSeconds'> {
  readonly sinceMs: number | null;
  /** Of each thread. */
  readonly compared: readonly ComparedPolicies[];
}

export function pageOf({ path, load, sinceMs, agreementSeconds, compared }: PageParts): CandidatePage {
  const counts = countsOf(compared.flatMap(({ meetings }) => meetings));
  const sum = (wanted: ComparedAs): number =>
    counts.reduce((all, { agreement, times }) => (agreement === wanted ? all + times : all), 0);
  return {
    state: sinceMs === null ? 'none' : load.stale === null ? 'decided' : 'stale',
    ...{ path, load },
    since: sinceMs === null ? null : new Date(sinceMs).toISOString(),
    agreementSeconds: agreementSeconds === null ? null : Math.floor(agreementSeconds),
    decisions: { same: sum('same'), moved: sum('moved'), differs: sum('differs'), unknown: sum('unknown') },
    counts,
    disagreements: joined(compared.flatMap(({ disagreements }) => disagreements)),
  };
}

/** Of all threads together, by port. */
function countsOf(meetings: readonly Meeting[]): Meeting[] {
  const sums = new Map<string, Meeting>();
  for (const meeting of meetings) {
    const { port, subject, enforced, candidate, agreement } = meeting;
    const key = [port, subject, enforced, candidate, agreement].join();
    sums.set(key, { ...meeting, times: meeting.times + (sums.get(key)?.times ?? 0) });
  }
  return [...sums.values()].sort((a, b) => a.port - b.port || b.times - a.times);
}

function joined(disagreements: readonly Disagreement[]): ShownDisagreement[] {
  const byKey = new Map<string, Disagreement>();
  for (const each of disagreements) {
    const key = disagreementKey(each);
    const other = byKey.get(key);
    byKey.set(key, other === undefined ? each : together(other, each));
  }
  const latest = [...byKey.values()].sort((a, b) => b.lastMs - a.lastMs).slice(0, mostDisagreements);
  return latest.map(({ firstMs, lastMs, ...rest }) => ({
    ...rest,
    first: new Date(firstMs).toISOString(),
    last: new Date(lastMs).toISOString(),
  }));
}

function together(one: Disagreement, other: Disagreement): Disagreement {
  const clients = [...new Set([...one.clients, ...other.clients])];
  const shown = clients.slice(0, Math.max(one.clients.length, other.clients.length));
  return {
    ...one,
    times: one.times + other.times,
    firstMs: Math.min(one.firstMs, other.firstMs),
    lastMs: Math.max(one.lastMs, other.lastMs),
    clients: shown,
    moreClients: one.moreClients || other.moreClients || shown.length < clients.length,
  };
}

/** The same for people. */
export function pageText(page: CandidatePage): string {
  const { path, load, since, agreementSeconds, decisions, disagreements } = page;
  const lines = [`Candidate policy ${path}`];
  if (load.stale !== null) lines.push(`  its files are not what is decided by: ${reasonOf(load.stale)}`);
  if (since === null)
    return `${[...lines, '  not loaded: nothing is decided beside the policy in force'].join('\n')}\n`;
  const { same, moved, differs, unknown } = decisions;
  lines.push(
    `  loaded ${load.loadedAt}; both policies are what they are since ${since}`,
    `  ${same + moved + differs + unknown} decisions: ${same} the same, ${moved} by another document, ${differs} otherwise`,
    ...(unknown === 0 ? [] : [`  ${unknown} not compared: the candidate failed, or took too long`]),
    `  ${agreementSeconds} s without a disagreement`,
  );
  for (const each of disagreements) lines.push('', ...disagreementLines(each).map(oneLine));
  return `${lines.join('\n')}\n`;
}

function reasonOf(stale: object): string {
  return 'reason' in stale ? String(stale.reason) : '';
}

function disagreementLines(each: ShownDisagreement): string[] {
  const { subject, port, enforced, candidate, times, last, clients, moreClients, example } = each;
  return [
    `port ${port}, ${subject}: ${enforced.verdict}, and ${candidate.verdict} by the candidate, ${times === 1 ? 'once' : `${times} times`}, last ${last}`,
    `  by ${clients.join(', ')}${moreClients ? ', …' : ''}`,
    `  in force:  ${sideText(enforced)}`,
    `  candidate: ${sideText(candidate)}`,
    ...candidate.clauses.map(({ authz, detail }) => `    ${authz}: ${detail}`),
    `  ask ${JSON.stringify(example)}`,
  ];
}

function sideText({ server, route, reason }: ReasonedSide): string {
  return `${[server, ...(route === null ? [] : [route])].join(' ')}: ${reason}`;
}
