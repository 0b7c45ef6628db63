import { spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Client } from '../../../lib/client.ts';
import { parseIp } from '../../../lib/ip.ts';
import { ParameterNames } from '../../../lib/policy/decide/asked-parameters.ts';
import {
  type ConnectionDeny,
  type ConnectionPermit,
  type InvalidRequest,
  type NoRoute,
  noOddNames,
  type PortPolicy,
  type RateLimited,
  type Redirect,
  type RequestDeny,
  type RequestPermit,
} from '../../../lib/policy/decision.ts';
import type { ConnectionFacts } from '../../../lib/proxy/connection-facts.ts';
import type { RequestLog } from '../../../lib/proxy/recorder.ts';
import type { ResourceRef } from '../../../lib/resource-ref.ts';
import { LineRules } from '../../../lib/telemetry/line-rules.ts';
import { createLog, type Level, type Log } from '../../../lib/telemetry/log.ts';
import { createTelemetry, type Telemetry } from '../../../lib/telemetry/metrics.ts';
import { tied } from '../../support/children.ts';

export const server: ResourceRef = { group: 'policy.linkerd.io', kind: 'server', name: 'web' };
export const defaultRoute: ResourceRef = { group: '', kind: 'default', name: 'default' };
export const route: ResourceRef = { group: 'policy.linkerd.io', kind: 'HTTPRoute', name: 'metrics' };
export const authz: ResourceRef = { group: 'policy.linkerd.io', kind: 'authorizationpolicy', name: 'prometheus' };
export const limit: ResourceRef = { group: 'policy.linkerd.io', kind: 'HTTPLocalRateLimitPolicy', name: 'rl' };

export function portPolicy(over: Partial<PortPolicy> = {}): PortPolicy {
  return {
    port: 8080,
    server,
    protocol: 'http1',
    detectTimeoutMs: 10_000,
    hasRequestRules: true,
    decisionsLast: true,
    rateLimit: null,
    asks: { headers: [], query: new ParameterNames([]), spells: () => false },
    ...over,
  };
}

// Permission is a value that only policy/decide.ts can make; telemetry reads no more of it than these fields.
export const permit = {
  kind: 'permit',
  server,
  route,
  authz,
  audit: false,
  probe: null,
  headerChanges: null,
} as unknown as RequestPermit;
export const audited = {
  ...permit,
  authz: { group: '', kind: 'default', name: 'audit' },
  audit: true,
} as RequestPermit;
export const deny: RequestDeny = { kind: 'deny', server, route };
export const noRoute: NoRoute = { kind: 'no-route', server };
export const redirect: Redirect = {
  kind: 'redirect',
  server,
  route,
  authz,
  audit: false,
  status: 302,
  location: 'http://elsewhere/',
};
export const limited: RateLimited = {
  kind: 'rate-limited',
  server,
  route,
  authz,
  audit: false,
  limit,
  scope: 'identity',
  detail: 'per-identity rate limit exceeded: 5rps',
};
export function invalid(): InvalidRequest {
  return { kind: 'invalid', server, detail: 'the path reads as /a and as /b' };
}
export const tcpPermit = { kind: 'permit', server, authz, audit: false } as unknown as ConnectionPermit;
export const tcpAudited = { ...tcpPermit, authz: audited.authz, audit: true } as ConnectionPermit;
export const tcpDeny: ConnectionDeny = { kind: 'deny', server };

export const plaintext: Client['tls'] = { kind: 'none', reason: 'no_tls_from_remote' };
export function mesh(name: string | null): Client['tls'] {
  return { kind: 'mesh', identity: name === null ? null : { form: 'dns', name } };
}

export function facts(
  over: { tls?: Client['tls']; targetPort?: number; targetIp?: string; ip?: string } = {},
): ConnectionFacts {
  const ip = parseIp(over.ip ?? '10.1.2.3');
  if (ip === undefined) throw new Error('the fixture names no address');
  return {
    client: { ip, tls: over.tls ?? plaintext },
    clientPort: 51160,
    targetIp: over.targetIp ?? '10.1.0.9',
    targetPort: over.targetPort ?? 8080,
  };
}

