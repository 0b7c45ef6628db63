import { parse } from 'yaml';
import type { Workload } from '../policy/workload.ts';
import { wrapped } from '../printable.ts';
import type { ResourceRef } from '../resource-ref.ts';
import { accountOf, type ClientSeen, type Grant, type NetworkBlock } from './clients.ts';
import { commented, counted, number, period, printable, times } from './comments.ts';
import type { PortDraft, RouteDraft, SuggestedAddition } from './draft.ts';
import type { Match } from './matches.ts';
import type { Existing } from './merge.ts';
import { Names } from './names.ts';
import { formText, patternOf, segmentsOf } from './paths.ts';

export type WriteFacts = Pick<Workload, 'namespace' | 'labels' | 'controlPlaneNamespace' | 'trustDomain'>;

/** Most matches of one rule, and rules of one route, as the Gateway API's CRDs allow. */
const mostMatches = 8;
const mostRules = 16;
/** Clients and documents that a comment names one by one. */
const mostNamed = 4;

const linkerd = 'policy.linkerd.io';
const gateway = 'gateway.networking.k8s.io';

/** A document, as lines of YAML, with the comments above it. */
export interface WrittenDocument {
  readonly comments: readonly string[];
  readonly lines: readonly string[];
}

/** Writes documents for a draft, each with the evidence for it. */
export class Writer {
  readonly #facts: WriteFacts;
  readonly #names: Names;
  readonly #isOpenTo: Existing['isOpenTo'];
  readonly documents: WrittenDocument[] = [];

  /** @param beside names that are taken, and which Servers have clients of their own, in a policy that exists. */
  constructor(facts: WriteFacts, beside: Pick<Existing, 'names' | 'isOpenTo'> | null) {
    this.#facts = facts;
    this.#names = new Names(beside?.names ?? []);
    this.#isOpenTo = (server) => beside?.isOpenTo(server) === true;
  }

