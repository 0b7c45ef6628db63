import { type Client, type ClientTls, tlsOfKind } from '../client.ts';
import { asksToSwitch, isFramingAlias, isSoundMethod, trimBlanks } from '../http-message.ts';
import type { IpAddress } from '../ip.ts';
import {
  contentLength,
  fieldFault,
  readHttp2Fields,
  scanRequestHeaders,
  unknownExpectation,
} from '../request-fields.ts';
import { isHost, readAuthority, readTarget } from '../request-target.ts';
import type { ResourceRef } from '../resource-ref.ts';
import { wireText } from './bytes.ts';
import { type Carried, decideSilence, isBytes, probeAuthz, probedReason, takesTls } from './carried.ts';
import {
  type Authorizer,
  type Candidate,
  noOddNames,
  oddNamesOf,
  type PortPolicy,
  type Reasons,
  type RequestDecision,
  type RequestFacts,
} from './decision.ts';
import { nearestName } from './nearest.ts';
import { refusalOf, refusals } from './refusals.ts';

/** One hypothetical connection or request. */
export interface ExplainQuery {
  readonly port: number;
  readonly ip: IpAddress;
  /** Wins over `tls`: a client with an identity has terminated TLS. */
  readonly identity?: string;
  /** `anonymous`: terminated here, without a certificate. Default `none`. */
  readonly tls?: 'none' | 'anonymous' | 'passthrough';
  /** Default `http1`. `tcp`: bytes that are not HTTP; `connect`: none, and then the end. */
  readonly protocol?: 'http1' | 'http2' | 'grpc' | 'tcp' | 'connect';
  /** Default GET, and POST for gRPC. */
  readonly method?: string;
  /** With its query, as in a request line. Default `/`. */
  readonly path?: string;
  readonly host?: string;
  /** Several values of one name as several entries; names in any case. */
  readonly headers?: readonly (readonly [name: string, value: string])[];
  /** A lane has sorted the headers already: those that policy decides on are left, some without their values. */
  readonly areSorted?: boolean;
  /** What comes with the request; where it is left out, what the headers announce. */
  readonly carries?: 'body' | 'upgrade';
}

/** What of it is the request. */
export type AskedRequest = Pick<ExplainQuery, 'method' | 'path' | 'host' | 'headers' | 'areSorted' | 'carries'>;

export interface ExplainJson {
  readonly verdict: RequestDecision['kind'];
  /** What Sallyport itself would answer, 200 to gRPC; null on permit and for TCP. */
  readonly httpStatus: number | null;
  /** The refusal's code for gRPC, whichever protocol was asked about; null on permit and for TCP. */
  readonly grpcStatus: number | null;
  /** Null for HTTP. */
  readonly tcp: 'forward' | 'close' | null;
  readonly audit: boolean;
  readonly server: ResourceRef;
  readonly route: ResourceRef | null;
  /** The place of the rule that matched in the route's document, from 0; null where no document's rule did. */
  readonly rule: number | null;
  readonly authz: ResourceRef | null;
  readonly reason: string;
  readonly candidates: readonly Candidate[];
  /** The NetworkPolicies that close the port to this client, before anything else is asked; empty where none do. */
  readonly networkPolicies: readonly ResourceRef[];
}

