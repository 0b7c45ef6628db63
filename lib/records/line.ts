import { valueText } from '../printable.ts';
import type { ResourceRef } from '../resource-ref.ts';
import { type JsonFields, jsonLogLine, type LoggedDecision, textLogLine } from './log-line.ts';
import {
  BadLine,
  type DecisionRecord,
  type GivenQuestion,
  isPort,
  jsonValue,
  type Omission,
  portProtocols,
  type RecordedDecision,
  type RecordedQuestion,
  recordVersion,
} from './record.ts';

/** A line as it was read, whichever of the four kinds it is. */
export type ReadLine =
  | { readonly kind: 'question'; readonly given: GivenQuestion }
  | LoggedDecision
  | {
      readonly kind: 'recorded';
      readonly record: DecisionRecord;
      readonly count: number;
      readonly first: string | null;
      readonly last: string | null;
      /** It stands for one decision, and has no time but that at which it was written. */
      readonly isAlone: boolean;
    }
  /** So many decisions were made here whose records were dropped: for want of room on the disk, or of memory. */
  | { readonly kind: 'lost'; readonly count: number }
  /** Of a log about something else. */
  | { readonly kind: 'other' };

const again = 'Take the line from the log again: it must be whole.';
const notOurs = 'Give logs of Sallyport, or questions as explain --requests takes them.';

/** @throws BadLine */
export function readLine(line: string): ReadLine {
  const logged = line.startsWith('{') ? null : textLogLine(line);
  if (logged !== null) return logged;
  const value = jsonObject(line);
  if (value.decision !== undefined) return recordLine(value);
  return jsonLogLine(value) ?? { kind: 'question', given: value };
}

