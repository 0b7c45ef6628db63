/**
 * The record of decisions as it is written: one line a decision, or one for all equal ones of an interval
 * (lib/records/decision.schema.json). It holds what deciding again takes, and nothing more of a request.
 */
import { createHmac, randomBytes } from 'node:crypto';
import type { Client } from '../client.ts';
import { textOfBytes } from '../policy/bytes.ts';
import type { PortPolicy, RequestDecision } from '../policy/decision.ts';
import { refusalOf } from '../policy/refusals.ts';
import type { ConnectionFacts } from '../proxy/connection-facts.ts';
import type { LazyReasons, NetworkRefusal, RecordedFacts, RequestLog } from '../proxy/recorder.ts';
import { recordVersion } from '../records/record.ts';
import type { ResourceRef } from '../resource-ref.ts';
import { sourceText } from './client-lines.ts';
import { type CountedDecision, DecisionCounts, type DecisionTally } from './decision-counts.ts';
import type { LineSink } from './output.ts';
import { RefusalRoom } from './refusal-room.ts';
import type { Cell } from './series.ts';

export interface DecisionRecordsOptions {
  readonly which: 'refused' | 'all';
  /** Milliseconds for which equal decisions are counted before they are written; infinite: each is written. */
  readonly intervalMs: number;
  /** Values of header fields are hashed, with a key that each process chooses. */
  readonly hash: boolean;
  readonly sink: LineSink;
  /** Where the record itself is asked for; null where nobody can. That question is no part of what clients do. */
  readonly asked: { readonly port: number; readonly path: string } | null;
  /** Lines that the sink has dropped so far, where nobody else says so in the record. */
  readonly dropped: () => number;
  /** Threads that write into one record. */
  readonly threads?: number;
  /** Unix milliseconds; tests bring their own. */
  readonly nowMs?: () => number;
}

/** Different decisions that are counted apart in one interval, and the characters that they may take. */
const most = { counted: 1000, chars: 1024 * 1024 } as const;
/** The same of refusals that come too fast to be written one by one, and milliseconds for which they are counted. */
const mostHeld = { counted: 1000, chars: 256 * 1024 } as const;
const heldMs = 30_000;
/** Characters of a line beside its text: times and a count. */
const framing = 120;
/** Characters of a decision that each connection keeps for the next one: those of long requests are written anew. */
const maxKept = 4096;
/** Characters of a text of the client's; of a longer one the record does not know the whole, and leaves it out. */
const maxText = 16 * 1024;
const maxReason = 1024;

interface Counted {
  count: number;
  readonly firstMs: number;
  lastMs: number;
  readonly reason: string;
}

/** What one connection's records begin with, and the last of them. */
export interface RecordedConnection {
  readonly asked: string;
  /** Where the client is, as room is shared. */
  readonly client: string;
  /** A path that is not recorded; null where all are. */
  readonly unrecorded: string | null;
  last: LastRecorded | null;
}

/** A decision that comes again and again on one connection is not written down anew each time. */
interface LastRecorded {
  readonly policy: PortPolicy;
  readonly decision: RequestDecision;
  readonly facts: Pick<RecordedFacts, 'method' | 'path' | 'query' | 'host' | 'carries' | 'grpc'>;
  readonly text: string;
  readonly reason: string;
}

export class DecisionRecords {
  readonly #options: DecisionRecordsOptions;
  readonly #nowMs: () => number;
  readonly #salt: string | null;
  readonly #counted = new Map<string, Counted>();
  readonly #sinceStart = new DecisionCounts();
  readonly #room: RefusalRoom;
  readonly #mostHeld: { readonly counted: number; readonly chars: number };
  #chars = 0;
  #timer: NodeJS.Timeout | null = null;
  #lost = 0;
  #toldDropped = 0;
  /** Of this thread: records made, and dropped before any sink had them. */
  cells: { readonly made: Cell; readonly lost: Cell } | null = null;

  constructor(options: DecisionRecordsOptions) {
    this.#options = options;
    this.#nowMs = options.nowMs ?? Date.now;
    const threads = options.threads ?? 1;
    this.#mostHeld = { counted: mostHeld.counted, chars: mostHeld.chars / threads };
    this.#room = new RefusalRoom(threads, this.#nowMs);
    this.#salt = options.hash ? randomBytes(16).toString('hex') : null;
  }

  /** Of this thread since its start. */
  tally(): DecisionTally {
    return this.#sinceStart.tally();
  }

  of({ client, targetPort }: ConnectionFacts): RecordedConnection {
    const { asked } = this.#options;
    return {
      asked: `"port":${targetPort},"client":${quoted(client.ip.text)}${tlsText(client)}`,
      client: sourceText(client.ip),
      unrecorded: asked?.port === targetPort ? asked.path : null,
      last: null,
    };
  }

