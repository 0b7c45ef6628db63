/** Label values from closed lists: whatever the system, an app or a client says becomes one of them. */

const errnoValues: ReadonlySet<string> = new Set([
  '',
  'EADDRNOTAVAIL',
  'ECANCELED',
  'ECONNABORTED',
  'ECONNREFUSED',
  'ECONNRESET',
  'EHOSTDOWN',
  'EHOSTUNREACH',
  'EIO',
  'EMFILE',
  'ENETDOWN',
  'ENETRESET',
  'ENETUNREACH',
  'ENFILE',
  'ENOBUFS',
  'ENOMEM',
  'ENOTCONN',
  'EPIPE',
  'EPROTO',
  'ETIMEDOUT',
]);

/** `other` for a code outside the closed list. */
export function errnoLabel(errno: string): string {
  return errnoValues.has(errno) ? errno : 'other';
}

/** A three-digit status as text; empty where there was no response; `other` for what is no status. */
export function statusLabel(status: number): string {
  if (status === 0) return '';
  return Number.isInteger(status) && status >= 100 && status <= 999 ? String(status) : 'other';
}

export const grpcLabels: readonly string[] = [...Array.from({ length: 17 }, (_, code) => String(code)), 'other', ''];
const grpcOther = 17;
export const grpcNone = 18;

/** Position in `grpcLabels`; decimal 0 to 16 only (grpc.io "Status codes"), everything else is `other`. */
export function grpcIndex(status: string | null): number {
  if (status === null || status === '') return grpcNone;
  const code = status.length <= 2 ? grpcLabels.indexOf(status) : -1;
  return code === -1 || code > 16 ? grpcOther : code;
}

/** The stream errors that `response_total{error}` may show: RFC 9113 section 7, in Linkerd's spelling. */
export const streamErrors: readonly string[] = [
  '',
  'unclassified',
  'h2(NO_ERROR)',
  'h2(PROTOCOL_ERROR)',
  'h2(INTERNAL_ERROR)',
  'h2(FLOW_CONTROL_ERROR)',
  'h2(SETTINGS_TIMEOUT)',
  'h2(STREAM_CLOSED)',
  'h2(FRAME_SIZE_ERROR)',
  'h2(REFUSED_STREAM)',
  'h2(CANCEL)',
  'h2(COMPRESSION_ERROR)',
  'h2(CONNECT_ERROR)',
  'h2(ENHANCE_YOUR_CALM)',
  'h2(INADEQUATE_SECURITY)',
  'h2(HTTP_1_1_REQUIRED)',
];

/** Position in `streamErrors`; an unknown text is `unclassified`. */
export function streamErrorIndex(error: string): number {
  if (error === '') return 0;
  const index = streamErrors.indexOf(error);
  return index === -1 ? 1 : index;
}
