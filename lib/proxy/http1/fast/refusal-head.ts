import { STATUS_CODES } from 'node:http';
import type { ConnectionFacts } from '../../connection-facts.ts';
import { fieldLines } from '../../http/field-lines.ts';
import { type Refusal, refusalHeaders } from '../../http/refuse.ts';

/**
 * The head of a response of ours, which has no content; both parts are lines that end with CRLF.
 *
 * @param connectionLines what it says of its connection.
 */
export function refusalHead(
  refusal: Refusal,
  facts: ConnectionFacts,
  connectionLines: string,
): { readonly statusLine: string; readonly lines: string } {
  const lines = `${fieldLines(refusalHeaders(refusal, facts, false))}${connectionLines}`;
  return { statusLine: `HTTP/1.1 ${refusal.status} ${STATUS_CODES[refusal.status] ?? ''}\r\n`, lines };
}
