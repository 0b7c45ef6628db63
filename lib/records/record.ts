/*
 * The record of decisions: one line of JSON a decision, `decision.schema.json` beside this file. Its question is what
 * `explain --requests` takes, so that each can be decided again; text of a client is in it as escaped ASCII alone.
 */
import type { Complaint } from '../errors/complaint.ts';
import type { PortProtocol, RequestDecision } from '../policy/decision.ts';
import type { ResourceRef } from '../resource-ref.ts';

/** Of the format. A line of another version is not read: a field that decides might mean something else. */
export const recordVersion = 1;

/** A question as given, by flags or by a line; nothing has been judged yet. */
export interface GivenQuestion {
  readonly port?: unknown;
  readonly client?: unknown;
  readonly identity?: unknown;
  /** `NAMESPACE/NAME`, `NAME` of the pod's namespace, or an object of both; in place of its identity. */
  readonly serviceAccount?: unknown;
  readonly tls?: unknown;
  readonly protocol?: unknown;
  readonly method?: unknown;
  readonly path?: unknown;
  readonly host?: unknown;
  /** A string or a list of strings by name. */
  readonly headers?: unknown;
  /** `body` or `upgrade` where that comes with the request; else what the headers announce. */
  readonly carries?: unknown;
}

/** A port by its number. */
export function isPort(port: unknown): port is number {
  return typeof port === 'number' && Number.isInteger(port) && port >= 1 && port <= 65_535;
}

export const portProtocols: readonly PortProtocol[] = ['detect', 'http1', 'http2', 'grpc', 'opaque', 'tls'];

export type Protocol = 'http1' | 'http2' | 'grpc' | 'tcp' | 'connect';

/**
 * A question as a line holds it, each field of its type. `accept`: the connection was refused by NetworkPolicies before
 * anything was read of it, so that there is neither TLS nor a request.
 */
export interface RecordedQuestion {
  /** By a name of the pod's only in questions. Undefined where the line does not say it: an access log of before it did. */
  readonly port?: number | string;
  readonly client: string;
  /** Not beside `tls`. Neither: without TLS. */
  readonly identity?: string;
  readonly tls?: 'none' | 'anonymous' | 'passthrough';
  readonly protocol: Protocol | 'accept';
  /** With its query, or what is told of it. A byte that is no UTF-8 is U+DC80 to U+DCFF, as `explain` takes it; so in the next two. */
  readonly method?: string;
  readonly path?: string;
  readonly host?: string;
  /** An empty list: the request had no such field. */
  readonly headers?: Readonly<Record<string, readonly string[]>>;
  /** Other fields of the request whose name holds anything but letters, digits and hyphens; in lower case. */
  readonly names?: readonly string[];
  readonly carries?: 'body' | 'upgrade';
  /** Of bytes (`tcp`): the protocol of the port by the policy of then, which is what was looked for in them. */
  readonly declared?: PortProtocol;
}

/**
 * What of the request a line does not hold, and a policy might ask about. `headers`: every field that `RecordedQuestion.headers` does
 * not name. `tls`: a client without an identity may have used TLS or not. A part that was cut counts as left out.
 */
export type Omission = 'path' | 'query' | 'host' | 'method' | 'headers' | 'tls' | 'carries';

export interface RecordedDecision {
  readonly verdict: RequestDecision['kind'];
  /** What was answered in place of the app; null where nothing was. */
  readonly status: number | null;
  readonly audit: boolean;
  /** Null where the line does not say it. */
  readonly server: ResourceRef | null;
  readonly route: ResourceRef | null;
  readonly authz: ResourceRef | null;
  /** One sentence; empty where the line has none. */
  readonly reason: string;
}

/** What lines that differ in nothing but their times have in common. One object for all of them, within bounds of memory. */
export interface DecisionRecord {
  /** Of what kind the line was: of the record, of the log, of the access log, or a question of `explain --requests`. */
  readonly form: 'record' | 'log' | 'access' | 'question';
  readonly question: RecordedQuestion;
  readonly omits: readonly Omission[];
  /** Where the query is left out: of parameters of these names `question.path` holds all, and of no others. */
  readonly parameters: readonly string[];
  /** Null, or with what the values of `question.headers` are hashed: see `hashedValue`. */
  readonly salt: string | null;
  /** Null where the line does not say what was decided: a question, a line of the access log. */
  readonly decided: RecordedDecision | null;
}

/** One line: how many decisions it stands for, and when they were (RFC 3339; null where it does not say). */
export interface Occurrence {
  readonly count: number;
  readonly first: string | null;
  readonly last: string | null;
  /** As it was given; `stdin` for standard input. */
  readonly file: string;
  readonly line: number;
  /** Equal lines may come with the same record, so that it is worth remembering: not so of long ones, nor while hardly any do. */
  readonly comesAgain: boolean;
}

/** A line that is not what it should be. `field` is the one at fault; null when the line as a whole is. */
export class BadLine extends Error implements Complaint {
  readonly code = 'bad-line';
  readonly field: string | null;
  /** The remedy, one sentence. */
  readonly hint: string;
  constructor(field: string | null, message: string, hint: string) {
    super(message);
    this.field = field;
    this.hint = hint;
  }
}

/** Levels of lists and objects within each other, and characters in which there is no harm in more. */
const mostLevels = 32;
const harmless = 2048;

/**
 * A value in JSON, of which each part can be looked at: text and comparison of one that is nested as deep as it is long would
 * overflow the stack.
 *
 * @throws BadLine, and SyntaxError
 */
export function jsonValue(text: string): unknown {
  const value: unknown = JSON.parse(text);
  if (text.length <= harmless || !isDeeper(value, mostLevels)) return value;
  throw new BadLine(null, 'is nested deeper than any line of a log', 'Give logs of Sallyport, as they were written.');
}

function isDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return levels === 0 || Object.values(value).some((each) => isDeeper(each, levels - 1));
}
