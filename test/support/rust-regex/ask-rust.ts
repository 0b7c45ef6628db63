import { execFileSync } from 'node:child_process';

/** A line of the Rust program's answer for each line that it is asked. Builds it, for which it takes cargo and crates.io. */
export function askRust(command: 'tables' | 'judge', lines: readonly string[]): string[] {
  const answer = execFileSync('cargo', ['run', '--quiet', '--release', '--locked', '--', command], {
    cwd: new URL('.', import.meta.url).pathname,
    input: lines.map((line) => `${line}\n`).join(''),
    encoding: 'utf8',
    maxBuffer: 64 * 1024 * 1024,
  });
  return answer.split('\n').slice(0, lines.length);
}
