import type { ClientTls } from '../client.ts';
import { ipv4 } from '../ip.ts';
import { isBytes } from '../policy/carried.ts';
import { GrantList } from '../policy/decide/client-match.ts';
import type { NetworkIsolation } from '../policy/decide/network-policy.ts';
import type { CompiledPort, RouteTable } from '../policy/decide/policy-index.ts';
import { headerTests } from '../policy/decide/policy-index.ts';
import type { NamedMatch } from '../policy/route-rule.ts';
import type { Effort } from './automaton.ts';
import type { AskedPolicy, AskedProtocol, QuestionBlock, QuestionScope } from './blocks.ts';
import { nameHolds, type TlsClass } from './callers.ts';
import { chainsOf, type RuleChain } from './chains.ts';
import type { AskedGrants, ClientCell, ClientSpace } from './clients.ts';
import { type Leaf, leavesOf } from './leaves.ts';
import { hasOtherReadings, parametersMeet } from './other-readings.ts';
import { type Answered, type Judge, limitText, outcomeKey } from './outcome.ts';
import { tableShape } from './outlines.ts';
import { clientSpace } from './port-clients.ts';
import type { PortClass } from './ports.ts';
import { connectionQuestion, protocolsOf, requestQuestion } from './questions.ts';
import type { Shapes } from './shapes.ts';
import { isIdentityName } from './tests.ts';

export interface PortWorkOptions {
  readonly port: PortClass;
  readonly sides: readonly AskedPolicy[];
  readonly judges: readonly Judge[];
  readonly shapes: Shapes;
  readonly scope: QuestionScope;
  readonly effort: Effort;
  readonly unexamined: (what: string) => void;
}

/** How one policy takes what comes. */
type Mode = 'bytes' | 'routes' | 'probes';

/** Kinds of TLS and protocols that each policy takes in its own one way. */
interface Manner {
  readonly modes: readonly Mode[];
  readonly kinds: readonly TlsClass['kind'][];
  readonly protocols: readonly AskedProtocol[];
}

const kindGroups = [['none'], ['anonymous', 'identity'], ['passthrough']] as const;

/** The blocks of the ports of one class. */
export class PortWork {
  readonly #options: PortWorkOptions;
  readonly #ports: readonly CompiledPort[];
  readonly #chains = new Map<RouteTable, readonly RuleChain[]>();

  constructor(options: PortWorkOptions) {
    this.#options = options;
    this.#ports = options.sides.map(({ index }) => index.port(options.port.sample));
  }