  request(connection: RecordedConnection, policy: PortPolicy, decision: RequestDecision, log: RequestLog): void {
    const isRefusal = decision.kind !== 'permit' && decision.kind !== 'redirect';
    if (this.#options.which === 'refused' && !isRefusal) return;
    if (log.facts.path === connection.unrecorded) return;
    const recent = connection.last;
    if (recent !== null && isSame(recent, policy, decision, log.facts)) {
      this.#add(recent.text, recent.reason, isRefusal ? connection.client : null);
      return;
    }
    const text = `${connection.asked},${this.#requestText(policy, log)},${decisionText(decision, log.facts.grpc)}`;
    const reason = reasonOf(decision, log);
    const { method, path, query, host, carries, grpc } = log.facts;
    const facts = { method, path, query, host, carries, grpc };
    // Where fields count the next request must be looked at as a whole.
    const isPlain = policy.asks.headers.length === 0 && log.facts.oddNames.length === 0;
    connection.last = isPlain && text.length <= maxKept ? { policy, decision, facts, text, reason } : null;
    this.#add(text, reason, isRefusal ? connection.client : null);
  }

  /** Bytes, or (`connect`) that none came. `authz` null: refused. */
  connection(
    { asked, client }: RecordedConnection,
    protocol: 'tcp' | 'connect',
    policy: PortPolicy,
    permit: { readonly authz: ResourceRef; readonly audit: boolean } | null,
    reasons?: LazyReasons,
  ): void {
    if (this.#options.which === 'refused' && permit !== null) return;
    const declared = protocol === 'tcp' ? `,"declared":"${policy.protocol}"` : '';
    const verdict = permit === null ? '"verdict":"deny"' : '"verdict":"permit"';
    const audit = permit?.audit === true ? ',"audit":true' : '';
    const authz = permit === null ? '' : refText('authz', permit.authz);
    const server = refText('server', policy.server);
    this.#add(
      `${asked},"protocol":"${protocol}"${declared},${verdict}${audit}${server}${authz}`,
      lazily(permit, reasons),
      permit === null ? client : null,
    );
  }

  networkRefused(policy: PortPolicy, { clientIp, targetPort }: NetworkRefusal, reasons: LazyReasons): void {
    const asked = `"port":${targetPort},"client":${quoted(clientIp.text)},"protocol":"accept"`;
    const text = `${asked},"verdict":"deny"${refText('server', policy.server)}`;
    this.#add(text, reasonText(reasons().reason), sourceText(clientIp));
  }

  /** Writes what has been counted: at the end of an interval, and of the process. */
  readonly flush = (): void => {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    for (const [text, { count, firstMs, lastMs, reason }] of this.#counted) {
      this.#options.sink.write(recordText({ text, reason, count, firstMs, lastMs }));
    }
    this.#counted.clear();
    this.#chars = 0;
    this.#tellLost();
  };

  /** @param refused the client, where it was refused: then it may be a flood. */
  #add(text: string, reason: string, refused: string | null): void {
    const nowMs = this.#nowMs();
    if (this.cells !== null) this.cells.made.value++;
    this.#sinceStart.one(text, reason, nowMs);
    const counted = this.#counted.get(text);
    if (counted !== undefined) {
      counted.count++;
      counted.lastMs = nowMs;
      return;
    }
    const chars = text.length + reason.length + framing;
    const hasRoom = refused === null || this.#room.take(refused, chars);
    const { intervalMs } = this.#options;
    const isEach = intervalMs === Number.POSITIVE_INFINITY;
    if (isEach && hasRoom) {
      this.#tellLost();
      this.#options.sink.write(recordText({ text, reason, count: 1, firstMs: nowMs, lastMs: nowMs }));
      return;
    }
    this.#timer ??= setTimeout(this.flush, isEach ? heldMs : intervalMs).unref();
    const bound = isEach ? this.#mostHeld : most;
    if (!(isEach || hasRoom) || this.#counted.size >= bound.counted || this.#chars + chars > bound.chars) {
      this.#lost++;
      if (this.cells !== null) this.cells.lost.value++;
      return;
    }
    this.#chars += chars;
    this.#counted.set(text, { count: 1, firstMs: nowMs, lastMs: nowMs, reason });
  }

