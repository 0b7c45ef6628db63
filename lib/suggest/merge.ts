import type { HttpMatch } from '../policy/route-rule.ts';
import type { DecisionRecord } from '../records/record.ts';
import type { Answer } from '../replay/answer.ts';
import { type ResourceRef, refText } from '../resource-ref.ts';
import type { ClientUse, Evidence, Group } from './evidence.ts';

/** What a policy decides of records. */
export type PolicyAnswers = (record: DecisionRecord) => Answer;

/** A policy to which something is to be added. */
export interface Existing {
  /** Names of its documents, whatever their kind. */
  readonly names: readonly string[];
  /** Whether somebody is authorized for all of this Server, or would be if there were such: they may use whatever is added to it. */
  isOpenTo(server: Pick<ResourceRef, 'name'>): boolean;
  /** What HTTPRoutes of this Server have. */
  matchesOf(server: Pick<ResourceRef, 'name'>): readonly HttpMatch[];
  /** Its text with more documents behind it. */
  with(added: string): string;
}

/** Where a policy that exists refuses something, and so what is to be added there. */
export type MissingPlace =
  /** No Server has the port: one is needed, for all that was seen there. */
  | { readonly kind: 'port' }
  /** A route has the requests, or the Server all of them: its clients are too few. */
  | { readonly kind: 'clients'; readonly target: ResourceRef }
  /** No route of the Server has the requests. */
  | { readonly kind: 'routes'; readonly server: ResourceRef; readonly calls: boolean };

/** What a policy refuses of what was seen, by port and place. */
export interface Missing {
  readonly port: number;
  readonly place: MissingPlace;
  readonly groups: readonly Group[];
}

/** What an existing policy does not let in; of a port that it has no Server for, all that was seen there. */
export function missingIn(evidence: Evidence, before: PolicyAnswers): readonly Missing[] {
  const found = new Map<string, { port: number; place: MissingPlace; groups: Map<string, Group> }>();
  const open = new Set<number>();
  for (const group of evidence.groups.values()) {
    for (const [path, uses] of group.paths) {
      for (const [key, use] of uses) {
        const place = placeOf(before, use);
        if (place === null) continue;
        if (place.kind === 'port') {
          open.add(group.port);
          continue;
        }
        const at = placeText(group.port, place);
        const missing = found.get(at) ?? { port: group.port, place, groups: new Map<string, Group>() };
        found.set(at, missing);
        const copy = missing.groups.get(group.key) ?? { ...group, paths: new Map<string, Map<string, ClientUse>>() };
        missing.groups.set(group.key, copy);
        const copied = copy.paths.get(path) ?? new Map<string, ClientUse>();
        copy.paths.set(path, copied.set(key, use));
      }
    }
  }
  const rest = [...found.values()].map(({ port, place, groups }) => ({ port, place, groups: [...groups.values()] }));
  const whole = [...open].map((port): Missing => {
    const groups = [...evidence.groups.values()].filter((group) => group.port === port);
    return { port, place: { kind: 'port' }, groups };
  });
  return [...whole, ...rest];
}

/**
 * Null: it is let in, or nobody can tell, or nothing that is added would let it in: who is redirected or limited is authorized, a
 * path that is decided differently as it is read is no route's, and a NetworkPolicy asks no route.
 */
function placeOf(before: PolicyAnswers, { record, caller }: ClientUse): MissingPlace | null {
  const answer = before(record);
  if (answer.kind === 'unknown' || answer.isolated || answer.server === null) return null;
  const { verdict, server, route } = answer;
  if (verdict !== 'deny' && verdict !== 'no-route') return null;
  if (server.kind === 'default') return { kind: 'port' };
  if (verdict === 'no-route') return { kind: 'routes', server, calls: record.question.protocol === 'grpc' };
  // Who may probe may not do all that others do there.
  if (caller.kind === 'probe') return null;
  return { kind: 'clients', target: route === null || route.kind === 'default' ? server : route };
}

function placeText(port: number, place: MissingPlace): string {
  if (place.kind === 'port') return String(port);
  return `${port} ${place.kind} ${refText(place.kind === 'clients' ? place.target : place.server)}`;
}
