/**
 * Linkerd's access log (linkerd2-proxy http/access-log): one line per answered request, with its fields; as JSON also with the
 * port that the client meant and its kind of TLS in the words of `explain`, so that the request can be decided again.
 */
import { clientId, tlsKind } from '../client.ts';
import { hostPort } from '../ip.ts';
import { escapedJson } from '../printable.ts';
import type { ConnectionFacts } from '../proxy/connection-facts.ts';
import type { AccessRecord } from '../proxy/recorder.ts';
import { clip } from './line-bounds.ts';
import { bufferedOutput, type LineSink } from './output.ts';

const maxUri = 8192;
const maxText = 1024;

export interface AccessLogOptions {
  readonly format: 'apache' | 'json';
  /** Standard error by default. */
  readonly destination?: LineSink;
  /** Unix milliseconds, fractional; tests bring their own. */
  readonly now?: () => number;
}

export function createAccessLog(options: AccessLogOptions): (facts: ConnectionFacts, record: AccessRecord) => void {
  const sink = options.destination ?? bufferedOutput(2);
  const now = options.now ?? (() => performance.timeOrigin + performance.now());
  const line = options.format === 'apache' ? apacheLine : jsonLine;
  // The timestamp is the request's, and the line is written at its response.
  return (facts, record) => sink.write(line(facts, record, timestamp(now() - record.totalMs)));
}

function apacheLine(facts: ConnectionFacts, record: AccessRecord, time: string): string {
  const id = clientId(facts.client) ?? '-';
  const request = `${clip(record.method, maxText)} ${clip(record.uri, maxUri)} ${record.version}`;
  return `${clientAddr(facts)} ${quotable(id)} - [${time}] "${quotable(request)}" ${record.status}\n`;
}

/** Inside quotes and brackets: quotes, backslashes and whatever would end or disturb the line are escaped. */
function quotable(text: string): string {
  return escapedJson(JSON.stringify(text).slice(1, -1));
}

function jsonLine(facts: ConnectionFacts, record: AccessRecord, time: string): string {
  const fields: Record<string, string | number> = {
    'client.addr': clientAddr(facts),
    'client.id': clientId(facts.client) ?? '',
    host: clip(record.host, maxText),
    method: clip(record.method, maxText),
    port: facts.targetPort,
    processing_ns: nanoseconds(record.processingMs),
    request_bytes: clip(record.requestBytes, maxText),
  };
  if (record.responseBytes !== '') fields.response_bytes = clip(record.responseBytes, maxText);
  Object.assign(fields, {
    status: record.status,
    timestamp: time,
    tls: tlsKind(facts.client),
    total_ns: nanoseconds(record.totalMs),
    trace_id: clip(record.traceId, maxText),
    uri: clip(record.uri, maxUri),
    user_agent: clip(record.userAgent, maxText),
    version: record.version,
  });
  return `${escapedJson(JSON.stringify(fields))}\n`;
}

function clientAddr(facts: ConnectionFacts): string {
  return hostPort(facts.client.ip.text, facts.clientPort);
}

function nanoseconds(milliseconds: number): string {
  return String(Math.max(0, Math.round(milliseconds * 1e6)));
}

/** RFC 3339 with nine decimals, as Linkerd writes it; Node's clock knows the first six of them. */
function timestamp(unixMs: number): string {
  const whole = Math.floor(unixMs);
  const fraction = Math.floor((unixMs - whole) * 1e6);
  return `${new Date(whole).toISOString().slice(0, -1)}${String(fraction).padStart(6, '0')}Z`;
}