  #tellLost(): void {
    const dropped = this.#options.dropped();
    if (this.cells !== null) this.cells.lost.value += dropped - this.#toldDropped;
    this.#lost += dropped - this.#toldDropped;
    if (this.#lost > 0) this.#options.sink.write(lostLine(this.#nowMs(), this.#lost));
    this.#toldDropped = this.#options.dropped();
    // A line that says so may be dropped itself, and is no decision: then the next one says it.
    if (this.#toldDropped === dropped) this.#lost = 0;
  }

  #requestText(policy: PortPolicy, { facts, version }: RequestLog): string {
    const { method, path, query, host, grpc, carries } = facts;
    const protocol = grpc ? 'grpc' : version.startsWith('HTTP/2') ? 'http2' : 'http1';
    const omits: string[] = [];
    const text = [`"protocol":"${protocol}"`];
    const part = (name: string, value: string): void => {
      if (value.length > maxText) omits.push(name);
      else text.push(`"${name}":${quoted(value)}`);
    };
    part('method', method);
    const told = policy.asks.query.told(query);
    if (told.kind === 'parts') omits.push('query');
    // CONNECT over HTTP/1 has a target that is no path.
    part('path', path === '' ? host : told.query === '' ? path : `${path}?${told.query}`);
    if (host !== '') part('host', host);
    text.push(...this.#headersText(policy, facts));
    if (carries !== 'nothing') text.push(`"carries":"${carries}"`);
    if (omits.length > 0) text.push(`"omits":${JSON.stringify(omits)}`);
    if (told.kind === 'parts' && told.names.length > 0) text.push(`"parameters":[${told.names.map(quoted).join(',')}]`);
    return text.join(',');
  }

  #headersText({ asks }: PortPolicy, facts: RecordedFacts): string[] {
    const text: string[] = [];
    if (asks.headers.length > 0) {
      const named = asks.headers
        .map((name) => [name, facts.header(name)] as const)
        // A field that is as long is not recorded, and by that known not to be.
        .filter(([, values]) => values.join('').length <= maxText)
        .map(([name, values]) => `${quoted(name)}:[${values.map((value) => this.#valueText(value)).join(',')}]`);
      text.push(`"headers":{${named.join(',')}}`);
      if (this.#salt !== null) text.push(`"salt":"${this.#salt}"`);
    }
    const odd = facts.oddNames.filter((name) => !asks.headers.includes(name));
    if (odd.length > 0) text.push(`"names":[${odd.map(quoted).join(',')}]`);
    return text;
  }

  #valueText(value: string): string {
    if (this.#salt === null) return quoted(value);
    return `"${createHmac('sha256', this.#salt).update(value, 'latin1').digest('hex').slice(0, 32)}"`;
  }
}

/** A line of the record. */
export function recordText({ text, reason, count, firstMs, lastMs }: CountedDecision): string {
  const several = count === 1 ? '' : `"first":"${isoTime(firstMs)}","count":${count},`;
  return `{"decision":${recordVersion},"time":"${isoTime(lastMs)}",${several}${text}${reason}}\n`;
}

/** Says in the record that so many lines are not in it. */
export function lostLine(timeMs: number, lost: number): string {
  return `{"decision":${recordVersion},"time":"${isoTime(timeMs)}","lost":${lost}}\n`;
}

function isSame(recent: LastRecorded, policy: PortPolicy, decision: RequestDecision, facts: RecordedFacts): boolean {
  const { facts: own } = recent;
  return (
    recent.decision === decision &&
    recent.policy === policy &&
    own.path === facts.path &&
    own.method === facts.method &&
    own.query === facts.query &&
    own.host === facts.host &&
    own.carries === facts.carries &&
    own.grpc === facts.grpc &&
    facts.oddNames.length === 0
  );
}

/** Client text, one character a byte, as JSON in ASCII. */
function quoted(bytes: string): string {
  const text = JSON.stringify(plain.test(bytes) ? bytes : textOfBytes(bytes));
  return plain.test(text) ? text : text.replace(/[^\x20-\x7e]/g, escaped);
}

const plain = /^[\x20-\x7e]*$/;

function escaped(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`;
}

function tlsText({ tls }: Client): string {
  switch (tls.kind) {
    case 'none':
      return '';
    case 'passthrough':
      return ',"tls":"passthrough"';
    case 'mesh':
      return tls.identity === null ? ',"tls":"anonymous"' : `,"identity":${quoted(tls.identity.name)}`;
  }
}

function decisionText(decision: RequestDecision, grpc: boolean): string {
  const refusal = refusalOf(decision);
  const status = refusal === null ? '' : `,"status":${grpc ? 200 : refusal.http}`;
  const audit = 'audit' in decision && decision.audit ? ',"audit":true' : '';
  const route = 'route' in decision ? refText('route', decision.route) : '';
  const authz = 'authz' in decision ? refText('authz', decision.authz) : '';
  return `"verdict":"${decision.kind}"${status}${audit}${refText('server', decision.server)}${route}${authz}`;
}

function refText(name: string, { group, kind, name: own }: ResourceRef): string {
  return `,"${name}":{"group":${quoted(group)},"kind":${quoted(kind)},"name":${quoted(own)}}`;
}

function reasonOf(decision: RequestDecision, log: RequestLog): string {
  switch (decision.kind) {
    case 'permit':
    case 'redirect':
      return '';
    case 'invalid':
      return reasonText(decision.detail);
    default:
      return reasonText(log.reasons().reason);
  }
}

function lazily(permit: object | null, reasons: LazyReasons | undefined): string {
  return permit === null && reasons !== undefined ? reasonText(reasons().reason) : '';
}

function reasonText(reason: string): string {
  return reason === '' ? '' : `,"reason":${quoted(reason.slice(0, maxReason))}`;
}

let lastMs = Number.NaN;
let lastText = '';

/** Many decisions are of one millisecond. */
function isoTime(timeMs: number): string {
  if (timeMs !== lastMs) {
    lastMs = timeMs;
    lastText = new Date(timeMs).toISOString();
  }
  return lastText;
}
