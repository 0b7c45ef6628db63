import { type CaseSets, readCases } from './cases.ts';
import { latin1, type ParsedResponse } from './raw-http.ts';
import type { RecordedRequest } from './request-parsers.ts';

export type Outcome = 'reject-400' | 'forward-one-request' | 'close';

export interface Http1Case {
  readonly id: string;
  readonly title: string;
  /** Latin-1. */
  readonly bytes: string;
  readonly repeat_line?: { readonly line: string; readonly times: number };
  readonly then?: string;
  readonly expect: Outcome;
  readonly also_ok?: readonly Outcome[];
  readonly tolerated?: string;
  readonly status?: readonly number[];
  readonly upstream?: {
    readonly requests?: number;
    readonly targets?: readonly string[];
    readonly body?: string;
    readonly forbid?: string;
    readonly forbid_headers?: readonly string[];
    readonly must_have_headers?: readonly string[];
    readonly note?: string;
  };
}

export interface UpstreamResponseCase {
  readonly id: string;
  readonly title: string;
  readonly bytes: string;
}

export interface Http1Cases {
  readonly cases: readonly Http1Case[];
  readonly upstream_response_cases: readonly UpstreamResponseCase[];
}

export function readHttp1Cases(): CaseSets<Http1Cases> {
  return readCases<Http1Cases>('http1-cases.yaml', 'http1-cases.yaml');
}

/** The bytes to send, with `repeat_line` written out in the header section. */
export function caseBytes(http1Case: Http1Case): Buffer {
  const { bytes, repeat_line: repeat } = http1Case;
  if (repeat === undefined) return latin1(bytes);
  const headEnd = bytes.indexOf('\r\n\r\n') + 2;
  return latin1(bytes.slice(0, headEnd) + repeat.line.repeat(repeat.times) + bytes.slice(headEnd));
}

/** What one run of a case looked like, from both sides of the proxy. */
export interface Observation {
  readonly responses: readonly ParsedResponse[];
  /** The client's bytes are no correct HTTP/1 stream, or end inside a message. */
  readonly responseFault: string | null;
  /** The proxy ended the connection while the client's side was still open. */
  readonly closedByProxy: boolean;
  /** The connection ended at all, at the latest after the client's half-close. */
  readonly ended: boolean;
  /** Neither enough answers nor an end in good time: only the half-close moved the proxy. */
  readonly stalled: boolean;
  readonly completed: readonly RecordedRequest[];
  readonly malformed: readonly string[];
  readonly upstreamBytes: Buffer;
}

const httpFirstLine = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+ [\x21-\x7e]+ HTTP\/1\.[01]\r\n/;

/** How many final responses a case can earn at most: so many are waited for. */
export function answersPossible(http1Case: Http1Case): number {
  const messages = http1Case.bytes.match(/(?:^|\r\n)(?:GET|POST) \/(?:ok|next|DENIED) HTTP/g) ?? [];
  // What follows a valid request without being one (H97) is answered too.
  return Math.max(1, messages.length) + (http1Case.bytes.includes('\r\ngarbage\r\n') ? 1 : 0);
}

/**
 * What is wrong with an observation; empty when it is one of the outcomes the case permits.
 * `detected`: the Server's protocol is `unknown`, so a first line that is not HTTP may have been taken for raw TCP, which
 * no policy of the setup authorizes: closed without a byte.
 */
export function faultsOf(http1Case: Http1Case, seen: Observation, detected: boolean): string[] {
  const faults = alwaysForbidden(http1Case, seen);
  const permitted = new Set<Outcome>([http1Case.expect, ...(http1Case.also_ok ?? [])]);
  if (http1Case.tolerated !== undefined) permitted.add('forward-one-request');
  const misses: string[] = [];
  for (const outcome of permitted) {
    const miss = missOf(outcome, http1Case, seen);
    if (miss === null) return faults;
    misses.push(`not ${outcome}: ${miss}`);
  }
  if (detected && !httpFirstLine.test(http1Case.bytes)) {
    if (seen.responses.length === 0 && seen.closedByProxy && seen.upstreamBytes.length === 0) return faults;
    misses.push('not closed as raw TCP');
  }
  return [...faults, ...misses];
}

function alwaysForbidden(http1Case: Http1Case, seen: Observation): string[] {
  const faults: string[] = [];
  if (seen.responseFault !== null) faults.push(`the answer is not correct HTTP: ${seen.responseFault}`);
  if (!seen.ended) faults.push('the connection never ended');
  if (seen.stalled) faults.push('no response and no end until the client gave up');
  for (const why of seen.malformed) faults.push(`malformed upstream: ${why}`);
  for (const { target } of seen.completed) {
    if (/SMUGGLED|DENIED/.test(target)) faults.push(`the upstream received ${target}`);
  }
  const { forbid, forbid_headers: forbidden = [], must_have_headers: wanted = [] } = http1Case.upstream ?? {};
  for (const request of seen.completed) {
    const names = [...request.headers, ...request.trailers].map(([name]) => name.toLowerCase());
    for (const name of forbidden) if (names.includes(name)) faults.push(`the upstream received ${name}`);
    for (const name of wanted) if (!names.includes(name)) faults.push(`the upstream did not receive ${name}`);
  }
  if (forbid !== undefined) {
    const holds = forbidChecks[forbid];
    if (holds === undefined) faults.push(`no check is written for forbid: ${forbid}`);
    else if (!holds(seen, http1Case)) faults.push(`forbidden: ${forbid}`);
  }
  return faults;
}

