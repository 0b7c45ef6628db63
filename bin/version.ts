import { readFileSync } from 'node:fs';
import type { Main } from './arguments.ts';

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

export const main: Main<'version'> = async (line, io) => {
  const said = { version: version(), node: process.version };
  io.stdout.write(line.has('json') ? `${JSON.stringify(said)}\n` : `sallyport ${said.version}\n`);
  return 0;
};
