import type { ExplainQuery } from '../policy/explain.ts';
import type { PortRange } from '../policy/workload.ts';
import type { QuestionBlock } from './blocks.ts';
import { type ClientsText, clientsText, type RequestsText, requestsText } from './describe.ts';
import type { Leaf } from './leaves.ts';
import { type Answered, outcomeKey } from './outcome.ts';

/** Questions that are decided alike, in as few words as say which they are, with one of them. */
export interface QuestionSet {
  /** One for each policy. */
  readonly outcomes: readonly Answered[];
  readonly ports: readonly PortRange[];
  readonly clients: readonly ClientsText[];
  /** Null: whatever comes on a connection of which no request is read. */
  readonly requests: readonly RequestsText[] | null;
  readonly example: ExplainQuery;
}

/** What blocks say together: those that differ in one thing alone are one set. */
export function setsOf(blocks: Iterable<QuestionBlock>): QuestionSet[] {
  const described: { readonly block: QuestionBlock; readonly clients: readonly ClientsText[] }[] = [];
  for (const block of blocks) described.push({ block, clients: clientsText(block) });
  const byClients = groupsOf(described, ({ block: { outcomes, port, requests }, clients }) => [
    outcomes.map(outcomeKey),
    port.ranges,
    clients,
    requests === null,
  ]);
  const texts = new RequestTexts();
  const sets = byClients.flatMap((group): QuestionSet[] => {
    const [first] = group;
    if (first === undefined) return [];
    const { outcomes, port, example, requests } = first.block;
    const told = requests === null ? null : texts.of(group.map(({ block }) => block.requests ?? []));
    return [{ outcomes, ports: port.ranges, clients: first.clients, requests: told, example }];
  });
  const byRequests = groupsOf(sets, ({ outcomes, ports, requests }) => [outcomes.map(outcomeKey), ports, requests]).map(
    (group): QuestionSet => ({
      ...(group[0] as QuestionSet),
      clients: joinedClients(group.flatMap(({ clients }) => clients)),
    }),
  );
  return groupsOf(byRequests, ({ outcomes, clients, requests }) => [outcomes.map(outcomeKey), clients, requests]).map(
    (group): QuestionSet => ({
      ...(group[0] as QuestionSet),
      ports: joinedRanges(group.flatMap(({ ports }) => ports)),
    }),
  );
}

/** Blocks of several clients have the same requests: each list of them is told once. */
class RequestTexts {
  readonly #numbers = new Map<readonly Leaf[], number>();
  readonly #known = new Map<string, readonly RequestsText[]>();

  of(lists: readonly (readonly Leaf[])[]): readonly RequestsText[] {
    const key = lists.map((list) => this.#numberOf(list)).join();
    const known = this.#known.get(key) ?? requestsText(lists.flat());
    this.#known.set(key, known);
    return known;
  }

  #numberOf(list: readonly Leaf[]): number {
    const number = this.#numbers.get(list) ?? this.#numbers.size;
    this.#numbers.set(list, number);
    return number;
  }
}

function groupsOf<Item>(items: Iterable<Item>, alike: (item: Item) => unknown): Item[][] {
  const groups = new Map<string, Item[]>();
  for (const item of items) {
    const key = JSON.stringify(alike(item));
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [item]);
    else group.push(item);
  }
  return [...groups.values()];
}

function joinedRanges(ranges: readonly PortRange[]): PortRange[] {
  const joined: PortRange[] = [];
  for (const range of [...ranges].sort((a, b) => a.first - b.first)) {
    const previous = joined.at(-1);
    if (previous?.last === range.first - 1) joined[joined.length - 1] = { first: previous.first, last: range.last };
    else joined.push(range);
  }
  return joined;
}

/** The same clients by several protocols are told once. */
function joinedClients(clients: readonly ClientsText[]): ClientsText[] {
  const found = new Map<string, ClientsText>();
  for (const each of clients) {
    const key = JSON.stringify([each.who, each.from]);
    const protocols = [...new Set([...(found.get(key)?.protocols ?? []), ...each.protocols])];
    found.set(key, { ...each, protocols });
  }
  return [...found.values()];
}
