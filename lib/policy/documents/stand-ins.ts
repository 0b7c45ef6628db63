import type * as z from 'zod';
import type { GrpcMatch, HttpMatch, RouteRule } from '../route-rule.ts';
import { isWellFormed, type Selector } from '../selectors.ts';
import { protocols, readSelector } from './admit.ts';
import { isServerLike, mayMeanServer, readGrpcMatch, readHttpMatch } from './admit-routes.ts';
import { isFields } from './nulls.ts';
import { AdmissionReport } from './report.ts';
import { grpcMatch, httpMatchShapes, routeFields, selector, serverFields } from './shapes.ts';
import {
  type DocumentMeta,
  type GrpcRouteDocument,
  gatewayGroup,
  type HttpRouteDocument,
  type RateLimitDocument,
  type RouteGroup,
  type RouteParent,
  type ServerDocument,
} from './types.ts';

/*
 * What stands for a document that is refused, where it might itself have refused something had it been right. It is read
 * part by part: what can be read holds, and what cannot is taken to be whatever would have covered most. It refuses what
 * it covers, and grants nothing.
 */

type Fields = Readonly<Record<string, unknown>>;

function fieldsOf(value: unknown): Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : {};
}

/** The part by its own shape; undefined where it is absent or cannot be read. */
function part<Shape extends z.ZodType>(shape: Shape, value: unknown): z.infer<Shape> | undefined {
  return value === undefined ? undefined : shape.safeParse(value).data;
}

/** Nothing is reported here: that has been done. */
function silent(): AdmissionReport {
  return new AdmissionReport(null, () => ({ file: '', line: 1, column: 1 }));
}

const everyPod: Selector = Object.freeze({ matchLabels: [], matchExpressions: [] });

/** It has its port and closes it: every port of every pod, as far as it does not say which. */
export function serverStandIn(value: unknown, meta: DocumentMeta): ServerDocument {
  const { podSelector, externalWorkloadSelector, port, proxyProtocol } = fieldsOf(value);
  const noPods = podSelector === undefined && externalWorkloadSelector !== undefined;
  const podsAlone = podSelector !== undefined && externalWorkloadSelector === undefined;
  return {
    kind: 'Server',
    ...meta,
    spec: {
      podSelector: noPods ? null : selectorOf(podSelector),
      externalWorkloadSelector: podsAlone ? null : selectorOf(externalWorkloadSelector),
      port: part(serverFields.port, port) ?? null,
      protocol: protocols[part(serverFields.proxyProtocol, proxyProtocol) ?? 'unknown'],
      accessPolicy: 'deny',
      sealed: true,
    },
  };
}

function selectorOf(value: unknown): Selector {
  const shape = part(selector, value);
  if (shape === undefined) return everyPod;
  const read = readSelector(shape, [], silent());
  return read.matchExpressions.every(isWellFormed) ? read : everyPod;
}

export function httpRouteStandIn(group: RouteGroup, spec: unknown, meta: DocumentMeta): HttpRouteDocument {
  const all: HttpMatch = { path: { type: 'prefix', value: '/' }, headers: [], query: [], method: null };
  return {
    kind: 'HTTPRoute',
    group,
    ...meta,
    spec: routeSpec(spec, meta.namespace, group, all, (value) => httpMatchOf(value, group)),
  };
}

export function grpcRouteStandIn(spec: unknown, meta: DocumentMeta): GrpcRouteDocument {
  return {
    kind: 'GRPCRoute',
    group: gatewayGroup,
    ...meta,
    spec: routeSpec(spec, meta.namespace, gatewayGroup, null, grpcMatchOf),
  };
}

/** One match, and whether anything of it could not be read. */
interface Read<Match> {
  /** Null: any request. */
  readonly match: Match | null;
  readonly vague: boolean;
}

/** One rule for each match: refused is whatever any of them might cover. */
function routeSpec<Match>(
  value: unknown,
  namespace: string,
  group: RouteGroup,
  all: Match | null,
  readMatch: (value: unknown) => Read<Match>,
): {
  parents: readonly RouteParent[];
  hostnames: readonly string[];
  rules: readonly RouteRule<Match>[];
  refused: { everyServer: boolean; vague: readonly boolean[] };
} {
  const spec = fieldsOf(value);
  const hostnames = spec.hostnames === undefined ? [] : part(routeFields(group).hostnames, spec.hostnames);
  const everything: Read<Match> = { match: all, vague: true };
  const anyRequest: Read<Match> = { match: all, vague: false };
  const matchesOf = (rule: unknown): Read<Match>[] => {
    const { matches } = fieldsOf(rule);
    if (matches === undefined || (Array.isArray(matches) && matches.length === 0)) return [anyRequest];
    return Array.isArray(matches) ? matches.map(readMatch) : [everything];
  };
  const read =
    spec.rules === undefined ? [anyRequest] : Array.isArray(spec.rules) ? spec.rules.flatMap(matchesOf) : [everything];
  const parents = parentsOf(spec.parentRefs, namespace);
  return {
    parents: parents ?? [],
    hostnames: hostnames ?? [],
    rules: read.map(({ match }) => ({
      matches: match === null ? [] : [match],
      headerChanges: null,
      redirect: null,
      sealed: true,
    })),
    refused: {
      everyServer: parents === null,
      vague: read.map(({ vague }) => vague || hostnames === undefined),
    },
  };
}

