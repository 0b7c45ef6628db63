/**
 * Methods whose requests may be sent again when an idle connection proves to be closed (RFC 9110 9.2.2): nothing happens
 * twice that the client did not ask for.
 */
export const idempotent: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS', 'TRACE', 'PUT', 'DELETE']);
