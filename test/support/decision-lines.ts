import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { workloadName } from './certificates.ts';

/** Lines of the record of decisions, for commands that read logs: of the pod that `podFlags` describes. */

export interface Given {
  readonly [field: string]: unknown;
}

let seconds = 0;
export const line = (fields: Given): string => {
  seconds += 1;
  const time = new Date(Date.UTC(2026, 10, 20, 14, 0, seconds)).toISOString();
  return JSON.stringify({
    ...{
      decision: 1,
      time,
      port: 8080,
      client: '10.1.2.3',
      protocol: 'http1',
      method: 'GET',
      path: '/',
      host: 'orders',
    },
    ...{ headers: {}, verdict: 'permit', status: null, route: null, authz: open, server: open },
    ...fields,
  });
};
const open = { group: '', kind: 'default', name: 'all-unauthenticated' };
export const probe = { group: '', kind: 'default', name: 'probe' };
export const checkout = workloadName('checkout', 'shop');
export const web = workloadName('web', 'front');
export const many = (count: number, of: (i: number) => Given): Given[] =>
  Array.from({ length: count }, (_, i) => of(i));
export const bytes = { protocol: 'tcp', method: undefined, path: undefined, host: undefined, route: undefined };

export const podFlags = ['--namespace', 'shop', '--pod-label', 'app=orders', '--pod-port', 'http=8080'];

/** Of one of these each second. @returns its path */
export function log(folder: string, lines: readonly Given[]): string {
  const file = join(folder, 'log.jsonl');
  writeFileSync(file, `${lines.map(line).join('\n')}\n`);
  return file;
}
