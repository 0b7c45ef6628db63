import type { HeaderChanges } from '../decision.ts';
import { nearestName } from '../nearest.ts';
import { compilePattern } from '../regex.ts';
import type { GrpcMatch, HttpMatch, NamedMatch, RedirectFilter, RouteRule } from '../route-rule.ts';
import { refersTo } from './admit.ts';
import type { AdmissionReport, Path } from './report.ts';
import type {
  FilterShape,
  GrpcMatchShape,
  GrpcRouteShape,
  HeaderModifierShape,
  HttpMatchShape,
  HttpRouteShape,
  RedirectShape,
  RouteShape,
} from './shapes.ts';
import {
  type GrpcRouteDocument,
  gatewayGroup,
  type HttpRouteDocument,
  linkerdGroup,
  type RouteGroup,
  type RouteParent,
} from './types.ts';

/*
 * Routes. Only those that attach to a Server are ours: others may hold anything the Gateway API allows, unread.
 * One fault anywhere discards the whole route, as in Linkerd.
 */

/** Whether a rule holds a field that we do not know. */
export type Sealed = (rule: number) => boolean;

export function admitHttpRoute(
  spec: HttpRouteShape,
  group: RouteGroup,
  report: AdmissionReport,
  namespace: string,
  sealed: Sealed,
): HttpRouteDocument['spec'] {
  const parents = readParents(spec, group, report, namespace);
  if (parents.length === 0) return { parents, hostnames: [], rules: [] };
  warnOfOutbound(spec, parents, report);
  const rules = spec.rules.map((rule, i): RouteRule<HttpMatch> => {
    const at: Path = ['spec', 'rules', i];
    // An explicit empty list means what an absent one does: the prefix `/` (Gateway API).
    const matches = rule.matches.map((match, j) => readHttpMatch(match, group, [...at, 'matches', j], report));
    return {
      matches:
        matches.length > 0 ? matches : [{ path: { type: 'prefix', value: '/' }, headers: [], query: [], method: null }],
      ...readFilters(rule.filters, [...at, 'filters'], report, true),
      sealed: sealed(i),
    };
  });
  return { parents, hostnames: spec.hostnames, rules };
}

export function admitGrpcRoute(
  spec: GrpcRouteShape,
  report: AdmissionReport,
  namespace: string,
  sealed: Sealed,
): GrpcRouteDocument['spec'] {
  const parents = readParents(spec, gatewayGroup, report, namespace);
  if (parents.length === 0) return { parents, hostnames: [], rules: [] };
  warnOfOutbound(spec, parents, report);
  const rules = spec.rules.map((rule, i): RouteRule<GrpcMatch> => {
    const at: Path = ['spec', 'rules', i];
    const matches = rule.matches.map((match, j) => readGrpcMatch(match, [...at, 'matches', j], report));
    return {
      matches,
      ...readFilters(rule.filters, [...at, 'filters'], report, false),
      sealed: sealed(i),
    };
  });
  return { parents, hostnames: spec.hostnames, rules };
}

const outboundFields = {
  backendRefs: 'Remove it: what comes in goes to the application of this pod.',
  timeouts: 'Remove it; SALLYPORT_REQUEST_TIMEOUT bounds all requests.',
  retry: 'Remove it: what comes in is retried by whoever sent it.',
  sessionPersistence: 'Remove it: there is one application here.',
} as const;

/** Where a Service is a parent as well they mean something, for what goes out. */
function warnOfOutbound(spec: RouteShape, servers: readonly RouteParent[], report: AdmissionReport): void {
  if (servers.length < spec.parentRefs.length) return;
  for (const [i, rule] of spec.rules.entries()) {
    for (const [field, hint] of Object.entries(outboundFields)) {
      if (rule[field as keyof typeof outboundFields] === undefined) continue;
      report.warn(
        'rule-field-without-effect',
        ['spec', 'rules', i, field],
        `${field} has no effect inbound, as in Linkerd`,
        hint,
      );
    }
  }
}

