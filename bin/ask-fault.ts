const nobody = 'nobody listens there';
const brokeOff = 'the connection broke off';
const noWay = 'no way leads there';
const late = 'no answer came in time';
const unknown = 'nobody knows that name';

const known: ReadonlyMap<string, string> = new Map([
  ['ECONNREFUSED', nobody],
  ['ECONNRESET', brokeOff],
  ['EPIPE', brokeOff],
  ['UND_ERR_SOCKET', brokeOff],
  ['EHOSTUNREACH', noWay],
  ['ENETUNREACH', noWay],
  ['ETIMEDOUT', late],
  ['UND_ERR_CONNECT_TIMEOUT', late],
  ['UND_ERR_HEADERS_TIMEOUT', late],
  ['UND_ERR_BODY_TIMEOUT', late],
  ['ENOTFOUND', unknown],
  ['EAI_AGAIN', unknown],
]);

/** Why somebody who was asked over HTTP gave no answer, by what Node's client or undici say of it. For people, and no sentence. */
export function askFault(error: unknown): string {
  const { code = '', message = String(error) } = error as NodeJS.ErrnoException;
  if (code.startsWith('HPE_')) return 'what answers there speaks no HTTP';
  return known.get(code) ?? (message || code);
}