  port(port: PortDraft): void {
    const app = appName(this.#facts);
    const server = this.#names.unique(`${app}-${port.name}`);
    this.#server(port, server);
    this.#routes(port.routes, server, port.protocol === 'gRPC');
    this.#grants(port.grants, { group: linkerd, kind: 'Server', name: server }, server);
  }

  #server(port: PortDraft, name: string): void {
    const selector = selectorOf(this.#facts);
    const what = port.kind === 'routes' ? requests(port.seen.count) : connections(port.seen.count);
    const comments = [`Port ${port.port}: ${what}${period(port.seen)}.`];
    if (port.kind === 'connections') {
      comments.push(
        'Not all that came on it was HTTP. Bytes have no routes, and beside routes no bytes pass: each client may do all.',
      );
    }
    if (this.#isOpenTo({ name })) {
      comments.push(
        'Wider than what was seen: who is authorized for every Server of the namespace may use this one, too.',
      );
    }
    if (selector === '{}')
      comments.push('The labels of the pod are not known: this selects every pod of the namespace.');
    this.#document(comments, `${linkerd}/v1beta3`, 'Server', name, [
      `podSelector: ${selector}`,
      `port: ${scalar(port.name)}`,
      ...(port.protocol === 'unknown' ? [] : [`proxyProtocol: ${port.protocol}`]),
    ]);
  }

  /** Beside what there is. */
  addition(addition: SuggestedAddition): void {
    if (addition.kind === 'routes') {
      const { server, routes, calls } = addition;
      const comments = this.#isOpenTo(server)
        ? [`Wider than what was seen: who is authorized for all of Server ${server.name} may use this route, too.`]
        : [];
      this.#routes(routes, server.name, calls, comments);
      return;
    }
    const { target, grants, asked } = addition;
    this.#grants(grants, target, target.name, [
      `Wider than what was seen: for all of ${documentText(target)}. Seen: ${listText(asked)}.`,
    ]);
  }

  #routes(routes: readonly RouteDraft[], server: string, calls: boolean, comments: readonly string[] = []): void {
    for (const route of routes) this.#route(route, server, calls, comments);
  }

  #route({ host, matches, grants }: RouteDraft, server: string, calls: boolean, comments: readonly string[]): void {
    const perRoute = mostMatches * mostRules;
    for (let at = 0; at < matches.length; at += perRoute) {
      const own = matches.slice(at, at + perRoute);
      const name = this.#names.unique(`${server}-${routeWord(own[0] as Match)}`);
      this.#routeDocument(own, host, server, name, calls, comments);
      const kind = calls ? 'GRPCRoute' : 'HTTPRoute';
      this.#grants(grants, { group: calls ? gateway : linkerd, kind, name }, name);
    }
  }

  #routeDocument(
    matches: readonly Match[],
    host: string | null,
    server: string,
    name: string,
    calls: boolean,
    comments: readonly string[],
  ): void {
    const lines = [
      `parentRefs: [{ group: ${linkerd}, kind: Server, name: ${scalar(server)} }]`,
      ...(host === null ? [] : [`hostnames: [${scalar(host)}]`]),
      'rules:',
    ];
    for (let at = 0; at < matches.length; at += mostMatches) {
      lines.push('  - matches:');
      for (const match of matches.slice(at, at + mostMatches)) {
        lines.push(
          ...evidenceText(match).map((text) => `      # ${text}`),
          `      - ${calls ? callText(match) : matchText(match)}`,
        );
      }
    }
    const version = calls ? `${gateway}/v1` : `${linkerd}/v1beta3`;
    this.#document(comments, version, calls ? 'GRPCRoute' : 'HTTPRoute', name, lines);
  }

  /** One AuthorizationPolicy for each kind of client, with what it refers to. */
  #grants(grants: readonly Grant[], target: ResourceRef, base: string, comments: readonly string[] = []): void {
    const { group, kind, name } = target;
    for (const grant of grants) {
      const own = this.#names.unique(
        grants.length === 1 ? `${base}-clients` : `${base}-${grant.kind === 'both' ? 'clients' : grant.kind}`,
      );
      const required = [
        ...('names' in grant ? [this.#identities(grant.names, own)] : []),
        ...('blocks' in grant ? [this.#networks(grant.blocks, own)] : []),
      ];
      const said = [...comments, `By ${clientsText(grant.seen)}.`];
      this.#document(said, `${linkerd}/v1alpha1`, 'AuthorizationPolicy', own, [
        `targetRef: { group: ${group}, kind: ${kindText(kind)}, name: ${scalar(name)} }`,
        'requiredAuthenticationRefs:',
        ...required.map((ref) => `  - ${ref}`),
      ]);
    }
  }

  /** @returns the reference to them. */
  #identities(names: readonly string[], base: string): string {
    const accounts = names.map((name) => accountOf(name, this.#facts));
    const [only] = accounts;
    if (accounts.length === 1 && only !== undefined && only !== null) return accountRef(only, this.#facts);
    const lines = accounts.every((account) => account !== null)
      ? ['identityRefs:', ...accounts.map((account) => `  - ${accountRef(account, this.#facts)}`)]
      : ['identities:', ...names.map((name) => `  - ${scalar(name)}`)];
    this.#document([], `${linkerd}/v1alpha1`, 'MeshTLSAuthentication', base, lines);
    return `{ group: ${linkerd}, kind: MeshTLSAuthentication, name: ${scalar(base)} }`;
  }

  #networks(blocks: readonly NetworkBlock[], base: string): string {
    const lines = blocks.flatMap(({ cidr, addresses, widest }) => [
      ...(widest === null
        ? []
        : [`  # Holds ${addresses} addresses that were seen; no network wider than /${widest} is made of such.`]),
      cidr === 'podClusterIp' ? '  - podClusterIp' : `  - { cidr: ${scalar(cidr)} }`,
    ]);
    this.#document([], `${linkerd}/v1alpha1`, 'NetworkAuthentication', base, ['networks:', ...lines]);
    return `{ group: ${linkerd}, kind: NetworkAuthentication, name: ${scalar(base)} }`;
  }

  #document(
    comments: readonly string[],
    apiVersion: string,
    kind: string,
    name: string,
    spec: readonly string[],
  ): void {
    const metadata = `{ name: ${scalar(name)}, namespace: ${scalar(this.#facts.namespace)} }`;
    const lines = [
      `apiVersion: ${apiVersion}`,
      `kind: ${kind}`,
      `metadata: ${metadata}`,
      'spec:',
      ...spec.map((line) => `  ${line}`),
    ];
    this.documents.push({ comments: comments.flatMap(linesOf), lines });
  }
}

/** The whole text: a head of comments, then the documents. */
export function policyText(head: readonly string[], documents: readonly WrittenDocument[]): string {
  const texts = documents.map(({ comments, lines }) => `${[...comments.map(commented), ...lines].join('\n')}\n`);
  return `${head.map((each) => linesOf(each).map(commented).join('\n')).join('\n#\n')}\n\n${texts.join('---\n')}`;
}