function jsonObject(line: string): JsonFields {
  let value: unknown;
  try {
    value = jsonValue(line);
  } catch (error) {
    if (error instanceof BadLine) throw error;
    const isJson = /^\s*[[{]/.test(line);
    throw new BadLine(null, isJson ? 'is not JSON' : 'is neither JSON nor a line of the log', isJson ? again : notOurs);
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new BadLine(null, 'is not a JSON object', notOurs);
  }
  return value as JsonFields;
}

const verdicts = ['permit', 'deny', 'no-route', 'redirect', 'rate-limited', 'invalid'] as const;
const protocols = ['http1', 'http2', 'grpc', 'tcp', 'connect', 'accept'] as const;
const tlsKinds = ['none', 'anonymous', 'passthrough'] as const;
const carriedKinds = ['body', 'upgrade'] as const;
const omissions = ['path', 'query', 'host', 'method', 'headers', 'tls', 'carries'] as const;

function recordLine(value: JsonFields): ReadLine {
  if (value.decision !== recordVersion) {
    const message = `is of version ${valueText(value.decision)} of the record, and this Sallyport reads ${recordVersion}`;
    throw new BadLine('decision', message, 'Read it with the version of Sallyport that wrote it, or a newer one.');
  }
  const { lost } = value;
  if (lost !== undefined) return { kind: 'lost', count: countOf('lost', lost) };
  const time = optionalText('time', value.time) ?? null;
  const first = optionalText('first', value.first) ?? time;
  const count = value.count === undefined ? 1 : countOf('count', value.count);
  const question = questionOf(value);
  if (typeof question.port !== 'number') throw new BadLine('port', 'is missing', again);
  const omits = omitsOf(value.omits, question);
  const salt = optionalText('salt', value.salt) ?? null;
  const parameters = value.parameters === undefined ? noParameters : textsOf('parameters', value.parameters);
  const record: DecisionRecord = { form: 'record', question, omits, parameters, salt, decided: decidedOf(value) };
  const isAlone = value.count === undefined && value.first === undefined && value.last === undefined;
  return { kind: 'recorded', record, count, first, last: optionalText('last', value.last) ?? time, isAlone };
}

/** Of a line of `explain --requests`, where a field that is absent has `explain`'s default. @throws BadLine */
export function questionRecord(given: GivenQuestion): DecisionRecord {
  if (given.client === undefined && given.port === undefined) {
    throw new BadLine(null, 'is JSON, but no line of Sallyport', notOurs);
  }
  const protocol = given.protocol === undefined || given.protocol === null ? 'http1' : given.protocol;
  const question = questionOf({ ...given, protocol });
  return { form: 'question', question, omits: [], parameters: noParameters, salt: null, decided: null };
}

function questionOf(value: JsonFields): RecordedQuestion {
  const protocol = required('protocol', oneOf('protocol', value.protocol, protocols));
  const port = portOf(value);
  const client = required('client', optionalText('client', value.client));
  const identity = optionalText('identity', value.identity);
  const tls = oneOf('tls', value.tls, tlsKinds);
  if (identity !== undefined && tls !== undefined) {
    throw new BadLine('identity', 'is given together with tls', 'Leave one out: an identity already means mesh TLS.');
  }
  const carries = oneOf('carries', value.carries, carriedKinds);
  const declared = oneOf('declared', value.declared, portProtocols);
  // Of millions of lines: one object, and nothing made on the way.
  const question: { -readonly [Field in keyof RecordedQuestion]?: RecordedQuestion[Field] } = {};
  if (port !== undefined) question.port = port;
  question.client = client;
  if (identity !== undefined) question.identity = identity;
  if (tls !== undefined) question.tls = tls;
  question.protocol = protocol;
  const method = optionalText('method', value.method);
  if (method !== undefined) question.method = method;
  const path = optionalText('path', value.path);
  if (path !== undefined) question.path = path;
  const host = optionalText('host', value.host);
  if (host !== undefined) question.host = host;
  const headers = headersOf(value);
  if (headers !== undefined) question.headers = headers;
  if (value.names !== undefined) question.names = textsOf('names', value.names);
  if (carries !== undefined) question.carries = carries;
  if (declared !== undefined) question.declared = declared;
  return question as RecordedQuestion;
}

/** A record names all that it leaves out; one without a method or a path that does not say so is not whole. */
function omitsOf(given: unknown, { protocol, method, path }: RecordedQuestion): readonly Omission[] {
  if (protocol === 'tcp' || protocol === 'connect' || protocol === 'accept') return [];
  if (given === undefined && method !== undefined && path !== undefined) return headersAlone;
  const omits = textsOf('omits', given ?? []).map((each) => {
    const known = omissions.find((name) => name === each);
    if (known === undefined) throw new BadLine('omits', `${valueText(each)} is not known`, again);
    return known;
  });
  if (method === undefined && !omits.includes('method')) throw new BadLine('method', 'is missing', again);
  if (path === undefined && !omits.includes('path')) throw new BadLine('path', 'is missing', again);
  return [...omits, 'headers'];
}

const headersAlone: readonly Omission[] = ['headers'];
const noParameters: readonly string[] = [];

function decidedOf(value: JsonFields): RecordedDecision {
  const { status = null, audit = false } = value;
  if (status !== null && typeof status !== 'number') throw new BadLine('status', 'is not a number', again);
  return {
    verdict: required('verdict', oneOf('verdict', value.verdict, verdicts)),
    status,
    audit: audit === true,
    server: refOf('server', value.server),
    route: refOf('route', value.route),
    authz: refOf('authz', value.authz),
    reason: optionalText('reason', value.reason) ?? '',
  };
}

function textsOf(field: string, given: unknown): string[] {
  const list: unknown[] = Array.isArray(given) ? given : [given];
  const texts = list.filter((each) => typeof each === 'string');
  if (texts.length === list.length) return texts;
  throw new BadLine(field, 'is no list of strings', again);
}

function refOf(field: string, ref: unknown): ResourceRef | null {
  if (ref === undefined || ref === null) return null;
  const { group, kind, name } = ref as Partial<ResourceRef>;
  if (typeof group === 'string' && typeof kind === 'string' && typeof name === 'string') return { group, kind, name };
  throw new BadLine(field, 'is not { "group", "kind", "name" }', again);
}

function portOf({ port }: JsonFields): number | string | undefined {
  if (port === undefined || port === null) return undefined;
  if (typeof port === 'string' && port !== '') return port;
  if (isPort(port)) return port;
  throw new BadLine('port', `${valueText(port)} is not a port`, again);
}

/** Decisions that one line stands for: more than any proxy makes in a week, and thousands of such can be summed up exactly. */
const mostCounted = 1e12;

function countOf(field: string, count: unknown): number {
  if (typeof count === 'number' && Number.isInteger(count) && count >= 1 && count <= mostCounted) return count;
  throw new BadLine(field, `${valueText(count)} is not a count`, again);
}

function required<T>(field: string, given: T | undefined): T {
  if (given === undefined) throw new BadLine(field, 'is missing', again);
  return given;
}

/** Null counts as absent. */
function optionalText(field: string, given: unknown): string | undefined {
  const text = given ?? undefined;
  if (text === undefined || typeof text === 'string') return text;
  throw new BadLine(field, 'is not a string', again);
}

function oneOf<T extends string>(field: string, given: unknown, allowed: readonly T[]): T | undefined {
  const text = optionalText(field, given);
  if (text === undefined) return undefined;
  for (const each of allowed) if (each === text) return each;
  throw new BadLine(field, `${valueText(text)} is none of ${allowed.join(', ')}`, again);
}

function headersOf({ headers }: JsonFields): RecordedQuestion['headers'] {
  if (headers === undefined || headers === null) return undefined;
  if (typeof headers !== 'object' || Array.isArray(headers)) throw new BadLine('headers', 'is not an object', again);
  const named = Object.entries(headers).map(([name, given]): [string, string[]] => {
    const values: unknown[] = Array.isArray(given) ? given : [given];
    const texts = values.filter((each) => typeof each === 'string');
    if (texts.length === values.length) return [name, texts];
    throw new BadLine('headers', `${valueText(name)} is neither a string nor a list of strings`, again);
  });
  return Object.fromEntries(named);
}
