import { addressValue } from '../../lib/analysis/addresses.ts';
import type { QuestionBlock } from '../../lib/analysis/blocks.ts';
import { isOf, type TlsClass } from '../../lib/analysis/callers.ts';
import { groupNames } from '../../lib/analysis/chains.ts';
import type { Leaf } from '../../lib/analysis/leaves.ts';
import { comparedPath, type PathClass } from '../../lib/analysis/paths.ts';
import type { Test } from '../../lib/analysis/tests.ts';
import { valueHolds } from '../../lib/analysis/values.ts';
import type { IpAddress } from '../../lib/ip.ts';
import { isLoopback } from '../../lib/ip.ts';
import { hostName } from '../../lib/policy/decide/host-groups.ts';
import { foldPath, readings } from '../../lib/policy/decide/path-readings.ts';
import type { ExplainQuery } from '../../lib/policy/explain.ts';
import { readAuthority, readTarget } from '../../lib/request-target.ts';

/*
 * Whether a question is among those of a block, by what the block says of itself alone: ports, clients and tests, without
 * the search that made it and without the function that decides.
 */

export { isLoopback };

/** A question taken apart once, for many blocks. */
export interface AskedQuestion {
  readonly query: ExplainQuery;
  readonly tls: TlsClass['kind'];
  readonly method: string;
  /** Null: malformed. */
  readonly path: string | null;
  readonly host: string;
  readonly parameters: readonly (readonly [string, string])[];
  readonly headers: readonly (readonly [string, string])[];
  readonly bare: boolean;
}

export function askedQuestion(query: ExplainQuery): AskedQuestion {
  const { protocol = 'http1', identity, tls = 'none', method = protocol === 'grpc' ? 'POST' : 'GET' } = query;
  const url = query.path ?? '/';
  const target = method === 'CONNECT' && protocol === 'http1' ? readAuthority(url) : readTarget(method, url);
  const headers = (query.headers ?? []).map(([name, value]) => [name.toLowerCase(), value.trim()] as const);
  return {
    query,
    tls: identity === undefined ? tls : 'identity',
    method,
    path: target === null ? null : target.path,
    host: target?.authority ?? query.host ?? headers.find(([name]) => name === 'host')?.[1] ?? '',
    parameters: [...new URLSearchParams(target?.query ?? '')],
    headers,
    bare:
      !headers.some(([name]) => ['content-length', 'transfer-encoding', 'upgrade'].includes(name)) &&
      method !== 'CONNECT',
  };
}

/** Whether the block has the question, with its path as it stands or in one of these readings. */
export function blockHas(block: QuestionBlock, asked: AskedQuestion, paths: readonly string[]): boolean {
  const { port, protocol = 'http1', ip } = asked.query;
  if (!block.port.ranges.some(({ first, last }) => first <= port && port <= last)) return false;
  if (
    !block.clients.some(
      (cell) => cell.tls.classes.some((tls) => tlsHas(tls, asked, block)) && hasIp(block, cell.addresses, ip),
    )
  ) {
    return false;
  }
  if (!block.protocols.includes(protocol)) return false;
  return block.requests === null || block.requests.some((leaf) => leafHas(leaf, asked, paths));
}

function tlsHas(tls: TlsClass, asked: AskedQuestion, { tls: classes }: QuestionBlock): boolean {
  return isOf(tls, asked.tls, asked.query.identity ?? '', { classes, unexamined: [] });
}

function hasIp({ addresses }: QuestionBlock, within: readonly number[], ip: IpAddress): boolean {
  const value = addressValue(ip);
  return within.some((at) =>
    addresses.classes[at]?.ranges.some(
      ({ family, first, last }) => family === ip.family && first <= value && value <= last,
    ),
  );
}

function leafHas(leaf: Leaf, asked: AskedQuestion, paths: readonly string[]): boolean {
  return (
    hostHas(leaf, asked.host) &&
    paths.some(
      (path) =>
        pathHas(leaf, leaf.path, path, asked.method) &&
        leaf.holding.every((test) => testHolds(test, asked, path)) &&
        leaf.failing.every((test) => !testHolds(test, asked, path)),
    )
  );
}

function hostHas({ host, hosts }: Leaf, given: string): boolean {
  if (host.kind === 'any') return true;
  if (host.kind === 'escaped') return given.includes('%');
  if (given.includes('%')) return false;
  const first = groupNames(hostName(given)).find((name) => name !== null && hosts.has(name));
  return host.kind === 'one' || host.kind === 'wildcard' ? first === host.host : first === undefined;
}

function pathHas({ paths }: Leaf, cls: PathClass, path: string, method: string): boolean {
  if (cls.kind === 'none') return cls.method === method && comparedPath(cls) === path;
  return paths.has(cls, path);
}

function testHolds(test: Test, asked: AskedQuestion, path: string): boolean {
  switch (test.kind) {
    case 'method':
      return asked.method === test.method;
    case 'path':
      return valueHolds({ type: 'regex', value: test.pattern }, path);
    case 'header':
      return asked.headers.some(([name, value]) => name === test.match.name && valueHolds(test.match, value));
    case 'query':
      return asked.parameters.some(([name, value]) => name === test.match.name && valueHolds(test.match, value));
    case 'identity':
      return asked.query.identity !== undefined && valueHolds(test.match, asked.query.identity);
    case 'bare':
      return asked.bare;
    case 'grpc':
      return asked.query.protocol === 'grpc';
    case 'alias': {
      const fold = (name: string): string => name.replace(/[^a-z0-9]/g, '-');
      return asked.headers.some(([name]) => name !== test.name && fold(name) === fold(test.name));
    }
  }
}

/** Every way in which the path of a question may be read, itself first. */
export function readingsOf({ path }: AskedQuestion): readonly string[] {
  if (path === null) return [];
  const all = new Set([path]);
  for (const reading of readings(path)) if (reading !== null) all.add(reading);
  for (const reading of [...all]) all.add(foldPath(reading));
  return [...all];
}
