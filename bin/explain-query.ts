import type { Listeners } from '../lib/config/listeners.ts';
import { portNumber } from '../lib/config/values.ts';
import type { FaultCode } from '../lib/errors/faults.ts';
import type { IpAddress } from '../lib/ip.ts';
import type { ExplainQuery } from '../lib/policy/explain.ts';
import { nearestName } from '../lib/policy/nearest.ts';
import { portsOfServer, serverPortNames, serviceAccountIdentity, type Workload } from '../lib/policy/workload.ts';
import { valueText } from '../lib/printable.ts';
import type { GivenQuestion } from '../lib/records/record.ts';
import { UsageError } from './arguments.ts';
import { type Noted, notedClient, notedIdentity, notesOfArrival } from './explain-notes.ts';

export type { GivenQuestion };

const requestFields = ['protocol', 'method', 'path', 'host', 'headers', 'carries'] as const;
const fields = ['port', 'client', 'identity', 'serviceAccount', 'tls', ...requestFields] as const;

/** `field` is the one at fault. */
export class BadQuestion extends Error {
  readonly field: keyof GivenQuestion;
  readonly code = 'bad-question' satisfies FaultCode;
  constructor(field: keyof GivenQuestion, message: string) {
    super(message);
    this.field = field;
  }
}

/** What a question is asked of. */
export interface Asked {
  readonly workload: Workload;
  readonly listeners: Listeners | null;
  /** How a port of the pod gets a name, where that is not by a flag. */
  readonly nameIt?: (port: string) => string;
}

/**
 * The question as the policy core takes it, and what there is to say of it. Nothing is guessed: a field of the wrong type is
 * never read as if it were absent.
 *
 * @throws BadQuestion
 */
export function queryFrom(question: GivenQuestion, { workload, listeners, nameIt }: Asked): Noted<ExplainQuery> {
  const given = identityOf(question, workload);
  const tls = oneOf(question, 'tls', ['none', 'anonymous', 'passthrough'] as const);
  if (given !== undefined && tls !== undefined) {
    const field = question.identity === undefined ? 'serviceAccount' : 'identity';
    throw new BadQuestion(field, 'is given together with tls; an identity already means mesh TLS');
  }
  const identity = given === undefined ? { value: null, notes: [] } : notedIdentity(given, workload);
  const port = portOf(question, workload, nameIt);
  const client = clientOf(question);
  const value = defined({
    port,
    ip: client.value,
    identity: identity.value ?? undefined,
    // A certificate that gives no name is still one.
    tls: given !== undefined && identity.value === null ? 'anonymous' : tls,
    protocol: oneOf(question, 'protocol', ['http1', 'http2', 'grpc', 'tcp', 'connect'] as const),
    method: text(question, 'method'),
    path: text(question, 'path'),
    host: text(question, 'host'),
    headers: headersOf(question),
    carries: oneOf(question, 'carries', ['body', 'upgrade'] as const),
  });
  return { value, notes: [...identity.notes, ...client.notes, ...notesOfArrival(listeners, port, client.value)] };
}

/** Without the fields that were not given, whose defaults the policy core knows. */
function defined(fields: { [K in keyof ExplainQuery]: ExplainQuery[K] | undefined }): ExplainQuery {
  return Object.fromEntries(
    Object.entries(fields).filter(([, value]) => value !== undefined),
  ) as unknown as ExplainQuery;
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
    throw new BadQuestion(field, `${valueText(given)} is none of ${allowed.join(', ')}`);
  }
  return found;
}

/** Where a field is not called as its flag. */
const flags: ReadonlyMap<keyof GivenQuestion, string> = new Map([
  ['serviceAccount', 'service-account'],
  ['headers', 'header'],
]);

/** The question that flags ask. @throws UsageError */
export function queryOfFlags(question: GivenQuestion, asked: Asked): Noted<ExplainQuery> {
  try {
    return queryFrom(question, asked);
  } catch (error) {
    if (!(error instanceof BadQuestion)) throw error;
    throw new UsageError(error.code, `--${flags.get(error.field) ?? error.field}: ${error.message}`);
  }
}

