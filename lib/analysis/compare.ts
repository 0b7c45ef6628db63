import type { ExplainQuery } from '../policy/explain.ts';
import type { PortRange } from '../policy/workload.ts';
import type { Block } from './blocks.ts';
import { type ClientsText, clientsText, type RequestsText, rangeText, requestsText } from './describe.ts';
import { type Outcome, outcomeKey } from './outcome.ts';

/** From the most that a reader must see to the least. */
export const changeKinds = ['allowed', 'refused', 'otherwise', 'moved'] as const;
export type ChangeKind = (typeof changeKinds)[number];

/** Questions that two policies decide otherwise, all in the same way, with one of them. */
export interface PolicyChange {
  readonly kind: ChangeKind;
  readonly before: Outcome;
  readonly after: Outcome;
  readonly ports: readonly PortRange[];
  readonly clients: readonly ClientsText[];
  /** Null: whatever comes on a connection that carries no requests. */
  readonly requests: readonly RequestsText[] | null;
  readonly example: ExplainQuery;
}

/** What the blocks of a comparison say together. */
export function changesOf(blocks: Iterable<Block>): PolicyChange[] {
  const changes = [...blocks].flatMap((block): PolicyChange[] => {
    const [before, after] = block.outcomes;
    if (before === undefined || after === undefined) return [];
    return [
      {
        kind: kindOf(before, after),
        before,
        after,
        ports: block.port.ranges,
        clients: clientsText(block),
        requests: block.requests === null ? null : requestsText(block.requests),
        example: block.example,
      },
    ];
  });
  const joined = joins.reduce((list, join) => joinedBy(list, join), changes);
  return joined.sort((a, b) => changeKinds.indexOf(a.kind) - changeKinds.indexOf(b.kind));
}

function kindOf(before: Outcome, after: Outcome): ChangeKind {
  const was = before.verdict === 'permit';
  const is = after.verdict === 'permit';
  if (was !== is) return is ? 'allowed' : 'refused';
  const alike = { authz: null };
  return outcomeKey({ ...before, ...alike }) === outcomeKey({ ...after, ...alike }) ? 'moved' : 'otherwise';
}

/** In what two sets may differ to become one, and how. */
interface Join {
  readonly of: 'clients' | 'requests' | 'ports';
  readonly join: (a: PolicyChange, b: PolicyChange) => PolicyChange;
}

const joins: readonly Join[] = [
  {
    of: 'requests',
    join: (a, b) => ({ ...a, requests: a.requests === null ? null : [...a.requests, ...(b.requests ?? [])] }),
  },
  { of: 'clients', join: (a, b) => ({ ...a, clients: joinedClients([...a.clients, ...b.clients]) }) },
  { of: 'ports', join: (a, b) => ({ ...a, ports: [...a.ports, ...b.ports] }) },
];

function joinedBy(changes: readonly PolicyChange[], { of, join }: Join): PolicyChange[] {
  const found = new Map<string, PolicyChange>();
  for (const change of changes) {
    const { kind, before, after, ports, clients, requests } = change;
    const parts = { ports: ports.map(rangeText), clients, requests, [of]: requests === null };
    const key = JSON.stringify([kind, outcomeKey(before), outcomeKey(after), parts]);
    const known = found.get(key);
    found.set(key, known === undefined ? change : join(known, change));
  }
  return [...found.values()];
}

/** The same clients by several protocols are told once. */
function joinedClients(clients: readonly ClientsText[]): ClientsText[] {
  const found = new Map<string, ClientsText>();
  for (const each of clients) {
    const key = JSON.stringify([each.who, each.from]);
    const known = found.get(key);
    const protocols = [...new Set([...(known?.protocols ?? []), ...each.protocols])];
    found.set(key, { ...each, protocols });
  }
  return [...found.values()];
}