/** Decides a hypothetical query with the same authorizer, and on the same facts, as the data plane would. */
export function explain(authorizer: Authorizer, query: ExplainQuery): ExplainJson {
  const policy = authorizer.port(query.port);
  const admission = authorizer.admits(query.port, query.ip);
  if (admission.kind === 'refused') {
    return {
      ...closed,
      server: policy.server,
      ...authorizer.admissionReasons(query.port, query.ip),
      networkPolicies: admission.policies,
    };
  }
  const client = clientOf(authorizer, query, policy);
  const protocol = query.protocol ?? 'http1';
  if (protocol === 'connect') return explainSilence(authorizer, policy, client);
  const inTls = client.tls.kind === 'passthrough' && takesTls(authorizer, policy, client);
  if (inTls && protocol === 'tcp')
    return refusedUnasked(policy, unasked(400, 'TLS ends here for HTTPS probes, and in it is none'));
  if (!inTls && isBytes(policy, client, protocol)) return explainConnection(authorizer, policy, client);

  const request = requestFacts(query, protocol);
  if ('reason' in request) return refusedUnasked(policy, request);
  const decision = authorizer.request(policy, client, request);
  const reasons = authorizer.requestReasons(policy, client, request, decision);
  const { reason, candidates } = withNearMisses(reasons, client);
  const refusal = refusalOf(decision);
  const route = 'route' in decision ? decision.route : null;
  return {
    verdict: decision.kind,
    httpStatus: refusal === null ? null : request.grpc ? 200 : refusal.http,
    grpcStatus: refusal?.grpc ?? null,
    tcp: null,
    audit: 'audit' in decision && decision.audit,
    server: decision.server,
    route,
    rule: reasons.rule,
    authz: 'authz' in decision ? decision.authz : null,
    reason,
    candidates,
    networkPolicies: [],
  };
}

/** A connection that is closed before it is decided; whatever would have been sent on it. */
const closed = {
  verdict: 'deny',
  httpStatus: null,
  grpcStatus: null,
  tcp: 'close',
  audit: false,
  route: null,
  rule: null,
  authz: null,
} as const;

/** On an opaque port, too, TLS is looked at where it may be an HTTPS probe. */
function clientOf(authorizer: Authorizer, query: ExplainQuery, policy: PortPolicy): Client {
  const { ip } = query;
  const seen: Client = { ip, tls: clientTls(query, policy) };
  if (policy.protocol !== 'opaque' || query.tls !== 'passthrough') return seen;
  return takesTls(authorizer, policy, seen) ? { ip, tls: { kind: 'passthrough', sni: '' } } : seen;
}

/** TLS as the data plane would see it: never looked at on an opaque port. */
function clientTls({ identity, tls = 'none' }: ExplainQuery, policy: PortPolicy): ClientTls {
  if (policy.protocol === 'opaque') return { kind: 'none', reason: 'port_skipped' };
  if (identity !== undefined) {
    return { kind: 'mesh', identity: { form: identity.startsWith('spiffe://') ? 'spiffe' : 'dns', name: identity } };
  }
  return tlsOfKind(tls);
}

function explainConnection(authorizer: Authorizer, policy: PortPolicy, client: Client): ExplainJson {
  const decision = authorizer.connection(policy, client);
  const { reason, candidates } = withNearMisses(authorizer.connectionReasons(policy, client), client);
  const permit = decision.kind === 'permit' ? decision : null;
  return {
    verdict: decision.kind,
    httpStatus: null,
    grpcStatus: null,
    tcp: permit === null ? 'close' : 'forward',
    audit: permit?.audit ?? false,
    server: decision.server,
    route: null,
    rule: null,
    authz: permit?.authz ?? null,
    reason,
    candidates,
    networkPolicies: [],
  };
}

/** A connection that ends before a byte has come. */
function explainSilence(authorizer: Authorizer, policy: PortPolicy, client: Client): ExplainJson {
  const explained = explainConnection(authorizer, policy, client);
  const none = { ...explained, audit: false, tcp: 'close', authz: null } as const;
  switch (decideSilence(authorizer, policy, client).kind) {
    case 'permit':
      return explained;
    case 'probed':
      return { ...none, verdict: 'permit', authz: probeAuthz, reason: probedReason };
    case 'deny': {
      const reason = 'nothing came on the connection, and it is no TCP probe of the port';
      return policy.protocol === 'opaque' ? explained : { ...none, verdict: 'deny', reason };
    }
  }
}

/**
 * The same, with the identity that was most likely meant where a candidate wants nearly the client's. A log line leaves it at
 * both names: a client that is refused shall not make us compare letters.
 */