export function requestLog(over: Partial<RequestLog> = {}): RequestLog {
  return {
    method: 'GET',
    path: '/metrics',
    host: 'web:8080',
    version: 'HTTP/1.1',
    facts: {
      ...{ method: 'GET', path: '/metrics', query: '', host: 'web:8080', grpc: false, carries: 'nothing' },
      ...{ header: () => [], oddNames: noOddNames },
    },
    reasons: () => ({
      reason: 'no authorization of server web matched',
      candidates: [{ authz, granted: false, failed: 'identity', detail: 'wanted prometheus.ns, was none' }],
    }),
    ...over,
  };
}

export interface Fixture {
  readonly telemetry: Telemetry;
  readonly lines: string[];
  /** Moves the monotonic clock, in milliseconds. */
  advance(milliseconds: number): void;
}

export function memoryLog(format: 'json' | 'plain' = 'json', level: Level = 'info'): { log: Log; lines: string[] } {
  const lines: string[] = [];
  return { log: createLog({ level, format, destination: { write: (line) => lines.push(line) } }), lines };
}

export function fixture(
  format: 'json' | 'plain' = 'json',
  level: Level = 'info',
  logLines?: number,
  slowMs = Number.POSITIVE_INFINITY,
): Fixture {
  const { log, lines } = memoryLog(format, level);
  let nowMs = 1000;
  const telemetry = createTelemetry({
    log: log.logger,
    accessLog: null,
    lineRules: new LineRules(logLines),
    adminPort: 4191,
    slowMs,
    build: { version: '0.1.0', gitSha: 'abc', date: '2026-11-20' },
    processStart: 1_790_000_000,
    now: () => nowMs,
  });
  return {
    telemetry,
    lines,
    advance: (milliseconds) => {
      nowMs += milliseconds;
    },
  };
}

export interface Line {
  readonly name: string;
  readonly labels: Record<string, string>;
  readonly value: number;
}

/** Reads the text format, strictly enough to notice a broken line. */
export function parseExposition(body: string): Line[] {
  const lines: Line[] = [];
  for (const text of body.split('\n')) {
    if (text === '' || text.startsWith('#')) continue;
    const match = /^([a-z0-9_]+)(?:\{(.*)\})? (\S+)$/.exec(text);
    if (match === null) throw new Error(`not a line of the text format: ${text}`);
    const labels: Record<string, string> = Object.create(null);
    for (const [, name = '', value = ''] of (match[2] ?? '').matchAll(/([a-z_]+)="((?:[^"\\]|\\.)*)"(?:,|$)/g)) {
      if (name in labels) throw new Error(`label ${name} twice: ${text}`);
      labels[name] = value;
    }
    lines.push({
      name: match[1] as string,
      labels,
      value: match[3] === '+Inf' ? Number.POSITIVE_INFINITY : Number(match[3]),
    });
  }
  return lines;
}

export async function scrape(telemetry: Telemetry): Promise<Line[]> {
  return parseExposition((await telemetry.exposition()).body);
}

export function find(lines: readonly Line[], name: string, labels: Record<string, string> = {}): Line[] {
  return lines.filter(
    (line) => line.name === name && Object.entries(labels).every(([label, value]) => line.labels[label] === value),
  );
}

/** Runs a command on text; undefined when it is not installed. */
export async function pipe(
  command: string,
  args: string[],
  input: string,
): Promise<{ code: number; output: string } | undefined> {
  const child = spawn(...tied(command, args), { stdio: ['pipe', 'pipe', 'pipe'] });
  const missing = await Promise.race([once(child, 'spawn').then(() => false), once(child, 'error').then(() => true)]);
  if (missing) return undefined;
  let output = '';
  child.stdout.on('data', (chunk) => {
    output += chunk;
  });
  child.stderr.on('data', (chunk) => {
    output += chunk;
  });
  // Told by its status.
  child.stdin.on('error', () => {});
  child.stdin.end(input);
  const [code] = await once(child, 'close');
  return code === 127 ? undefined : { code, output };
}