/** As a certificate gives it, or as the trust domain makes it of a ServiceAccount. */
function identityOf(question: GivenQuestion, workload: Workload): string | undefined {
  const identity = text(question, 'identity');
  if (identity === '') throw new BadQuestion('identity', 'is empty; leave it out for a client without one');
  const account = question.serviceAccount ?? undefined;
  if (account === undefined) return identity;
  if (identity !== undefined) throw new BadQuestion('serviceAccount', 'is given together with identity');
  const named = typeof account === 'string' ? accountText(account) : account;
  const { name, namespace = workload.namespace } = named as { readonly name?: unknown; readonly namespace?: unknown };
  if (typeof name !== 'string' || typeof namespace !== 'string' || !isLabel(namespace) || name === '') {
    throw new BadQuestion('serviceAccount', `${valueText(account)} is not NAMESPACE/NAME`);
  }
  return serviceAccountIdentity(workload, namespace, name);
}

function accountText(account: string): { readonly name: string; readonly namespace?: string } {
  const slash = account.indexOf('/');
  return slash === -1 ? { name: account } : { namespace: account.slice(0, slash), name: account.slice(slash + 1) };
}

/** With a dot in it, a namespace would be read as a part of the name. */
function isLabel(text: string): boolean {
  return /^[a-z0-9](?:[a-z0-9-]*[a-z0-9])?$/.test(text);
}

/** By number, or by the name that the pod's facts have for it. */
function portOf({ port }: GivenQuestion, workload: Workload, nameIt: Asked['nameIt']): number {
  if (port === undefined || port === null) throw new BadQuestion('port', 'is missing');
  if (typeof port !== 'number' && typeof port !== 'string') {
    throw new BadQuestion('port', `${valueText(port)} is not a port`);
  }
  const number = portNumber(String(port));
  if (number !== undefined) return number;
  const [named, ...others] = portsOfServer(workload, String(port));
  if (named !== undefined && others.length === 0) return named;
  if (named !== undefined) {
    throw new BadQuestion('port', `${valueText(port)} names several ports: ${[named, ...others].join(', ')}`);
  }
  if (!/^[A-Za-z_][\w-]*$/.test(String(port))) throw new BadQuestion('port', `${valueText(port)} is not a port`);
  const nearest = nearestName(String(port), serverPortNames(workload));
  const remedy = nameIt?.(String(port)) ?? `name it with --pod-port ${String(port).slice(0, 63)}=N`;
  const hint = nearest === undefined ? remedy : `did you mean ${nearest}?`;
  throw new BadQuestion('port', `${valueText(port)} is no port of the pod; ${hint}`);
}

function clientOf(question: GivenQuestion): Noted<IpAddress> {
  const given = text(question, 'client');
  if (given === undefined) throw new BadQuestion('client', 'is missing');
  const noted = notedClient(given);
  if (noted === null) throw new BadQuestion('client', `${valueText(given)} is not an IP address`);
  return noted;
}

function headersOf({ headers }: GivenQuestion): readonly (readonly [string, string])[] {
  if (headers === undefined || headers === null) return [];
  if (typeof headers !== 'object' || Array.isArray(headers)) throw new BadQuestion('headers', 'is not an object');
  return Object.entries(headers).flatMap(([name, given]) => {
    const values: unknown[] = Array.isArray(given) ? given : [given];
    return values.map((value): [string, string] => {
      if (typeof value === 'string') return [name, value];
      throw new BadQuestion('headers', `${valueText(name)} is neither a string nor a list of strings`);
    });
  });
}

/** The values of `--header 'K: V'` by name. @throws UsageError */
export function headersOfFlags(values: readonly string[]): Readonly<Record<string, readonly string[]>> {
  const headers = values.map((header): readonly [string, string] => {
    const colon = header.indexOf(':');
    if (colon < 1)
      throw new UsageError('bad-question', `--header ${JSON.stringify(header)} has no name`, "write --header 'K: V'");
    return [header.slice(0, colon).trim(), header.slice(colon + 1).trim()];
  });
  const byName = Map.groupBy(headers, ([name]) => name);
  return Object.fromEntries([...byName].map(([name, pairs]) => [name, pairs.map(([, value]) => value)]));
}