  *blocks(): Generator<QuestionBlock> {
    const { sides, port, scope, unexamined } = this.#options;
    const shapes = sides.map((side, i) => this.#shape(side, this.#ports[i] as CompiledPort));
    if (sides.length > 1 && shapes.every((shape) => shape === shapes[0])) return;
    const tests = this.#ports.flatMap(({ routes }) => headerTests(routes).filter(({ name }) => isIdentityName(name)));
    const space = clientSpace({ sides, ports: this.#ports, port: port.sample, tests, scope, unexamined });
    for (const manner of this.#manners()) {
      const { modes } = manner;
      if (modes.some((mode) => mode !== 'bytes')) yield* this.#requests(manner, space, tests);
      if (!modes.includes('routes')) yield* this.#connections(manner, space);
    }
  }

  #shape({ index: { isolation } }: AskedPolicy, port: CompiledPort): number {
    const { shapes } = this.#options;
    const { grants, routes, tlsProbes, tcpProbe, rateLimit, protocol, hasRequestRules } = port;
    const closed = this.#isolationShape(isolation);
    const probes = `${tcpProbe === null ? '' : shapes.grant(tcpProbe)} ${tableShape(tlsProbes, shapes)}`;
    const own = `${protocol} ${hasRequestRules} ${shapes.grants(grants)} ${tableShape(routes, shapes)}`;
    return shapes.of(`port ${own} ${probes} ${shapes.limit(rateLimit)} ${closed}`);
  }

  #isolationShape({ policies, openings, always }: NetworkIsolation): string {
    if (policies.length === 0) return '';
    const { shapes, port } = this.#options;
    const from = openings
      .filter(
        ({ ports }) => ports === null || ports.some(({ first, last }) => first <= port.sample && port.sample <= last),
      )
      .map((opening) => shapes.networks(opening.from));
    return `${from.sort().join()} ${shapes.networks(always)}`;
  }

  /** Of what carries no requests. */
  *#connections({ modes, kinds, protocols }: Manner, space: ClientSpace): Generator<QuestionBlock> {
    const [protocol] = protocols;
    if (protocol === undefined) return;
    const lists = this.#ports.map((port) => this.#connectionLists(port));
    const ask = (client: ClientCell) => connectionQuestion(this.#options.port.sample, protocol, client);
    const all = space.cells(lists.flat(), kinds, this.#options.shapes);
    const cells = modes.includes('probes') ? all.filter((cell) => this.#isUnread(ask(cell), cell)) : all;
    yield* this.#judged(cells, space, kinds, protocols, null, ask);
  }

  /** Whether every policy decides on the connection: TLS that may hold probes is read where it would not go on as it is. */
  #isUnread(example: QuestionBlock['example'], client: ClientCell): boolean {
    if (client.sample.tls.kind !== 'passthrough') return true;
    return this.#outcomes(example, client).every(({ tcp }) => tcp !== null);
  }

  #connectionLists({ grants, tcpProbe, tlsProbes, protocol }: CompiledPort): AskedGrants[] {
    const seesTls = protocol !== 'opaque';
    const probes = tcpProbe === null ? [] : [{ role: 'tcp probe', list: new GrantList([tcpProbe]), seesTls }];
    const tls = (tlsProbes?.rules ?? []).map(({ grants: list }, i) => ({ role: `tls probe ${i}`, list, seesTls }));
    return [{ role: 'connection', list: grants, seesTls }, ...probes, ...tls];
  }

  /** Every way in which what comes is taken. Requests that no policy reads are bytes like any other. */
  #manners(): Manner[] {
    const manners = new Map<
      string,
      { modes: readonly Mode[]; kinds: TlsClass['kind'][]; protocols: AskedProtocol[] }
    >();
    for (const kinds of kindGroups) {
      const byModes = new Map<string, { modes: readonly Mode[]; protocols: AskedProtocol[] }>();
      for (const protocol of ['http1', 'http2', 'grpc'] as const) {
        const modes = this.#ports.map((port) => modeOf(port, kinds[0], protocol));
        const known = byModes.get(modes.join());
        if (known === undefined) byModes.set(modes.join(), { modes, protocols: [protocol] });
        else known.protocols.push(protocol);
      }
      const bytes = this.#ports.map((): Mode => 'bytes');
      const unread = byModes.get(bytes.join())?.protocols ?? [];
      byModes.set(bytes.join(), { modes: bytes, protocols: ['tcp', ...unread] });
      byModes.set('silence', { modes: bytes, protocols: ['connect'] });
      for (const { modes, protocols } of byModes.values()) {
        // Where TLS for others may hold probes, even bytes are answered otherwise in it.
        const apart = kinds[0] === 'passthrough' && this.#ports.some(({ tlsProbes }) => tlsProbes !== null);
        const key = `${modes.join()} ${protocols.join()} ${apart}`;
        const known = manners.get(key);
        if (known === undefined) manners.set(key, { modes, kinds: [...kinds], protocols });
        else known.kinds.push(...kinds);
      }
    }
    return [...manners.values()];
  }

  *#requests(manner: Manner, space: ClientSpace, tests: readonly NamedMatch[]): Generator<QuestionBlock> {
    const { shapes, scope, effort, unexamined } = this.#options;
    const tables = manner.modes.map((mode, i) => ({ chains: this.#chainsOf(i, mode) }));
    const respelled = tables.some(({ chains }) => chains.some(({ role }) => role.startsWith('folded')));
    const groups = new Map<string, { readonly protocols: readonly AskedProtocol[]; readonly leaves: Leaf[] }>();
    const routes = this.#tables();
    const meet = parametersMeet(routes);
    const wanted = this.#ports.length > 1 && this.#routesDecide(manner) && !meet ? 'different' : 'all';
    const search = {
      tables,
      shapes,
      scope,
      wanted,
      aliases: this.#aliases(),
      parametersMeet: meet,
      effort,
      unexamined,
    } as const;
    const file = (leaf: Leaf): void => {
      const own = protocolsOf(leaf, manner.protocols);
      if (own.length === 0) return;
      // A request without a path is one more of the same, even where HTTP/2 has no such request.
      const protocols = leaf.path.kind === 'none' ? manner.protocols : own;
      const holding = leaf.holding.filter(({ kind }) => kind === 'identity' || kind === 'alias');
      const failing = leaf.failing.filter(({ kind }) => kind === 'identity');
      const tests = holding.length + failing.length === 0 ? '' : JSON.stringify([holding, failing]);
      const found = leaf.found.map((link) => (link === null ? '' : shapes.done(link, respelled)));
      const escaped = leaf.host.kind === 'escaped';
      const apart = hasOtherReadings(leaf.witness, routes) ? groups.size : null;
      const key = `${found.join('|')} ${escaped} ${protocols.join()} ${apart} ${tests}`;
      const group = groups.get(key);
      if (group === undefined) groups.set(key, { protocols, leaves: [leaf] });
      else group.leaves.push(leaf);
    };
    for (const leaf of leavesOf(search)) file(leaf);
    for (const { protocols, leaves } of groups.values()) yield* this.#group(manner, protocols, leaves, space, tests);
  }

  #tables(): readonly (RouteTable | null)[] {
    return this.#ports.flatMap(({ routes, tlsProbes }) => [routes, tlsProbes]);
  }

  /** Whether requests that find the same can only be decided alike by both policies. */
  #routesDecide({ modes }: Manner): boolean {
    const { sides, shapes } = this.#options;
    const [limit, ...limits] = this.#ports.map(({ rateLimit }) => shapes.limit(rateLimit));
    const [closed, ...others] = sides.map(({ index }) => this.#isolationShape(index.isolation));
    if (modes.includes('probes')) return false;
    return limits.every((other) => other === limit) && others.every((other) => other === closed);
  }

  #chainsOf(side: number, mode: Mode): readonly RuleChain[] {
    const port = this.#ports[side];
    const table = mode === 'bytes' ? null : mode === 'routes' ? port?.routes : port?.tlsProbes;
    if (table === null || table === undefined) return [];
    const chains = this.#chains.get(table) ?? chainsOf(table);
    this.#chains.set(table, chains);
    return chains;
  }

