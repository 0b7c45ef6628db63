import { token } from '../../../http-message.ts';
import { areSound, type HeaderList, valueForm } from '../../../request-fields.ts';

/* What pseudo-headers of a field section may be (RFC 9113 8.3); of its other fields ../../../request-fields.ts says so. */

const schemeForm = /^[A-Za-z][A-Za-z0-9+.-]*$/;
const pathForm = /^[\x21-\x7e\x80-\xff]+$/;

/** Whether a request's header section is well formed; what its parts mean is not looked at. */
export function isSoundRequest(fields: HeaderList): boolean {
  let method: string | null = null;
  let scheme: string | null = null;
  let path: string | null = null;
  let authority: string | null = null;
  let at = 0;
  for (; at + 1 < fields.length; at += 2) {
    const name = fields[at] as string;
    const value = fields[at + 1] as string;
    if (name === ':method') {
      if (method !== null || !token.test(value)) return false;
      method = value;
    } else if (name === ':scheme') {
      if (scheme !== null || !schemeForm.test(value)) return false;
      scheme = value;
    } else if (name === ':path') {
      if (path !== null || !pathForm.test(value)) return false;
      path = value;
    } else if (name === ':authority') {
      if (authority !== null || !valueForm.test(value)) return false;
      authority = value;
    } else break;
  }
  if (method === 'CONNECT') {
    if (scheme !== null || path !== null || authority === null) return false;
  } else if (method === null || scheme === null || path === null) {
    return false;
  }
  return areSound(fields, at);
}

/** The status of a response whose header section is well formed; 0 where it is not. */
export function soundStatus(fields: HeaderList): number {
  const text = fields[1] ?? '';
  if (fields[0] !== ':status' || !/^[1-9][0-9]{2}$/.test(text) || text === '101') return 0;
  return areSound(fields, 2) ? Number(text) : 0;
}

/** Framing and routing are not trailers' to tell (RFC 9110 6.5.1): their receiver may go by them. */
export function areSoundTrailers(fields: HeaderList): boolean {
  for (let i = 0; i < fields.length; i += 2) if (fields[i] === 'content-length' || fields[i] === 'host') return false;
  return areSound(fields, 0);
}