/** As the Gateway API's CRD, and Linkerd's webhook for regular expressions. */
function checkGrpcMethod(shape: GrpcMatchShape['method'], at: Path, report: AdmissionReport): void {
  if (shape === undefined) return;
  const { type, service, method } = shape;
  if (type === 'RegularExpression') {
    report.refuse('grpc-method-regex', [...at, 'type'], 'gRPC methods cannot be matched by regular expression');
    return;
  }
  if (service === undefined && method === undefined) {
    report.refuse('grpc-method-empty', at, 'a match on the method names neither service nor method');
  }
  if (service !== undefined && !/^\.?[a-z_][a-z_0-9]*(?:\.[a-z_][a-z_0-9]*)*$/i.test(service)) {
    report.refuse('grpc-method-name', [...at, 'service'], `"${service}" is not the name of a gRPC service`);
  }
  if (method !== undefined && !/^[A-Za-z_][A-Za-z_0-9]*$/.test(method)) {
    report.refuse('grpc-method-name', [...at, 'method'], `"${method}" is not the name of a gRPC method`);
  }
}

/** `Server`, in any case, or a slip of it. */
export function isServerLike(kind: string): boolean {
  return nearestName(kind, ['Server', 'Service', 'Gateway']) === 'Server';
}

/** Kinds of parents that are no Servers, whatever their group. */
const otherParents: ReadonlySet<string> = new Set(['Gateway', 'Service', 'EgressNetwork', 'ListenerSet']);

/** Fields of a reference to a parent, none of which is a slip of another. */
const parentFields: ReadonlySet<string> = new Set(['group', 'kind', 'namespace', 'name', 'sectionName', 'port']);

/** Whether a reference of any shape may have been meant for a Server: by its kind, its group, or a misspelt `kind`. */
export function mayMeanServer(ref: { readonly group?: unknown; readonly kind?: unknown }): boolean {
  const { group, kind } = ref;
  if (typeof kind === 'string') return isServerLike(kind) || (group === linkerdGroup && !otherParents.has(kind));
  if (kind !== undefined) return true;
  return Object.keys(ref).some(isKindMisspelt);
}

/** Of a field of a reference to a parent. */
export function isKindMisspelt(field: string): boolean {
  return !parentFields.has(field) && nearestName(field, ['kind']) !== undefined;
}

/** The Servers among the parents. Empty for a route that is not inbound policy. */
function readParents(spec: RouteShape, group: RouteGroup, report: AdmissionReport, namespace: string): RouteParent[] {
  const servers: RouteParent[] = [];
  const seen = new Set<string>();
  spec.parentRefs.forEach((ref, i) => {
    const key = JSON.stringify([ref.group, ref.kind, ref.namespace, ref.name, ref.sectionName, ref.port]);
    // The Gateway API's CRDs; Linkerd's own keeps the second as another word for the first.
    if (seen.has(key) && group === gatewayGroup) {
      report.refuse(
        'parent-repeated',
        ['spec', 'parentRefs', i],
        'the same parent is named twice',
        'Remove one of them.',
      );
    }
    seen.add(key);
    if (!refersTo(ref, linkerdGroup, 'Server')) {
      if (mayMeanServer(ref)) {
        const message = `a parent of kind ${ref.kind} and group "${ref.group}" is no Server`;
        const hint = `Write group: ${linkerdGroup}, kind: Server.`;
        const slip = ref.kind.toLowerCase() !== 'server' || nearestName(ref.group, [linkerdGroup]) !== undefined;
        report[slip ? 'refuse' : 'warn']('parent-group', ['spec', 'parentRefs', i], message, hint);
      }
      return;
    }
    for (const field of ['port', 'sectionName'] as const) {
      if (ref[field] !== undefined) {
        report.refuse(
          'parent-section',
          ['spec', 'parentRefs', i, field],
          `a Server as a parent takes no ${field}, so the whole route is discarded`,
          `Remove ${field}; the Server has its own port.`,
        );
      }
    }
    if (ref.namespace !== undefined && ref.namespace !== namespace) {
      report.refuse(
        'parent-namespace',
        ['spec', 'parentRefs', i, 'namespace'],
        `a route attaches only to a Server of its own namespace, ${namespace}`,
      );
    }
    servers.push({ name: ref.name, index: i });
  });
  return servers;
}