  /** Header names of which only one policy refuses other spellings. */
  #aliases(): readonly string[] {
    if (this.#ports.length < 2) return [];
    const names = this.#ports.map(({ routes }) => new Set(headerTests(routes).map(({ name }) => name)));
    const all = new Set(names.flatMap((set) => [...set]));
    return [...all].filter(
      (name) => !isIdentityName(name) && /[^a-z0-9]/.test(name) && !names.every((set) => set.has(name)),
    );
  }

  /** Requests that find the same rules: clients divide by who is let in there. */
  *#group(
    manner: Manner,
    protocols: readonly AskedProtocol[],
    leaves: readonly Leaf[],
    space: ClientSpace,
    tests: readonly NamedMatch[],
  ): Generator<QuestionBlock> {
    const [first] = leaves;
    if (first === undefined) return;
    const questionOf = (client: ClientCell, leaf: Leaf): QuestionBlock['example'] => {
      const [protocol = 'http1'] = protocolsOf(leaf, protocols);
      return requestQuestion(this.#options.port.sample, protocol, client, leaf);
    };
    const lists = this.#listsOf(manner, first);
    const cells = space
      .cells(lists, manner.kinds, this.#options.shapes)
      .filter((cell) => identityFits(first, cell.sample.tls, tests))
      .filter((cell) => manner.modes.includes('routes') || !this.#isUnread(questionOf(cell, first), cell));
    const [probe] = cells;
    if (probe === undefined) return;
    // What one client is answered tells whether the requests are alike indeed.
    for (const alike of this.#alike(leaves, (leaf) => questionOf(probe, leaf), probe)) {
      const ask = (client: ClientCell) => questionOf(client, alike[0] as Leaf);
      yield* this.#judged(cells, space, manner.kinds, protocols, alike, ask);
    }
  }

  #alike(leaves: readonly Leaf[], ask: (leaf: Leaf) => QuestionBlock['example'], client: ClientCell): Leaf[][] {
    const groups = new Map<string, Leaf[]>();
    for (const leaf of leaves) {
      const key = this.#outcomes(ask(leaf), client, leaf).map(outcomeKey).join('|');
      const group = groups.get(key);
      if (group === undefined) groups.set(key, [leaf]);
      else group.push(leaf);
    }
    return [...groups.values()];
  }

  #listsOf({ modes }: Manner, { found }: Leaf): AskedGrants[] {
    let at = 0;
    return modes.flatMap((mode, i) => {
      const port = this.#ports[i] as CompiledPort;
      const count = this.#chainsOf(i, mode).length;
      const links = found.slice(at, at + count);
      at += count;
      const seesTls = port.protocol !== 'opaque';
      const rules = links.flatMap((link, place) =>
        link === null ? [] : [{ role: `${mode} ${place}`, list: link.rule.grants, seesTls }],
      );
      return mode === 'routes' ? rules : [...rules, ...this.#connectionLists(port)];
    });
  }

  /** The clients of a group by what becomes of them. */
  *#judged(
    cells: readonly ClientCell[],
    space: ClientSpace,
    kinds: readonly TlsClass['kind'][],
    protocols: readonly AskedProtocol[],
    requests: readonly Leaf[] | null,
    ask: (client: ClientCell) => QuestionBlock['example'],
  ): Generator<QuestionBlock> {
    const compares = this.#options.sides.length > 1;
    const [asked] = requests ?? [];
    const mayBeAlike = compares && !(asked !== undefined && hasOtherReadings(asked.witness, this.#tables()));
    const byOutcome = new Map<
      string,
      { outcomes: readonly Answered[]; clients: ClientCell[]; example: QuestionBlock['example'] }
    >();
    for (const client of cells) {
      if (mayBeAlike && this.#surelyAlike(client, asked)) continue;
      const example = ask(client);
      const outcomes = this.#outcomes(example, client, asked);
      const keys = outcomes.map(outcomeKey);
      if (compares && keys[0] === keys[1]) continue;
      const known = byOutcome.get(keys.join('|'));
      if (known === undefined) byOutcome.set(keys.join('|'), { outcomes, clients: [client], example });
      else known.clients.push(client);
    }
    const { port } = this.#options;
    const tls = space.ofKinds(kinds);
    for (const { outcomes, clients, example } of byOutcome.values()) {
      yield { port, protocols, clients, addresses: space.addresses, tls, requests, example, outcomes };
    }
  }

  /** Both policies credit equal authorizations, for rules that do the same, and nothing else is different. */
  #surelyAlike({ grants, roles, sample }: ClientCell, leaf?: Leaf): boolean {
    const { sides, shapes, port } = this.#options;
    const [a, b] = this.#ports as [CompiledPort, CompiledPort];
    const half = grants.length / 2;
    const found = leaf?.found ?? [];
    if (roles.some((role, i) => role !== roles[(i + half) % grants.length])) return false;
    if (leaf !== undefined && leaf.counts[0] !== leaf.counts[1]) return false;
    if (a.protocol !== b.protocol) return false;
    if (a.hasRequestRules !== b.hasRequestRules || leaf?.host.kind === 'escaped') return false;
    if (leaf?.holding.some(({ kind }) => kind === 'alias') === true) return false;
    const grantOf = (at: number): number => {
      const grant = grants[at] ?? null;
      return grant === null ? -1 : shapes.grant(grant);
    };
    const effectsOf = (at: number): string => {
      const link = found[at] ?? null;
      return link === null ? '' : shapes.effects(link);
    };
    for (let i = 0; i < half; i++) if (grantOf(i) !== grantOf(half + i)) return false;
    for (let i = 0; i < found.length / 2; i++) if (effectsOf(i) !== effectsOf(found.length / 2 + i)) return false;
    const name = sample.tls.kind === 'identity' ? sample.tls.name : null;
    const [before, after] = sides.map(({ index }) => index.isolation.admits(port.sample, sample.ip).kind);
    return before === after && limitText(a.rateLimit, name) === limitText(b.rateLimit, name);
  }

  #outcomes(example: QuestionBlock['example'], { sample: { tls } }: ClientCell, leaf?: Leaf): Answered[] {
    const name = tls.kind === 'identity' ? tls.name : null;
    let at = 0;
    return this.#options.judges.map((judge, i) => {
      const port = this.#ports[i] as CompiledPort;
      const outcome = judge.outcome(example, limitText(port.rateLimit, name));
      const link = leaf?.found[at];
      if (leaf !== undefined) at += leaf.counts[i] ?? 0;
      if (outcome.verdict !== 'redirect' || link?.rule.redirect === null || link === undefined || link === null)
        return outcome;
      return { ...outcome, effects: [`redirect ${JSON.stringify([link.rule.redirect, link.prefix])}`] };
    });
  }
}

const anyIp = ipv4(0x0a000001);

function modeOf(port: CompiledPort, kind: TlsClass['kind'], protocol: 'http1' | 'http2' | 'grpc'): Mode {
  if (kind === 'passthrough') return port.tlsProbes === null ? 'bytes' : 'probes';
  const tls: ClientTls =
    port.protocol === 'opaque' || kind === 'none'
      ? { kind: 'none', reason: 'no_tls_from_remote' }
      : { kind: 'mesh', identity: null };
  return isBytes(port, { ip: anyIp, tls }, protocol) ? 'bytes' : 'routes';
}

/** Whether a client may send such requests: routes may ask for its identity as they do for a header. */
function identityFits({ holding, failing }: Leaf, tls: TlsClass, tests: readonly NamedMatch[]): boolean {
  if (tests.length === 0) return true;
  return (
    holding.every((test) => test.kind !== 'identity' || nameHolds(test.match, tls)) &&
    failing.every((test) => test.kind !== 'identity' || !nameHolds(test.match, tls))
  );
}
