/**
 * A suggested policy against the policy whose decisions it was made of: it lets in all that was let in, nothing that was
 * refused, and nothing that was not seen but what its rules say. Policies and requests at random.
 */
import fc from 'fast-check';
import t from 'tap';
import { authorizerOf } from '../../lib/policy/authorizer.ts';
import { compileNow } from '../../lib/policy/compile/compile.ts';
import type { Authorizer } from '../../lib/policy/decision.ts';
import type { DecisionRecord } from '../../lib/records/record.ts';
import { loadPolicyNow } from '../../lib/reload/load.ts';
import { type Answer, answerTo } from '../../lib/replay/answer.ts';
import { callerKey, Evidence } from '../../lib/suggest/evidence.ts';
import { suggest } from '../../lib/suggest/suggest.ts';
import { workload } from '../support/policy-fixtures.ts';
import {
  identities,
  type RandomDocument,
  type RandomRequest,
  randomPolicy,
  randomRequest,
} from '../support/random-worlds.ts';
import { search, timeLimitMs } from './budget.ts';

t.setTimeout(timeLimitMs);

const ports = [8080, 8081, 8082];
const pod = workload({
  namespace: 'shop',
  labels: new Map([['app', 'web']]),
  namedPorts: new Map([['named', [8080]]]),
});

function inForce(text: string): Authorizer {
  const load = loadPolicyNow({ paths: [], texts: [{ file: 'policy', text }], namespace: 'shop' });
  return authorizerOf(compileNow(load.documents, pod).index);
}

/** As a proxy with that policy would record it: where nobody looks for HTTP, there is none. Null: what is not read at all. */
function recordOf(request: RandomRequest, by: Authorizer): DecisionRecord | null {
  const { port, client, tls, method, path, host, headers } = request;
  const declared = by.port(port).protocol;
  const isBlind = declared === 'opaque' || declared === 'tls' || tls === 'passthrough';
  const seen = typeof tls === 'string' ? { tls } : { identity: tls.identity };
  if (request.protocol !== 'connect' && (isBlind || request.protocol === 'tcp')) {
    // On an opaque port nobody looks for TLS, either.
    const known = declared === 'opaque' ? { tls: 'none' as const } : seen;
    const question = { port, client, ...known, protocol: 'tcp', declared } as const;
    return { form: 'record', question, omits: [], parameters: [], salt: null, decided: null };
  }
  const { protocol } = request;
  const isRequest = protocol !== 'connect';
  const isOne = protocol === 'http1';
  if (isRequest && ((declared === 'http1' && !isOne) || (/^(?:http2|grpc)$/.test(declared) && isOne))) return null;
  const named = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, [value]]));
  return {
    form: 'record',
    question: { port, client, ...seen, protocol, ...(isRequest ? { method, path, host, headers: named } : {}) },
    omits: [],
    parameters: [],
    salt: null,
    decided: null,
  };
}

const portOf = (given: number | string | null | undefined): number | null => (typeof given === 'number' ? given : null);
const answer = (authorizer: Authorizer, record: DecisionRecord): Answer => answerTo(authorizer, record, portOf);

function decided(record: DecisionRecord | null, by: Authorizer): DecisionRecord | null {
  if (record === null) return null;
  const found = answer(by, record);
  if (found.kind === 'unknown') return null;
  const { verdict, status, audit, server, route, authz } = found;
  return { ...record, decided: { verdict, status, audit, server, route, authz, reason: '' } };
}

const once = { count: 1, first: null, last: null, file: 'log', line: 1, comesAgain: true };

interface World {
  readonly documents: readonly RandomDocument[];
  /** Of a policy that exists. */
  readonly existing: readonly RandomDocument[];
  readonly requests: readonly RandomRequest[];
  readonly others: readonly RandomRequest[];
}

