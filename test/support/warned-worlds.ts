import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { parseAllDocuments } from 'yaml';
import { demoPolicy } from '../../bin/demo-policy.ts';
import type { ExplainQuery } from '../../lib/policy/explain.ts';
import type { Workload } from '../../lib/policy/workload.ts';
import { queryOf, workloadOf } from './case-world.ts';
import { bothOf } from './cases.ts';
import { type RecordedDecision, readRecordedWorlds, recordedDecision } from './linkerd-cases.ts';
import { afterStep, allChecks, type PolicyDocument, podOf, readPolicyCases } from './policy-cases.ts';
import { account, ip, workload } from './policy-fixtures.ts';
import { randomPolicy, randomRequest } from './random-worlds.ts';
import { checkout } from './sallyport.ts';
import { comparedWorkload, ports, queryOf as randomQuery } from './two-policies.ts';

/*
 * Every policy that there is, with questions: what was recorded or expected of it, and what its own documents speak of, by
 * clients of all kinds. None of the questions is made by what check asks itself.
 */

export interface WarnedWorld {
  readonly name: string;
  readonly documents: readonly PolicyDocument[];
  readonly workload: Workload;
  readonly questions: readonly ExplainQuery[];
  /** What Linkerd decided. */
  readonly recorded: readonly RecordedDecision[];
}

/** Questions of a world beside those of its cases. */
const mostMade = 1000;

export function warnedWorlds(): WarnedWorld[] {
  return [...pages(), ...cases(), ...recordings(), ...random()];
}

function pages(): WarnedWorld[] {
  const rows = [
    ['README.md', { labels: { app: 'web' } }],
    ['lib/deploy/README.md', { labels: { app: 'web' } }],
    ['demo', { labels: { app: 'web' } }],
  ] as const;
  return rows.flatMap(([page, { labels }]) => {
    const text = page === 'demo' ? demoPolicy : readFileSync(join(checkout, page), 'utf8');
    const blocks = page === 'demo' ? [text] : [...text.matchAll(/```yaml\n(.*?)```/gs)].map(([, block = '']) => block);
    const shown = blocks.filter((block) => block.includes('kind: Server'));
    return shown.map((block, i) => {
      const documents = parseAllDocuments(block).map((document) => document.toJS() as PolicyDocument);
      const namespace = documents[0]?.metadata.namespace ?? 'default';
      const of = workload({ namespace, labels: new Map(Object.entries(labels)), namedPorts, adminPort: 4191 });
      return {
        name: `${page}, policy ${i + 1}`,
        documents,
        workload: of,
        questions: made(documents, of),
        recorded: [],
      };
    });
  });
}

const namedPorts = new Map([
  ['http', [8080]],
  ['linkerd-admin', [4191]],
]);

function cases(): WarnedWorld[] {
  return bothOf(readPolicyCases()).flatMap((all) =>
    all.cases.flatMap((policyCase) => {
      const { id, resources, rejected = [], steps = [] } = policyCase;
      const of = workloadOf(id, podOf(all, policyCase), { ...all.defaults.settings, ...policyCase.settings });
      const asked = allChecks(policyCase).map(({ client, request }) => queryOf(client, request));
      let documents = resources.filter(({ kind, metadata }) => !rejected.includes(`${kind}/${metadata.name}`));
      const states = [documents];
      for (const step of steps) {
        documents = afterStep(documents, step);
        states.push(documents);
      }
      return states.map((state, i) => ({
        name: `${id}, state ${i}`,
        ...{ documents: state, workload: of, recorded: [] },
        questions: [...asked, ...made(state, of)],
      }));
    }),
  );
}

function recordings(): WarnedWorld[] {
  return bothOf(readRecordedWorlds()).flatMap((worlds) =>
    worlds.map(({ id, pod, settings, resources, refused, checks }) => {
      const of = workloadOf(id, pod, settings);
      const never = new Set(refused.map(({ doc }) => doc));
      const documents = resources.filter(({ kind, metadata }) => !never.has(`${kind}/${metadata.name}`));
      const asked = checks.map(({ client, request }) => queryOf(client, request));
      const questions = [...asked, ...made(documents, of)];
      return { name: id, documents, workload: of, questions, recorded: checks.map(recordedDecision) };
    }),
  );
}

/** The same ones each time. */
function random(): WarnedWorld[] {
  const requests = fc.sample(randomRequest(ports), { numRuns: 500, seed: 1 }).map(randomQuery);
  return fc.sample(randomPolicy(ports), { numRuns: 120, seed: 1 }).map((policy, i) => {
    const documents = policy as readonly PolicyDocument[];
    const questions = [...requests, ...made(documents, comparedWorkload)];
    return { name: `random ${i}`, documents, workload: comparedWorkload, questions, recorded: [] };
  });
}

