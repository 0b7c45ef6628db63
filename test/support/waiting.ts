import type { Admitted, AdmittedNow } from '../../lib/proxy/http/admitted.ts';
import type { Waiting } from '../../lib/proxy/http2/app/waiting-requests.ts';

/** By a policy that stays in force: what a test of connections needs, and only the request pipeline makes. */
export const admittedForNow = { isCurrent: true } as AdmittedNow;

/** A GET that wants a session to the app, and does nothing with what it is told but what is given. */
export function waitingRequest(given: Partial<Waiting>): Waiting {
  return {
    admitted: {} as Admitted,
    admitLate: () => admittedForNow,
    requestHead: { bytes: Buffer.of(0x82), listBytes: 42 },
    method: 'GET',
    isComplete: true,
    owner: {},
    isAlone: true,
    room: 0,
    waitsSince: 0,
    begun: () => {},
    interim: () => {},
    head: () => {},
    data: () => true,
    ended: () => {},
    lost: () => {},
    taken: () => {},
    holds: () => {},
    destroy: () => {},
    ...given,
  };
}