function evidenceOf(records: readonly DecisionRecord[]): Evidence {
  const evidence = new Evidence({ refused: false, probesWithRoutes: pod.probesWithRoutes, portOf });
  for (const record of records) evidence.add(record, once);
  return evidence;
}

function check({ documents, requests, others }: World, exact: boolean): { readonly excused: number } {
  const before = inForce(listOf(documents));
  const records = requests.flatMap((request) => decided(recordOf(request, before), before) ?? []);
  const evidence = evidenceOf(records);
  const suggestion = suggest(evidence, pod, { exact, existing: null, load: inForce, portOf });
  const after = inForce(suggestion.text);
  const unnamed = new Set(suggestion.refused.map(({ what }) => what));
  const admitted = new Set(suggestion.allowed.map(questionText));
  for (const record of records) {
    const { question, decided: was } = record;
    const now = answer(after, record);
    const isIn = now.kind === 'decided' && now.verdict === 'permit';
    if (was?.verdict === 'permit' && question.protocol !== 'connect') {
      if (now.kind === 'decided' && !isIn && !unnamed.has(askedText(record))) fail('refuses', record, suggestion.text);
    } else if (
      isIn &&
      !admitted.has(questionText(record)) &&
      (was?.verdict === 'deny' || was?.verdict === 'no-route')
    ) {
      // What was invalid was so for a route of then, which looked at what can be spelled in several ways.
      fail('lets in', record, suggestion.text);
    }
  }
  if (exact) for (const other of others) unseen(recordOf(other, before), evidence, after, suggestion.text);
  return { excused: suggestion.refused.length + suggestion.allowed.length };
}

/** As a suggestion calls what it does not let in. */
function askedText({ question: { protocol, port, method = '', path = '' } }: DecisionRecord): string {
  if (protocol === 'tcp') return `bytes on port ${port}`;
  return `${method} ${path.replace(/^http:\/\/web\.shop/, '').split('?')[0]}`;
}

/** Of equal records one is kept. */
function questionText({ question }: DecisionRecord): string {
  return JSON.stringify(question);
}

/** Where each path is written out, nothing is let in that nobody did: by this client, method and path. */
function unseen(record: DecisionRecord | null, evidence: Evidence, after: Authorizer, text: string): void {
  if (record === null) return;
  const { question } = record;
  const now = answer(after, record);
  if (now.kind === 'unknown' || now.verdict !== 'permit' || now.authz?.kind === 'default') return;
  const caller = callerKey(
    question.identity === undefined
      ? { kind: 'address', ip: question.client }
      : { kind: 'identity', name: question.identity },
  );
  const address = callerKey({ kind: 'address', ip: question.client });
  const path = (question.path ?? '').replace(/^http:\/\/web\.shop/, '').split('?')[0];
  const did = [...evidence.groups.values()].some(
    (group) =>
      group.port === question.port &&
      (group.carried === 'bytes' || evidenceHasBytes(evidence, question.port) || group.method === question.method) &&
      [...group.paths].some(
        ([seen, uses]) =>
          (group.carried === 'bytes' || evidenceHasBytes(evidence, question.port) || seen === path) &&
          [...uses.values()].some((use) => [caller, address].includes(callerKey(use.caller))),
      ),
  );
  if (!did) fail('lets in, though nobody did it,', record, text);
}

function evidenceHasBytes(evidence: Evidence, port: unknown): boolean {
  return [...evidence.groups.values()].some((group) => group.port === port && group.carried === 'bytes');
}

