import { portNumber } from '../lib/config/values.ts';
import type { FaultCode } from '../lib/errors/faults.ts';
import { type IpAddress, parseIp } from '../lib/ip.ts';
import type { ExplainQuery } from '../lib/policy/explain.ts';
import { nearestName } from '../lib/policy/nearest.ts';

/** A question as given, by flags or by a line of JSON; nothing has been judged yet. */
export interface GivenQuestion {
  readonly port?: unknown;
  readonly client?: unknown;
  readonly identity?: unknown;
  readonly tls?: unknown;
  readonly protocol?: unknown;
  readonly method?: unknown;
  readonly path?: unknown;
  readonly host?: unknown;
  /** A string or a list of strings by name. */
  readonly headers?: unknown;
}

const fields = ['port', 'client', 'identity', 'tls', 'protocol', 'method', 'path', 'host', 'headers'] as const;

/** `field` is the one at fault; null when the question as a whole is. */
export class BadQuestion extends Error {
  readonly field: keyof GivenQuestion | null;
  readonly code = 'bad-question' satisfies FaultCode;
  constructor(field: keyof GivenQuestion | null, message: string) {
    super(message);
    this.field = field;
  }
}

/** @throws BadQuestion. Nothing is guessed: a field of the wrong type is never read as if it were absent. */
export function queryFrom(question: GivenQuestion): ExplainQuery {
  const identity = text(question, 'identity');
  const tls = oneOf(question, 'tls', ['none', 'anonymous', 'passthrough'] as const);
  if (identity === '') throw new BadQuestion('identity', 'is empty; leave it out for a client without one');
  if (identity !== undefined && tls !== undefined) {
    throw new BadQuestion('identity', 'is given together with tls; an identity already means mesh TLS');
  }
  return defined({
    port: portOf(question),
    ip: clientIp(question),
    identity,
    tls,
    protocol: oneOf(question, 'protocol', ['http1', 'http2', 'grpc', 'tcp', 'connect'] as const),
    method: text(question, 'method'),
    path: text(question, 'path'),
    host: text(question, 'host'),
    headers: headersOf(question),
  });
}

/** Without the fields that were not given, whose defaults the policy core knows. */
function defined(fields: { [K in keyof ExplainQuery]: ExplainQuery[K] | undefined }): ExplainQuery {
  return Object.fromEntries(
    Object.entries(fields).filter(([, value]) => value !== undefined),
  ) as unknown as ExplainQuery;
}

/** One line of a `--requests` file. @throws BadQuestion */
export function questionFromLine(line: string): GivenQuestion {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    throw new BadQuestion(null, 'is not JSON');
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new BadQuestion(null, 'is not a JSON object');
  }
  return value;
}

/** Names that are not read, with the one that was probably meant: `methd` would otherwise ask about a GET. */
export function unreadFields(question: GivenQuestion): string[] {
  return Object.keys(question)
    .filter((name) => !fields.some((known) => known === name))
    .map((name) => {
      const nearest = nearestName(name, fields);
      return nearest === undefined ? `"${name}" is not read` : `"${name}" is not read; did you mean "${nearest}"?`;
    });
}

/** Undefined where the field is absent; null counts as absent. */
function text(question: GivenQuestion, field: keyof GivenQuestion): string | undefined {
  const value = question[field] ?? undefined;
  if (value === undefined || typeof value === 'string') return value;
  throw new BadQuestion(field, 'is not a string');
}

function oneOf<T extends string>(
  question: GivenQuestion,
  field: keyof GivenQuestion,
  allowed: readonly T[],
): T | undefined {
  const given = text(question, field);
  const found = allowed.find((value) => value === given);
  if (given !== undefined && found === undefined) {
    throw new BadQuestion(field, `${JSON.stringify(given)} is none of ${allowed.join(', ')}`);
  }
  return found;
}

function portOf({ port }: GivenQuestion): number {
  if (port === undefined || port === null) throw new BadQuestion('port', 'is missing');
  const number = typeof port === 'number' || typeof port === 'string' ? portNumber(String(port)) : undefined;
  if (number === undefined) throw new BadQuestion('port', `${JSON.stringify(port)} is not a port`);
  return number;
}

function clientIp(question: GivenQuestion): IpAddress {
  const given = text(question, 'client');
  if (given === undefined) throw new BadQuestion('client', 'is missing');
  const ip = parseIp(given);
  if (ip === undefined) throw new BadQuestion('client', `${JSON.stringify(given)} is not an IP address`);
  return ip;
}

function headersOf({ headers }: GivenQuestion): readonly (readonly [string, string])[] {
  if (headers === undefined || headers === null) return [];
  if (typeof headers !== 'object' || Array.isArray(headers)) throw new BadQuestion('headers', 'is not an object');
  return Object.entries(headers).flatMap(([name, given]) => {
    const values: unknown[] = Array.isArray(given) ? given : [given];
    return values.map((value): [string, string] => {
      if (typeof value === 'string') return [name, value];
      throw new BadQuestion('headers', `${JSON.stringify(name)} is neither a string nor a list of strings`);
    });
  });
}
