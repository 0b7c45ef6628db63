import type { GivenQuestion } from './explain-query.ts';
import { BadQuestion } from './explain-query.ts';

/*
 * A line of `--requests`: a question as JSON, or a line of our own logs as it stands: the decision log in JSON or plain, the
 * access log in JSON or as Apache has it.
 */

export type ReadLine =
  | { readonly kind: 'question'; readonly question: GivenQuestion }
  /** `logged`: the message, or the status, that the line has. */
  | { readonly kind: 'logged'; readonly question: GivenQuestion; readonly logged: string }
  /** A line of a log about something else. */
  | { readonly kind: 'other' };

type Fields = Readonly<Record<string, unknown>>;

const logLine = /^\d{4}-\d\d-\d\dT[\d:.]+Z (?:TRACE|DEBUG|INFO|WARN|ERROR|FATAL) /;
const apacheLine = /^(\S+:\d+) (\S+) - \[[^\]]+\] "(.*)" (\d{3})$/;

/** @throws BadQuestion */
export function readLine(line: string): ReadLine {
  if (logLine.test(line)) return ofLog(plainFields(line.replace(logLine, '')));
  const apache = apacheLine.exec(line);
  if (apache !== null) return ofApache(apache);
  const value = jsonObject(line);
  if (typeof value.msg === 'string' && typeof value.level === 'string') return ofLog(flat(value));
  if (typeof value['client.addr'] === 'string') return ofAccess(value);
  return { kind: 'question', question: value };
}

function jsonObject(line: string): Fields {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    throw new BadQuestion(null, /^\s*[[{]/.test(line) ? 'is not JSON' : 'is neither JSON nor a line of the log');
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new BadQuestion(null, 'is not a JSON object');
  }
  return value as Fields;
}

/** `client.ip` for `{ client: { ip } }`, as plain lines have it. */
function flat(value: Fields): Fields {
  return Object.fromEntries(
    Object.entries(value).flatMap(([name, inner]) =>
      typeof inner === 'object' && inner !== null && !Array.isArray(inner)
        ? Object.entries(inner).map(([field, leaf]) => [`${name}.${field}`, leaf])
        : [[name, inner]],
    ),
  );
}

const decided =
  /^(Request|Connection) (?:denied|allowed|not routed|rate limited|invalid|redirected|refused|failed|terminated due to policy change)$/;

function ofLog(fields: Fields): ReadLine {
  const message = String(fields.msg);
  const [, what] = decided.exec(message) ?? [];
  const [client, port] = [fields['client.ip'], fields['target.port']];
  if (what === undefined || client === undefined || port === undefined) return { kind: 'other' };
  const asked = what === 'Connection' ? { protocol: 'tcp' } : requestOf(fields);
  return { kind: 'logged', logged: message, question: { port, client, ...tlsOf(fields), ...asked } };
}

function tlsOf({ 'client.id': id, tls }: Fields): GivenQuestion {
  if (typeof id === 'string' && id !== '') return { identity: whole('identity', id) };
  return { tls: tls === 'true' ? 'anonymous' : tls === 'opaque' ? 'passthrough' : 'none' };
}

function requestOf(fields: Fields): GivenQuestion {
  const { method, path, host, version } = fields;
  const isGrpc = fields['route.kind'] === 'GRPCRoute' || /\/GRPCRoute\//.test(String(fields.route ?? ''));
  return {
    protocol: protocolOf(version, isGrpc),
    method: whole('method', method),
    path: whole('path', path),
    // A request of HTTP/1.0 has none.
    ...(host === '' || host === undefined ? {} : { host: whole('host', host) }),
  };
}

function protocolOf(version: unknown, isGrpc: boolean): string {
  if (!/^HTTP\/2/.test(String(version))) return 'http1';
  return isGrpc ? 'grpc' : 'http2';
}

/** A log cuts what is long, and half a path is another path. */
function whole(field: keyof GivenQuestion, value: unknown): unknown {
  if (typeof value === 'string' && value.endsWith('…')) throw new BadQuestion(field, 'was cut by the log');
  return value;
}

function ofAccess(fields: Fields): ReadLine {
  const { host, method, uri, version, status } = fields;
  const request = { ...tlsOf(fields), ...requestOf({ host, method, path: uri, version }) };
  return { kind: 'logged', logged: String(status), question: { client: addressOf(fields['client.addr']), ...request } };
}

function ofApache([, address, id, quoted = '', status]: RegExpExecArray): ReadLine {
  const request = String(parsed(`"${quoted}"`));
  const [, method, path, version] = /^(\S+) (.*) (\S+)$/s.exec(request) ?? [];
  if (method === undefined) throw new BadQuestion(null, 'is a line of the access log without a request');
  const asked = { ...tlsOf({ 'client.id': id === '-' ? '' : id }), ...requestOf({ method, path, version }) };
  return { kind: 'logged', logged: String(status), question: { client: addressOf(address), ...asked } };
}

/** `10.1.2.3:4567` and `[::1]:4567`, without the port. */
function addressOf(given: unknown): string {
  return String(given)
    .replace(/:\d+$/, '')
    .replace(/^\[(.*)\]$/, '$1');
}

/** The fields of a plain line, with its message as `msg`. */
function plainFields(text: string): Fields {
  const first = /(?: |^)([\w.:/@*+-]+)=/.exec(text);
  const fields: Record<string, unknown> = { msg: first === null ? text : text.slice(0, first.index) };
  let at = first?.index ?? text.length;
  while (at < text.length) {
    const [matched, name = ''] = /^ *([\w.:/@*+-]+|"(?:[^"\\]|\\.)*")=/.exec(text.slice(at)) ?? [];
    if (matched === undefined) break;
    const from = at + matched.length;
    const to = endOfValue(text, from);
    const value = text.slice(from, to);
    fields[name] = /^["[{]/.test(value) ? parsed(value) : value;
    at = to;
  }
  return fields;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new BadQuestion(null, 'is a line of the log that is not whole');
  }
}

/** Where a value ends: a quoted one at its quote, a list at its bracket, any other before a blank. */
function endOfValue(text: string, from: number): number {
  let depth = 0;
  let quoted = false;
  for (let i = from; i < text.length; i++) {
    const character = text[i];
    if (quoted) {
      if (character === '\\') i++;
      else if (character === '"') quoted = false;
    } else if (character === '"') quoted = true;
    else if (character === '[' || character === '{') depth++;
    else if (character === ']' || character === '}') depth--;
    else if (character === ' ' && depth === 0) return i;
  }
  return text.length;
}