/** What is added to a policy lets in what was let in, takes nothing away, and lets in nothing that was refused. */
function checkMerge({ documents, existing, requests }: World): { readonly excused: number } {
  const source = inForce(listOf(documents));
  const text = listOf(existing);
  const was = inForce(text);
  const records = requests.flatMap((request) => decided(recordOf(request, source), source) ?? []);
  const evidence = evidenceOf(records);
  const merged = (added: string): string => (added === '' ? text : `${text}\n---\n${added}`);
  const names = existing.map(({ metadata }) => metadata.name);
  const suggestion = suggest(evidence, pod, {
    exact: false,
    existing: { names, isOpenTo: () => false, matchesOf: () => [], with: merged },
    load: inForce,
    portOf,
  });
  const now = inForce(merged(suggestion.text));
  const told = new Set(suggestion.refused.map(({ what }) => what));
  const admitted = new Set(suggestion.allowed.map(questionText));
  for (const record of records) {
    const { question, decided: then } = record;
    const [before, after] = [was, now].map((by) => answer(by, record)) as [Answer, Answer];
    if (before.kind === 'unknown' || after.kind === 'unknown' || question.protocol === 'connect') continue;
    const isTold = told.has(askedText(record));
    const wanted = then?.verdict === 'permit';
    if (wanted && after.verdict !== 'permit' && !isTold) fail('beside another policy refuses', record, suggestion.text);
    const isRefused = then?.verdict === 'deny' || then?.verdict === 'no-route';
    if (isRefused && after.verdict === 'permit' && before.verdict !== 'permit' && !admitted.has(questionText(record))) {
      fail('beside another policy lets in', record, suggestion.text);
    }
  }
  return { excused: suggestion.refused.length + suggestion.allowed.length };
}

function listOf(documents: readonly RandomDocument[]): string {
  return JSON.stringify({ apiVersion: 'v1', kind: 'List', items: documents });
}

function fail(what: string, record: DecisionRecord, text: string): never {
  throw new Error(`${what} ${JSON.stringify(record.question)}, which was ${record.decided?.verdict}\n${text}`);
}

const world = (request: fc.Arbitrary<RandomRequest>): fc.Arbitrary<World> =>
  fc.record({
    documents: randomPolicy(ports),
    existing: randomPolicy(ports),
    requests: fc.array(request, { minLength: 1, maxLength: 60 }),
    others: fc.array(request, { maxLength: 40 }),
  });

/** Nothing but what a suggestion can name: what differs does so by client, method and path. */
const plainRequest = fc
  .record({
    port: fc.constantFrom(...ports),
    client: fc.constantFrom('127.0.0.2', '127.0.0.3', '127.0.0.4', '127.0.0.5', '127.0.0.6', '127.9.9.9'),
    tls: fc.constantFrom<RandomRequest['tls']>(
      'none',
      ...Object.values(identities).map((name) => ({ identity: name })),
    ),
    protocol: fc.constantFrom<RandomRequest['protocol']>('http1', 'http2'),
    method: fc.constantFrom('GET', 'POST', 'DELETE'),
    path: fc.constantFrom('/', '/a', '/a/b', '/a/1', '/a/2', '/a/1/b', '/a/2/b', '/b/a', '/b/b', '/aa', '/ab'),
  })
  .map((request): RandomRequest => ({ ...request, host: 'web.shop', headers: {} }));

const rows = [
  { title: 'requests of every kind', request: randomRequest(ports), exact: false, isPlain: false },
  { title: 'requests of every kind, written out', request: randomRequest(ports), exact: true, isPlain: false },
  { title: 'plain requests', request: plainRequest, exact: false, isPlain: true },
  { title: 'plain requests, written out', request: plainRequest, exact: true, isPlain: true },
  { title: 'beside a policy that exists', request: plainRequest, exact: null, isPlain: false },
];

for (const { title, request, exact, isPlain } of rows) {
  t.test(title, async (t) => {
    let runs = 0;
    let excused = 0;
    const property = fc.property(world(request), (each) => {
      runs += 1;
      const found = exact === null ? checkMerge(each) : check(each, exact);
      excused += found.excused;
      if (isPlain && found.excused > 0) throw new Error('something is excused where everything can be named');
    });
    t.equal(await search(property, 1 / rows.length, () => runs > 50), null);
    t.comment(`${runs} policies, ${excused} excused`);
  });
}