function withNearMisses({ reason, candidates }: Reasons, { tls }: Client): Reasons {
  const name = tls.kind === 'mesh' ? (tls.identity?.name ?? null) : null;
  if (name === null) return { reason, candidates };
  const [own = '', rest] = partsOf(name);
  const near = (candidate: Candidate): Candidate => {
    const wanted = candidate.failed === 'identity' ? /^wanted (.*), was /.exec(candidate.detail)?.[1] : undefined;
    const alike = (wanted?.split(' or ') ?? []).map(partsOf).filter(([, others]) => others === rest);
    const nearest = nearestName(
      own,
      alike.map(([account]) => account),
    );
    if (nearest === undefined) return candidate;
    return { ...candidate, detail: `${candidate.detail}; is "${nearest}" or "${own}" misspelt?` };
  };
  return { reason, candidates: candidates.map(near) };
}

/** `<sa>.<ns>` and what is behind it; any other name whole. */
function partsOf(identity: string): readonly [string, string] {
  const at = identity.indexOf('.serviceaccount.identity.');
  return at === -1 ? [identity, ''] : [identity.slice(0, at), identity.slice(at)];
}

/** What a lane refuses before it asks policy. */
export interface Unasked {
  /** Answered; null over HTTP/2, where the stream is reset without an answer. */
  readonly status: 400 | 405 | 417 | null;
  readonly reason: string;
}

/** The request as a lane would hand it over. */
export function requestFacts(query: AskedRequest, protocol: Carried): RequestFacts | Unasked {
  const facts = readFacts(query, protocol);
  if (facts === unknownExpectation && protocol === 'http1') return unasked(417, facts);
  if (typeof facts === 'string') return unasked(protocol === 'http1' ? 400 : null, facts);
  if (facts.method === 'CONNECT' && protocol !== 'http1') {
    return { status: 405, reason: 'CONNECT over HTTP/2 is refused whatever policy says' };
  }
  // Answered over HTTP/2, too: nothing is wrong with the stream.
  if (isSoundMethod(facts.method)) return facts;
  return unasked(400, `${JSON.stringify(facts.method)} is no method, or a known one in another case`);
}

function unasked(status: Unasked['status'], fault: string): Unasked {
  return { status, reason: `the request is malformed: ${fault}` };
}

/** A sentence where it is no request. */
function readFacts(query: AskedRequest, protocol: Carried): RequestFacts | string {
  const http1 = protocol === 'http1';
  const method = query.method ?? (protocol === 'grpc' ? 'POST' : 'GET');
  if (http1 && method === 'PRI') return 'PRI begins HTTP/2 and is no method of HTTP/1';
  const given = query.headers ?? [];
  const fields = query.areSorted === true ? fieldsAsSorted(query, given) : sortedFields(query, given, http1);
  if (typeof fields === 'string') return fields;
  const { forward, received } = fields;
  // As it would come over the wire, one character per byte; so are the values above.
  const url = wireText(query.path ?? '/');
  const target = method === 'CONNECT' ? connectTarget(url, http1) : readTarget(method, url);
  if (target === null || (!http1 && target.authority !== null)) return `"${url}" is no target that can be asked for`;
  const { named } = fields;
  const host = target.authority ?? named ?? '';
  if (!isHost(named ?? '')) return `"${named}" is no host`;
  // Without an answer to the question of the host there is none; an empty one is another matter (RFC 9113 section 8.3.1).
  if (!http1 && named === '') return 'HTTP/2 needs a host';
  if (http1) forward.set('host', [host]);
  // No version of HTTP carries it; in a line it would end the target.
  if (url.includes(' ')) return `"${url}" holds a blank`;
  const { path, query: search } = target;
  return {
    method,
    path,
    query: search,
    host,
    grpc: protocol === 'grpc' || fields.grpc,
    carries:
      query.carries ??
      (method === 'CONNECT' ? 'upgrade' : given.length === 0 ? 'nothing' : carried(received, protocol)),
    header: (name) => forward.get(name) ?? [],
    oddNames: given.length === 0 ? noOddNames : oddNamesOf([...forward.keys()].flatMap((name) => [name, ''])),
  };
}