/** Questions of what documents speak of: each path, method, header, host, port, network and identity, and others. */
function made(documents: readonly PolicyDocument[], { namedPorts: names, ips }: Workload): ExplainQuery[] {
  const said = new Said();
  for (const { spec, metadata } of documents) said.add(spec, metadata.namespace);
  const own = [...said.ports].flatMap((port) => names.get(port) ?? (/^\d+$/.test(port) ? [Number(port)] : []));
  const ports = [...new Set([...own, 8080, 4191])].slice(0, 4);
  const identities = [...said.identities, account('checkout'), account('stranger', 'elsewhere'), 'web.example.org'];
  const addresses = [
    ...said.addresses,
    '10.1.2.3',
    '203.0.113.9',
    '2001:db8::1',
    '127.0.0.1',
    ...ips.map(({ text }) => text),
  ];
  const clients = [
    ...addresses.map((from) => ({ ip: ip(from) })),
    ...identities.map((identity) => ({ ip: ip('10.1.2.3'), identity })),
    { ip: ip('10.1.2.3'), tls: 'anonymous' as const },
    { ip: ip('10.1.2.3'), tls: 'passthrough' as const },
  ];
  const headers = [[], ...said.headers];
  const requests = [...new Set([...said.paths, '/', '/somewhere'])].flatMap((path) =>
    [...new Set(['GET', 'POST', ...said.methods])].flatMap((method) =>
      (['http1', 'http2', 'grpc', 'tcp'] as const).flatMap((protocol) =>
        [...new Set([...said.hosts, 'web'])].flatMap((host) =>
          headers.map((each) => ({ path, method, protocol, host, headers: each })),
        ),
      ),
    ),
  );
  const all = ports.length * clients.length * requests.length;
  // A stride that shares no factor with any of the lists meets all of their members in turn.
  const stride = all <= mostMade ? 1 : strideFor(all);
  return Array.from({ length: Math.min(all, mostMade) }, (_, i) => {
    const at = (i * stride) % all;
    const request = requests[at % requests.length];
    const client = clients[Math.floor(at / requests.length) % clients.length];
    const port = ports[Math.floor(at / requests.length / clients.length)] ?? 8080;
    return { port, ip: ip('10.1.2.3'), ...client, ...request };
  });
}

function strideFor(all: number): number {
  const divides = (a: number, b: number): number => (b === 0 ? a : divides(b, a % b));
  let stride = Math.floor(all * 0.618);
  while (divides(all, stride) !== 1) stride += 1;
  return stride;
}

/** What documents say, whatever field it stands in. */
class Said {
  readonly ports = new Set<string>();
  readonly paths = new Set<string>();
  readonly methods = new Set<string>();
  readonly hosts = new Set<string>();
  readonly headers: [string, string][][] = [];
  readonly identities = new Set<string>();
  readonly addresses = new Set<string>();

  /** @param home the namespace of the document */
  add(value: unknown, home: string): void {
    if (Array.isArray(value)) for (const each of value) this.add(each, home);
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return;
    for (const [field, inner] of Object.entries(value)) {
      this.#field(field, inner, home);
      this.add(inner, home);
    }
  }

  #field(field: string, value: unknown, home: string): void {
    const texts = (Array.isArray(value) ? value : [value]).filter(
      (each) => typeof each === 'string' || typeof each === 'number',
    );
    for (const text of texts.map(String)) {
      if (field === 'port') this.ports.add(text);
      if (field === 'method' && /^[A-Z]+$/.test(text)) this.methods.add(text);
      if (field === 'hostnames') this.hosts.add(text.replace(/^\*/, 'a'));
      if (field === 'identities' && text !== '*') this.identities.add(text.replace(/^\*/, 'a'));
      if (field === 'cidr' || field === 'except' || field === 'networks') this.#address(text);
    }
    if (field === 'path') this.#path(value);
    if (field === 'headers' && Array.isArray(value)) this.#headers(value);
    if (field === 'method' && typeof value === 'object' && value !== null) this.#call(value);
    for (const ref of Array.isArray(value) ? value : [value]) {
      const { kind, name, namespace = home } = (ref ?? {}) as Readonly<Record<string, string>>;
      if (kind === 'ServiceAccount' && name !== undefined) this.identities.add(account(name, namespace));
    }
  }

  #path(value: unknown): void {
    const { value: path = '/' } = (value ?? {}) as { readonly value?: unknown };
    if (typeof path !== 'string' || !/^\/[\w/.-]*$/.test(path)) return;
    for (const text of [path, `${path}/x`.replace('//', '/'), `${path}x`]) this.paths.add(text);
  }

  #headers(values: readonly unknown[]): void {
    const pairs = values.flatMap((each): [string, string][] => {
      const { name, value } = (each ?? {}) as { readonly name?: unknown; readonly value?: unknown };
      return typeof name === 'string' && typeof value === 'string' ? [[name, value]] : [];
    });
    if (pairs.length > 0) this.headers.push(pairs);
  }

  #call(value: object): void {
    const { service, method = 'Any' } = value as { readonly service?: unknown; readonly method?: unknown };
    if (typeof service === 'string') this.paths.add(`/${service}/${String(method)}`);
  }

  #address(text: string): void {
    const [address = ''] = text.split('/');
    if (/^[\d.]+$|:/.test(address) && /^[\da-f.:]+$/i.test(address)) this.addresses.add(address);
  }
}