function evidenceText({ form, method, why, seen, callers }: Match): string[] {
  const by = callers.size === 1 ? '1 client' : `${callers.size} clients`;
  const evidence = `${capital(times(seen.count))}, by ${by}${period(seen)}.`;
  return why === null ? [evidence] : [`${printable(`${method} ${formText(form)}`)}: ${why}.`, evidence];
}

function matchText({ form, method, variant }: Match): string {
  const path =
    form.kind === 'exact'
      ? `{ type: Exact, value: ${scalar(form.path)} }`
      : `{ type: RegularExpression, value: ${scalar(patternOf(form.parts))} }`;
  return `{ path: ${path}, method: ${method}${headersText(variant)} }`;
}

function headersText(variant: Match['variant']): string {
  if (variant === null || variant.headers.length === 0) return '';
  const each = variant.headers.map(([name, value]) => `{ name: ${scalar(name)}, value: ${scalar(value)} }`);
  return `, headers: [${each.join(', ')}]`;
}

function callText({ form, variant }: Match): string {
  const [service = '', method = ''] = form.kind === 'exact' ? segmentsOf(form.path) : [];
  return `{ method: { service: ${scalar(service)}, method: ${scalar(method)} }${headersText(variant)} }`;
}

function kindText(kind: string): string {
  return kind === 'server' ? 'Server' : kind;
}

function documentText({ kind, name }: ResourceRef): string {
  return `${kindText(kind)} ${name}`;
}

function listText(asked: ReadonlySet<string>): string {
  const named = [...asked].slice(0, mostNamed).map(printable);
  return [...named, ...(asked.size > mostNamed ? [`${number(asked.size - mostNamed)} more`] : [])].join(', ');
}

function accountRef({ namespace, name }: { namespace: string; name: string }, facts: WriteFacts): string {
  const elsewhere = namespace === facts.namespace ? '' : `, namespace: ${scalar(namespace)}`;
  return `{ kind: ServiceAccount, name: ${scalar(name)}${elsewhere} }`;
}

/** A word of the path that tells a route from others. */
function routeWord({ form, carried }: Match): string {
  const segments =
    form.kind === 'exact' ? segmentsOf(form.path) : form.parts.flatMap((p) => (p.kind === 'text' ? [p.text] : []));
  const [first = ''] = segments.filter((segment) => /[a-z]/i.test(segment) && !/^v\d+$/.test(segment));
  const word = carried === 'grpc' ? (first.split('.').at(-1) ?? '') : first;
  return word === '' ? 'root' : word;
}

const telling = [
  'app',
  'app.kubernetes.io/name',
  'k8s-app',
  'app.kubernetes.io/instance',
  'app.kubernetes.io/component',
];
/** Labels that differ from pod to pod of one workload. */
const fleeting =
  /^(?:pod-template-hash|controller-revision-hash|pod-template-generation|statefulset\.kubernetes\.io\/.*|apps\.kubernetes\.io\/pod-index|batch\.kubernetes\.io\/.*|job-name|linkerd\.io\/.*)$/;

function appName({ labels }: WriteFacts): string {
  for (const label of telling) {
    const value = labels.get(label);
    if (value !== undefined && value !== '') return value;
  }
  return 'app';
}

function selectorOf({ labels }: WriteFacts): string {
  const own = [...labels].filter(([name]) => !fleeting.test(name));
  const told = own.filter(([name]) => telling.includes(name));
  const chosen = told.length > 0 ? told : own;
  if (chosen.length === 0) return '{}';
  return `{ matchLabels: { ${chosen.map(([name, value]) => `${scalar(name)}: ${scalar(value)}`).join(', ')} } }`;
}

/** A scalar of YAML within a flow mapping: plain where it reads back as the same string, quoted otherwise. */
function scalar(value: string | number): string {
  if (typeof value === 'number') return String(value);
  // As kubectl reads it: `no` and `on` are no strings in YAML 1.1.
  if (/^[A-Za-z/][\w./-]*$/.test(value) && parse(value, { version: '1.1' }) === value) return value;
  return JSON.stringify(value).replace(
    /[\u007f-\uffff]/g,
    (each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

function clientsText(seen: readonly ClientSeen[]): string {
  const named = seen.slice(0, mostNamed).map(({ text, count }) => `${printable(text)} (${number(count)})`);
  const others = seen.length - named.length;
  return [...named, ...(others > 0 ? [`${number(others)} more`] : [])].join(', ');
}

const requests = (count: number): string => counted(count, 'request');
const connections = (count: number): string => counted(count, 'connection');

function capital(text: string): string {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}

/** Lines of at most a hundred characters. */
function linesOf(text: string): string[] {
  return wrapped(text, 100).split('\n');
}
