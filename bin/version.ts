import { readFileSync } from 'node:fs';

/** @throws when package.json is missing from the installation. */
export function version(): string {
  // Beside bin/ in a checkout, one folder further up from dist/bin/ in the package.
  for (const place of ['../package.json', '../../package.json']) {
    try {
      return JSON.parse(readFileSync(new URL(place, import.meta.url), 'utf8')).version;
    } catch {
      // Not here; the next place is tried.
    }
  }
  throw new Error('package.json is missing from the installation');
}
