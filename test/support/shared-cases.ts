import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { checkout } from './sallyport.ts';

export type CasesFile<T> =
  | { readonly found: true; readonly cases: T }
  /** Given to tap's `skip`. */
  | { readonly found: false; readonly reason: string };

/** The shared folder lies beside the checkout, or where SALLYPORT_SHARED says. */
export function sharedCasesPath(file: string): string {
  return join(process.env.SALLYPORT_SHARED ?? join(checkout, '..', 'shared'), 'cases', file);
}

export function readSharedCases<T>(file: string): CasesFile<T> {
  const path = sharedCasesPath(file);
  if (!existsSync(path)) return { found: false, reason: `no ${path}; SALLYPORT_SHARED names the folder that holds it` };
  return { found: true, cases: parse(readFileSync(path, 'utf8')) as T };
}