export function readHttpMatch(match: HttpMatchShape, group: RouteGroup, at: Path, report: AdmissionReport): HttpMatch {
  const { type, value } = match.path;
  if (type === 'RegularExpression') {
    checkPattern(value, [...at, 'path', 'value'], report);
  } else if (!value.startsWith('/')) {
    report.refuse('path-relative', [...at, 'path', 'value'], `path "${value}" does not begin with "/"`);
  } else if (value.length > 1024) {
    report.refuse('path-form', [...at, 'path', 'value'], 'a path has at most 1024 characters');
  } else if (group === gatewayGroup && !isGatewayPath(value)) {
    report.refuse(
      'path-form',
      [...at, 'path', 'value'],
      `the Gateway API refuses path "${value}": empty and dot segments, "%2F", or characters that no path holds`,
    );
  } else if (/[?#]/.test(value)) {
    report.warn(
      'path-never-matches',
      [...at, 'path', 'value'],
      `path "${value}" matches no request: a path holds neither "?" nor "#"`,
      'Use queryParams.',
    );
  }
  if (type !== 'RegularExpression') warnOfPattern(type, value, [...at, 'path', 'value'], report);
  return {
    path: { type: type === 'Exact' ? 'exact' : type === 'PathPrefix' ? 'prefix' : 'regex', value },
    headers: readNamed(match.headers, [...at, 'headers'], report, true),
    query: readNamed(match.queryParams, [...at, 'queryParams'], report, false),
    method: match.method ?? null,
  };
}

/** What other tools write for any segment: `{id}`, `:id`, `*`, `**`. */
const placeholder = /\{[^/{}]*\}|(?<=\/):[A-Za-z_]\w*(?=\/|$)|\*+/g;

function warnOfPattern(type: 'Exact' | 'PathPrefix', value: string, path: Path, report: AdmissionReport): void {
  const found = value.match(placeholder)?.[0];
  if (found === undefined) return;
  const before = value.replace(/\/\*+$/, '');
  const plain = before !== value && !before.match(placeholder);
  const pattern = before
    .split(placeholder)
    .map((part) => part.replace(/[^\w/-]/g, '\\$&'))
    .join('[^/]+');
  const below = type === 'PathPrefix' || before !== value ? '(?:/.*)?' : '';
  report.warn(
    'path-pattern',
    path,
    `path "${value}" is compared as it stands: "${found}" is no pattern`,
    plain
      ? `Write { type: PathPrefix, value: ${before === '' ? '/' : before} }.`
      : `Write { type: RegularExpression, value: ${JSON.stringify(pattern + below)} }.`,
  );
}

/** The rules of the Gateway API's CRD for paths that are not regular expressions. */
function isGatewayPath(value: string): boolean {
  return /^(?:[-A-Za-z0-9/._~!$&'()*+,;=:@]|%[0-9a-fA-F]{2})+$/.test(value) && !/\/\/|\/\.\.?(?:\/|$)|%2f/i.test(value);
}

export function readGrpcMatch({ method, headers }: GrpcMatchShape, at: Path, report: AdmissionReport): GrpcMatch {
  checkGrpcMethod(method, [...at, 'method'], report);
  return {
    service: method?.service ?? null,
    method: method?.method ?? null,
    headers: readNamed(headers, [...at, 'headers'], report, true),
  };
}

function readNamed(
  shapes: HttpMatchShape['headers'],
  path: Path,
  report: AdmissionReport,
  header: boolean,
): NamedMatch[] {
  const seen = new Set<string>();
  return shapes.map(({ type, name: written, value }, i) => {
    const name = header ? written.toLowerCase() : written;
    // The CRD keys these lists by name; to drop one of two would loosen the match.
    if (seen.has(name)) report.refuse('match-repeated', [...path, i, 'name'], `"${written}" is matched twice`);
    seen.add(name);
    if (type === 'RegularExpression') checkPattern(value, [...path, i, 'value'], report);
    return { name, type: type === 'Exact' ? 'exact' : 'regex', value };
  });
}

function checkPattern(source: string, path: Path, report: AdmissionReport): void {
  const pattern = compilePattern(source);
  if (!pattern.ok) report.refuse('regex', path, pattern.fault);
}

function readFilters(
  filters: readonly FilterShape[],
  path: Path,
  report: AdmissionReport,
  http: boolean,
): { headerChanges: HeaderChanges | null; redirect: RedirectFilter | null } {
  let headerChanges: HeaderChanges | null = null;
  let redirect: RedirectFilter | null = null;
  const seen = new Set<string>();
  filters.forEach((filter, i) => {
    const at: Path = [...path, i];
    if (seen.has(filter.type)) report.refuse('filter-repeated', at, `filter ${filter.type} is given twice`);
    seen.add(filter.type);
    for (const field of Object.keys(filter)) {
      if (field === 'type' || field.toLowerCase() === filter.type.toLowerCase()) continue;
      // Linkerd drops them without a word: what was to be redirected would go on to the application.
      report.refuse('filter-mixed', [...at, field], `filter ${filter.type} has settings of another type: ${field}`);
    }
    if (filter.type === 'RequestHeaderModifier' && filter.requestHeaderModifier !== undefined) {
      headerChanges = readHeaderChanges(filter.requestHeaderModifier, [...at, 'requestHeaderModifier'], report);
    } else if (filter.type === 'RequestRedirect' && http && filter.requestRedirect !== undefined) {
      redirect = readRedirect(filter.requestRedirect, [...at, 'requestRedirect'], report);
    } else if (filter.type === 'ResponseHeaderModifier') {
      report.warn('filter-without-effect', at, 'ResponseHeaderModifier has no effect inbound, as in Linkerd');
    } else if (filter.type === 'RequestHeaderModifier' || (filter.type === 'RequestRedirect' && http)) {
      report.refuse('filter-incomplete', at, `filter ${filter.type} lacks its settings`);
    } else {
      report.refuse(
        'filter-unsupported',
        [...at, 'type'],
        `filter ${filter.type} is not supported inbound, so the whole route is ignored`,
        'Remove the filter, or do its work in the application.',
      );
    }
  });
  return { headerChanges, redirect };
}

function readHeaderChanges(shape: HeaderModifierShape, at: Path, report: AdmissionReport): HeaderChanges {
  const { add, set, remove } = shape;
  for (const [field, list] of Object.entries({ add, set })) {
    const names = list.map(({ name }) => name);
    const twice = names.findIndex((name, i) => names.indexOf(name) !== i);
    // The CRD keys these lists by name.
    if (twice !== -1) report.refuse('header-repeated', [...at, field, twice], `"${names[twice]}" is named twice`);
  }
  const pair = ({ name, value }: { name: string; value: string }): readonly [string, string] => [
    name.toLowerCase(),
    value,
  ];
  return { add: add.map(pair), set: set.map(pair), remove: remove.map((name) => name.toLowerCase()) };
}

function readRedirect(shape: RedirectShape, at: Path, report: AdmissionReport): RedirectFilter {
  let path: RedirectFilter['path'] = null;
  if (shape.path !== undefined) {
    const full = shape.path.type === 'ReplaceFullPath';
    const { replaceFullPath, replacePrefixMatch } = shape.path;
    const [value, other] = full ? [replaceFullPath, replacePrefixMatch] : [replacePrefixMatch, replaceFullPath];
    if (other !== undefined) {
      report.refuse('filter-mixed', [...at, 'path'], `${shape.path.type} has the value of the other type`);
    } else if (value === undefined) {
      report.refuse('filter-incomplete', [...at, 'path'], `${shape.path.type} lacks its value`);
    } else if (!/^[\x21-\x7e]*$/.test(value)) {
      report.refuse(
        'redirect-path',
        [...at, 'path'],
        'a replacement path holds characters that must be percent-encoded',
      );
    } else path = { type: full ? 'full' : 'prefix', value };
  }
  return {
    scheme: shape.scheme ?? null,
    hostname: shape.hostname ?? null,
    port: shape.port ?? null,
    path,
    status: shape.statusCode,
  };
}