/** The Servers among the parents; null where that cannot be known. */
function parentsOf(value: unknown, own: string): RouteParent[] | null {
  if (!Array.isArray(value)) return null;
  const parents: RouteParent[] = [];
  for (const [index, ref] of value.entries()) {
    const { kind = '', name, namespace = own } = fieldsOf(ref);
    if (!isFields(ref) || typeof kind !== 'string') return null;
    // No route of ours attaches to a Server of another namespace, right or wrong.
    if (!mayMeanServer(ref) || (typeof namespace === 'string' && namespace !== '' && namespace !== own)) continue;
    if (typeof name !== 'string' || name === '') return null;
    parents.push({ name, index });
  }
  return parents;
}

/** Reads each part by itself where the whole cannot be read. */
function httpMatchOf(value: unknown, group: RouteGroup): Read<HttpMatch> {
  const whole = readable(value, group);
  if (whole !== null) return { match: whole, vague: false };
  const { path, headers, queryParams, method } = fieldsOf(value);
  const one = (name: string, field: unknown): HttpMatch | null =>
    readable(field === undefined ? {} : { [name]: field }, group);
  return {
    vague: true,
    match: {
      path: one('path', path)?.path ?? mendedPath(path, group),
      headers: one('headers', headers)?.headers ?? [],
      query: one('queryParams', queryParams)?.query ?? [],
      method: one('method', method)?.method ?? null,
    },
  };
}

function readable(value: unknown, group: RouteGroup): HttpMatch | null {
  const shape = part(httpMatchShapes[group], value);
  if (shape === undefined) return null;
  const report = silent();
  const match = readHttpMatch(shape, group, [], report);
  return report.refused ? null : match;
}

/**
 * What a path that cannot be read covers at most: a relative one was meant to begin with "/", and a broken pattern matches
 * nothing that does not begin as it does. Anything else may be any path.
 */
function mendedPath(value: unknown, group: RouteGroup): HttpMatch['path'] {
  const { type = 'PathPrefix', value: text } = fieldsOf(value);
  const anyPath = { type: 'prefix', value: '/' } as const;
  if (typeof text !== 'string') return anyPath;
  if (type === 'RegularExpression') {
    // A quantifier may be about the character before it, and an alternative begins anew.
    const [beginning = ''] = /^\/[\w/-]*(?![?*{\w/-])/.exec(text) ?? [];
    return beginning === '' || text.includes('|') ? anyPath : { type: 'regex', value: `${beginning}.*` };
  }
  const mended = readable({ path: { type, value: `/${text}` } }, group);
  return mended === null ? anyPath : mended.path;
}

function grpcMatchOf(value: unknown): Read<GrpcMatch> {
  const read = (candidate: unknown): GrpcMatch | null => {
    const shape = part(grpcMatch, candidate);
    if (shape === undefined) return null;
    const report = silent();
    const match = readGrpcMatch(shape, [], report);
    return report.refused ? null : match;
  };
  const whole = read(value);
  if (whole !== null) return { match: whole, vague: false };
  const { method, headers } = fieldsOf(value);
  const target = method === undefined ? null : read({ method });
  return {
    vague: true,
    match: {
      service: target?.service ?? null,
      method: target?.method ?? null,
      headers: (headers === undefined ? null : read({ headers }))?.headers ?? [],
    },
  };
}

/** Nobody knows what it would have let through, so its Server takes no requests. */
/** Null for limits of 0 alone, which are none to Linkerd's proxy: they would have refused nothing. */
export function rateLimitStandIn(value: unknown, meta: DocumentMeta): RateLimitDocument | null {
  if (limitsNothing(fieldsOf(value))) return null;
  const { kind, name } = fieldsOf(fieldsOf(value).targetRef);
  const known = typeof name === 'string' && name !== '' && typeof kind === 'string' && isServerLike(kind);
  return {
    kind: 'HTTPLocalRateLimitPolicy',
    ...meta,
    spec: {
      server: known ? name : '',
      refused: { everyServer: !known },
      total: null,
      identity: null,
      overrides: [],
    },
  };
}

function limitsNothing({ targetRef, overrides = [], ...limits }: Fields): boolean {
  const parts = [...Object.values(limits), ...(Array.isArray(overrides) ? overrides : [overrides])];
  const known =
    targetRef !== undefined && Object.keys(limits).every((field) => field === 'total' || field === 'identity');
  return known && parts.length > 0 && parts.every((part) => fieldsOf(part).requestsPerSecond === 0);
}