type FieldValues = Map<string, readonly string[]>;

interface GivenFields {
  /** Whom the request names; undefined where that is left open. */
  readonly named: string | undefined;
  /** All that were given. */
  readonly received: FieldValues;
  /** Those that policy decides on. */
  readonly forward: FieldValues;
  readonly grpc: boolean;
}

function fieldsAsSorted({ host }: AskedRequest, given: NonNullable<AskedRequest['headers']>): GivenFields {
  const values = valuesOf(given.flatMap(([name, value]) => [name, wireText(value)]));
  return { named: host ?? values.get('host')?.[0], received: values, forward: values, grpc: false };
}

/** A sentence where they make the request malformed. */
function sortedFields(
  { host }: AskedRequest,
  given: NonNullable<AskedRequest['headers']>,
  http1: boolean,
): GivenFields | string {
  if (given.length === 0) {
    return { named: host, received: new Map(), forward: new Map(), grpc: false };
  }
  const flat: string[] = [];
  for (const [name, value] of given) {
    const key = name.toLowerCase();
    if (isFramingAlias(key)) return `${key} is another name for a field that frames the message`;
    // White space around a value is no part of it (RFC 9110 section 5.5), and malformed in HTTP/2 (RFC 9113 section 8.2.1).
    const wire = wireText(value);
    const trimmed = trimBlanks(wire);
    if (!http1 && trimmed.length !== wire.length) return `white space around the value of ${key}`;
    const fault = fieldFault(key, trimmed, http1);
    if (fault !== null) return fault;
    flat.push(key, trimmed);
  }
  const received = valuesOf(flat);
  if (!http1) {
    if (contentLength(flat) === null) return 'Content-Length is no number, or there are several';
    const sorted = readHttp2Fields(flat, 0, host ?? null);
    if (sorted === null) return 'there is more than one Host';
    return { named: sorted.name ?? undefined, received, forward: valuesOf(sorted.decided), grpc: sorted.grpc };
  }
  const { host: told, forward, fault } = scanRequestHeaders(flat);
  if (fault !== null) return fault;
  return { named: host ?? told ?? undefined, received, forward: valuesOf(forward), grpc: false };
}

function valuesOf(flat: readonly string[]): FieldValues {
  const values = new Map<string, string[]>();
  for (let i = 0; i + 1 < flat.length; i += 2) {
    const name = (flat[i] as string).toLowerCase();
    const known = values.get(name);
    if (known === undefined) values.set(name, [flat[i + 1] as string]);
    else known.push(flat[i + 1] as string);
  }
  return values;
}

/** Over HTTP/2 it has no path, and its host alone names it (RFC 9113 section 8.5). */
function connectTarget(url: string, http1: boolean): ReturnType<typeof readAuthority> {
  return http1 ? readAuthority(url) : { target: url, path: '', query: '', authority: null };
}

function refusedUnasked(policy: PortPolicy, { status, reason }: Unasked): ExplainJson {
  return {
    verdict: 'invalid',
    httpStatus: status,
    grpcStatus: status === refusals.invalid.http ? refusals.invalid.grpc : null,
    tcp: null,
    audit: false,
    server: policy.server,
    route: null,
    rule: null,
    authz: null,
    reason,
    candidates: [],
    networkPolicies: [],
  };
}

/** What the headers announce. An Upgrade counts unless a Connection header is given that does not name it. */
function carried(headers: ReadonlyMap<string, readonly string[]>, protocol: string): RequestFacts['carries'] {
  const values = (name: string): string => (headers.get(name) ?? []).join();
  if (headers.has('transfer-encoding') || /[^0,]/.test(values('content-length'))) return 'body';
  const names = headers.has('connection') ? values('connection').toLowerCase().split(',') : ['upgrade'];
  const asks = names.some((name) => name.trim() === 'upgrade') && headers.has('upgrade');
  return protocol === 'http1' && asks && asksToSwitch(values('upgrade')) ? 'upgrade' : 'nothing';
}
