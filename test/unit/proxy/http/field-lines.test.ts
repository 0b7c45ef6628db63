import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { patience } from '../../../support/until.ts';

const module = new URL('../../../../lib/proxy/http/field-lines.ts', import.meta.url).href;
const timeout = Math.ceil(5000 * patience());

/** In a process of its own: one that does not come to an end cannot be timed out from inside. */
function said(call: string): string {
  const code = `import * as lines from ${JSON.stringify(module)}; console.log(JSON.stringify(lines.${call}))`;
  const cwd = fileURLToPath(new URL('../../../../', import.meta.url));
  const { stdout, stderr, signal } = spawnSync(process.execPath, ['--input-type=module', '-e', code], {
    cwd,
    timeout,
    encoding: 'utf8',
  });
  return signal === null ? stdout.trim() + stderr : `ended by ${signal}`;
}

t.test('lines come to an end, whether the last one has its CRLF or not', async (t) => {
  const rows: readonly (readonly [text: string, pairs: readonly string[], values: readonly string[], kept: string])[] =
    [
      ['', [], [], ''],
      ['A: 1\r\nB: 2\r\n', ['A', '1', 'B', '2'], ['2'], 'B: 2\r\n'],
      ['A: 1\r\nB: 2', ['A', '1', 'B', '2'], ['2'], 'B: 2'],
      ['B: 2', ['B', '2'], ['2'], 'B: 2'],
      ['B: 2\n', ['B', '2\n'], ['2\n'], 'B: 2\n'],
      ['B: 2\r', ['B', '2\r'], ['2\r'], 'B: 2\r'],
    ];
  for (const [text, pairs, values, kept] of rows) {
    const given = JSON.stringify(text);
    t.equal(said(`fieldPairs(${given})`), JSON.stringify(pairs), `pairs of ${given}`);
    t.equal(said(`fieldValues(${given}, 'b')`), JSON.stringify(values), `values of ${given}`);
    t.equal(said(`linesWhere(${given}, (name) => name === 'b')`), JSON.stringify(kept), `lines of ${given}`);
  }
});
