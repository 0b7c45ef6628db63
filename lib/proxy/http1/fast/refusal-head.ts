import { STATUS_CODES } from 'node:http';
import type { ConnectionFacts } from '../../connection-facts.ts';
import { fieldLines } from '../../http/field-lines.ts';
import { type Refusal, refusalHeaders } from '../../http/refuse.ts';

/**
 * The head of a response of ours, which has no content, with its empty line.
 *
 * @param connectionLines what it says of its connection.
 */
export function refusalHead(refusal: Refusal, facts: ConnectionFacts, connectionLines: string): string {
  const statusLine = `HTTP/1.1 ${refusal.status} ${STATUS_CODES[refusal.status] ?? ''}\r\n`;
  return `${statusLine}${fieldLines(refusalHeaders(refusal, facts, false))}${connectionLines}\r\n`;
}