const noMatch =
  (pattern: RegExp) =>
  ({ upstreamBytes }: Observation): boolean =>
    !pattern.test(upstreamBytes.toString('latin1'));

/** One predicate per sentence that the cases use; true where the forbidden thing did not happen. */
const forbidChecks: Readonly<Record<string, (seen: Observation, http1Case: Http1Case) => boolean>> = {
  'a request for /SMUGGLED': ({ completed }) => !completed.some(({ target }) => target.includes('SMUGGLED')),
  'the invalid chunk line itself upstream': ({ upstreamBytes }, { bytes }) => {
    const invalid = /\r\n\r\n([^\r\n]+)\r\nhello/.exec(bytes)?.[1];
    return invalid !== undefined && !upstreamBytes.toString('latin1').includes(`\r\n${invalid}\r\n`);
  },
  'the bare LF upstream': noMatch(/(?:^|[^\r])\n/),
  'the bare CR upstream': noMatch(/\r(?!\n)/),
  'CR byte inside a forwarded value': noMatch(/\r(?!\n)/),
  'NUL byte upstream': noMatch(/\0/),
  'a folded line upstream': noMatch(/\r\n[ \t]/),
  'a complete message (terminating chunk) upstream': ({ completed, upstreamBytes }) =>
    completed.length === 0 && !upstreamBytes.toString('latin1').includes('\r\n0\r\n'),
  'Host: b.example together with an origin-form target': ({ completed }) =>
    !completed.some(({ target, headers }) => target.startsWith('/') && hostOf({ headers }) === 'b.example'),
};

function hostOf({ headers }: Pick<RecordedRequest, 'headers'>): string {
  return headers.find(([name]) => name.toLowerCase() === 'host')?.[1] ?? '';
}

/** Why the observation is not this outcome; null when it is. */
function missOf(outcome: Outcome, http1Case: Http1Case, seen: Observation): string | null {
  const finals = seen.responses.filter(({ status }) => status >= 200).map(({ status }) => status);
  const statuses = http1Case.status ?? [400];
  const served = seen.completed.length;
  switch (outcome) {
    case 'reject-400':
      if (finals.length !== 1 || !statuses.includes(finals[0] as number)) return `answers ${finals}`;
      if (served !== 0) return `${served} requests reached the upstream`;
      // A refusal by policy (403) keeps the connection; bad HTTP never does.
      return seen.closedByProxy || finals[0] === 403 ? null : 'the proxy did not close';
    case 'close':
      if (served !== 0) return `${served} requests reached the upstream`;
      if (finals.length > 1 || finals.some((status) => status !== 400 && !statuses.includes(status))) {
        return `answers ${finals}`;
      }
      if (seen.responses.length !== finals.length) return 'an interim response to a refused request';
      return seen.closedByProxy || finals[0] === 403 || http1Case.then !== undefined ? null : 'the proxy did not close';
    case 'forward-one-request':
      return forwardMiss(http1Case, seen, finals);
  }
}

/** Answers of the cases in which not every message is served; any of the listed sequences. */
const mixedAnswers: Readonly<Record<string, readonly string[]>> = {
  H96: ['200,403'],
  H97: ['200,400', '200'],
  H100: ['403,200'],
};

function forwardMiss(http1Case: Http1Case, seen: Observation, finals: readonly number[]): string | null {
  const { upstream = {}, expect } = http1Case;
  const fallback = http1Case.bytes.includes('GET /next ') ? 2 : 1;
  const wanted = expect === 'forward-one-request' ? (upstream.requests ?? 1) : fallback;
  if (seen.completed.length !== wanted) return `${seen.completed.length} requests reached the upstream, not ${wanted}`;
  const answers = mixedAnswers[http1Case.id] ?? [Array.from({ length: wanted }, () => 200).join()];
  if (!answers.includes(finals.join())) return `answers ${finals}`;
  const [first] = seen.completed;
  if (first === undefined) return 'nothing was forwarded';
  if (upstream.body !== undefined && first.body.toString('latin1') !== upstream.body) {
    return `the body arrived as ${JSON.stringify(first.body.toString('latin1'))}`;
  }
  if (upstream.targets !== undefined && seen.completed.map(({ target }) => target).join() !== upstream.targets.join()) {
    return `targets ${seen.completed.map(({ target }) => target)}`;
  }
  // What policy evaluated is what is forwarded: method and target byte for byte, the authority that won.
  const sent = /^(\S+) +(\S+)/.exec(http1Case.bytes);
  const authority = /^http:\/\/([^/]+)(.*)$/.exec(sent?.[2] ?? '');
  const targets = authority === null ? [sent?.[2]] : [sent?.[2], authority[2]];
  if (!mixedAnswers[http1Case.id] && (first.method !== sent?.[1] || !targets.includes(first.target))) {
    return `forwarded as ${first.method} ${first.target}`;
  }
  if (http1Case.bytes.includes('a.example') && hostOf(first) !== 'a.example') return `Host ${hostOf(first)}`;
  return null;
}
