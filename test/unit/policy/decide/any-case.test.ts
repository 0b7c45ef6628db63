import t from 'tap';
import type { Client } from '../../../../lib/client.ts';
import { compileNow } from '../../../../lib/policy/compile/compile.ts';
import { decideRequest } from '../../../../lib/policy/decide/decide.ts';
import type { CompiledPort, RouteTable } from '../../../../lib/policy/decide/policy-index.ts';
import type { RequestDecision, RequestFacts } from '../../../../lib/policy/decision.ts';
import { readDocuments } from '../../../../lib/policy/documents/read.ts';
import { document, ip, open, policy, route, server, sources, workload } from '../../../support/policy-fixtures.ts';

/*
 * Matches that a table says are the same in every spelling are not looked for again without case. Whatever the policy, the
 * decision must be the one that looking for them again would have made.
 */

/** What a seed picks from: names that differ by case alone, prefixes of each other, and any name. */
const services = ['a.B', 'a.b', 'A.B', 'c.D', null];
const methods = ['Get', 'get', 'Drop', null];
const paths = ['/', '/Admin', '/admin', '/Admin/Keys', '/admin/keys', '/b'];
const hosts = ['', '', '', 'web.example', '*.example'];

function picker(seed: number): <Item>(items: readonly Item[]) => Item {
  let state = Math.imul(seed, 0x9e3779b1) >>> 0;
  return (items) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return items[Math.floor((state / 2 ** 32) * items.length)] as (typeof items)[number];
  };
}

function grpcRoute(name: string, matches: string, host: string): string {
  const hostnames = host === '' ? '' : `hostnames: ["${host}"], `;
  const spec = `{${hostnames}parentRefs: [{group: policy.linkerd.io, kind: Server, name: web}], rules: [${matches}]}`;
  return document('GRPCRoute', name, spec, 'gateway.networking.k8s.io/v1');
}

function grpcPolicy(seed: number): string {
  const pick = picker(seed);
  const routes = Array.from({ length: pick([1, 1, 2, 3]) }, (_, i) => {
    const service = pick(services);
    const method = pick(methods);
    const named = [service === null ? '' : `service: ${service}`, method === null ? '' : `method: ${method}`];
    const match = named.filter((part) => part !== '').join(', ');
    const text = grpcRoute(`r${i}`, match === '' ? '{}' : `{matches: [{method: {${match}}}]}`, pick(hosts));
    const target = `group: gateway.networking.k8s.io, kind: GRPCRoute, name: r${i}`;
    return pick([true, true, false])
      ? text + policy(`r${i}-open`, target).replace('group: policy.linkerd.io, ', '')
      : text;
  });
  return server('proxyProtocol: gRPC') + routes.join('');
}

function httpPolicy(seed: number): string {
  const pick = picker(seed);
  const routes = Array.from({ length: pick([0, 1, 1, 1, 2, 3]) }, (_, i) => {
    const type = pick(['Exact', 'PathPrefix', 'PathPrefix']);
    const query = pick(['', '', ', queryParams: [{name: q, value: "1"}]']);
    const text = route(`r${i}`, `{path: {type: ${type}, value: ${pick(paths)}}${query}}`);
    return pick([true, true, false]) ? text + open(`r${i}`) : text;
  });
  return server() + routes.join('') + (routes.length === 0 ? policy('web-open', 'kind: Server, name: web') : '');
}

const client: Client = { ip: ip('10.20.0.5'), tls: { kind: 'none', reason: 'no_tls_from_remote' } };

function asked(method: string, path: string, query: string, host: string): RequestFacts {
  return { method, path, query, host, grpc: false, carries: 'nothing', header: () => [], oddNames: [] };
}

function port(text: string): CompiledPort {
  const read = readDocuments(sources(text), { namespace: 'shop' });
  const compiled = compileNow(read.documents, workload({ probeNetworks: ['10.9.0.0/16'] }));
  const errors = [...read.problems, ...compiled.problems].filter(({ severity }) => severity === 'error');
  if (errors.length > 0) throw new Error(errors[0]?.message);
  return compiled.index.port(8080);
}

/** As if no match were the same in every spelling. */
function lookingAgain(compiled: CompiledPort): CompiledPort {
  const table = compiled.routes as RouteTable;
  const { traits, namesHosts, rules } = table;
  const routes: RouteTable = {
    find: (question) => table.find(question),
    traits,
    namesHosts,
    rules,
    anyCase: new Set(),
    outline: () => table.outline(),
  };
  return { ...compiled, routes };
}

function outcome(decision: RequestDecision): string {
  return `${decision.kind} ${'route' in decision ? decision.route.name : ''}`;
}

interface Kind {
  readonly make: (seed: number) => string;
  readonly method: string;
  readonly paths: readonly string[];
  readonly queries: readonly string[];
}

const kinds: Readonly<Record<string, Kind>> = {
  gRPC: {
    make: grpcPolicy,
    method: 'POST',
    paths: ['a.B', 'a.b', 'A.B', 'A.b', 'c.D', 'C.D', 'x'].flatMap((service) =>
      ['Get', 'get', 'GET', 'Drop', 'drop', 'x'].map((method) => `/${service}/${method}`),
    ),
    queries: [''],
  },
  HTTP: {
    make: httpPolicy,
    method: 'GET',
    paths: [...paths, '/ADMIN', '/Admin/', '/admin./keys', '/Admin/keys', '/admin/Keys/', '/Live', '/live', '/B'],
    queries: ['', 'q=1', 'q=1&Q=2'],
  },
};

for (const [name, { make, method, paths, queries }] of Object.entries(kinds)) {
  t.test(name, async (t) => {
    let sure = 0;
    let invalid = 0;
    const differing: string[] = [];
    for (let seed = 1; seed <= 400; seed++) {
      const text = make(seed);
      const own = port(text);
      const again = lookingAgain(own);
      sure += own.routes?.anyCase.size ?? 0;
      for (const path of paths) {
        for (const query of queries) {
          for (const host of ['web.example', 'other']) {
            const request = asked(method, path, query, host);
            const expected = outcome(decideRequest(again, client, request, null));
            const found = outcome(decideRequest(own, client, request, null));
            if (expected.startsWith('invalid')) invalid++;
            if (found !== expected) differing.push(`${path}?${query} at ${host}: ${found}, not ${expected}\n${text}`);
          }
        }
      }
    }
    t.equal(differing.length, 0, differing[0] ?? 'none differs');
    t.ok(sure > 100, `${sure} matches are the same in every spelling`);
    t.ok(invalid > 100, `${invalid} requests are refused for one that is not`);
  });
}
