import { type Client, clientId } from '../../client.ts';
import type { Candidate, RequestFacts } from '../decision.ts';
import { nearestName } from '../nearest.ts';
import type { CompiledPort } from './policy-index.ts';

/*
 * What is likely to be wrong with the policy where it refuses: for lines of the log, so that whoever reads one need not ask
 * `check` or `explain` first. A courtesy: nothing is decided by it.
 */

/** Servers that one hint names. */
const mostMissed = 2;

/** Of a port that a default policy has: the Servers that miss it. */
function missedHint({ document, missed, port }: CompiledPort): string {
  if (document !== null) return '';
  const relevant = missed.filter((server) => server.port === port || server.port === null);
  // A folder for a whole cluster has many for the same port, and those of other pods say nothing about this one.
  const near = relevant.filter(({ isNear }) => isNear);
  const likely = near.length > 0 || relevant.length > 1 ? near : relevant;
  return likely
    .slice(0, mostMissed)
    .map(({ why }) => why)
    .join(' ');
}

/** Of a client that is nearly one of those that are wanted. */
function identityHint(client: Client, candidates: readonly Candidate[]): string {
  const id = clientId(client);
  if (id === null) return '';
  const wanted = candidates
    .filter(({ failed }) => failed === 'identity')
    .flatMap(({ authz, detail }) => namesOf(detail).map((name) => ({ authz, name })));
  const near = nearest(
    id,
    wanted.map(({ name }) => name),
  );
  const found = wanted.find(({ name }) => name === near);
  if (found === undefined || found.name === id) return '';
  return `${found.authz.name} names ${found.name}, which is nearly ${id}: correct the one that is misspelt.`;
}

/** Of an identity of a ServiceAccount its first two labels tell it from others; the rest is the same for all. */
function nearest(id: string, wanted: readonly string[]): string | undefined {
  const tail = /\.serviceaccount\.identity\..*$/.exec(id)?.[0] ?? '';
  const short = (name: string): string => (tail !== '' && name.endsWith(tail) ? name.slice(0, -tail.length) : name);
  const near = nearestName(short(id), wanted.map(short));
  return wanted.find((name) => short(name) === near);
}

/** `wanted a, b or c, was d`. */
function namesOf(detail: string): readonly string[] {
  const [, list = ''] = /^wanted (.*), was /.exec(detail) ?? [];
  return list.split(/, | or /).filter((name) => /^[\w.:/-]+$/.test(name));
}

/** Of a path that is nearly a probe's of this port. */
function probeHint({ routes }: CompiledPort, { path }: RequestFacts): string {
  const outline = routes?.outline();
  if (outline?.kind !== 'probed') return '';
  const paths = outline.probes.flatMap((probe) => probe.paths ?? []);
  if (paths.length === 0 || paths.includes(path)) return '';
  const near = nearestName(path, paths);
  return near === undefined
    ? ''
    : `The probe of this port is declared for ${near}: correct its path in the pod or in SALLYPORT_PROBES.`;
}

/** Empty where nothing is likely. `request` null: of a connection. */
export function refusalHint(
  port: CompiledPort,
  client: Client,
  candidates: readonly Candidate[],
  request: RequestFacts | null,
): string {
  const probe = request === null ? '' : probeHint(port, request);
  return [missedHint(port), identityHint(client, candidates), probe].filter((hint) => hint !== '').join(' ');
}
