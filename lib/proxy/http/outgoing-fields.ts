import { type Client, clientId } from '../../client.ts';
import { type HeaderList, identityHeader } from '../../request-fields.ts';
import type { Admitted } from './admitted.ts';
import { fieldLines, fieldPairs } from './field-lines.ts';
import { applyHeaderChanges } from './headers.ts';

/*
 * What the app gets beyond what its client sent, for every way there: the verified identity and the route's header
 * changes. Nothing that a client sent under the identity's name is among the fields any more.
 */

/** @param fields as received: end-to-end fields alone, none that claims to be an identity. */
export function outgoingFields(client: Client, { permit }: Admitted, fields: HeaderList): HeaderList {
  const id = clientId(client);
  const identified = id === null ? fields : [...fields, identityHeader, id];
  return permit.headerChanges === null ? identified : applyHeaderChanges(identified, permit.headerChanges);
}

/** The same of fields that are lines, each ended with CRLF. */
export function outgoingLines(client: Client, admitted: Admitted, lines: string): string {
  if (admitted.permit.headerChanges !== null) {
    return fieldLines(outgoingFields(client, admitted, fieldPairs(lines)));
  }
  const id = clientId(client);
  return id === null ? lines : `${lines}${identityHeader}: ${id}\r\n`;
}
