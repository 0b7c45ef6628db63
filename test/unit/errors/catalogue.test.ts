import { readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import t from 'tap';
import { CodedError } from '../../../lib/errors/coded-error.ts';
import { errorCatalogue } from '../../../lib/errors/error-codes.ts';
import { problemCatalogue, withRemedy } from '../../../lib/errors/problems.ts';

const root = resolve(import.meta.dirname, '../../..');

const sources = ['lib', 'bin'].flatMap((folder) =>
  readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .map((name) => join(folder, name))
    .filter((name) => name.endsWith('.ts') && !name.startsWith('lib/errors/'))
    .map((name) => readFileSync(join(root, name), 'utf8')),
);

// That a code is in the catalogue, and that its severity is one that it may have, the compiler sees to.
t.test('every code of the catalogue is used, and says what it means and what to do', async (t) => {
  const rows = { ...problemCatalogue, ...errorCatalogue };
  t.ok(Object.keys(rows).length > 100, 'codes are found at all');
  for (const [code, { meaning, remedy }] of Object.entries(rows)) {
    t.ok(
      sources.some((source) => source.includes(`'${code}'`)),
      `${code} is used`,
    );
    t.match(code, code in problemCatalogue ? /^[a-z]+(-[a-z]+)*$/ : /^ERR_SALLYPORT_[A-Z_]+$/);
    for (const text of [meaning, remedy]) t.match(text, /^[A-Za-z].{5,150}\.$/, code);
  }
});

t.test('a problem without a remedy of its own gets that of its code', async (t) => {
  const { remedy } = problemCatalogue.regex;
  t.same(withRemedy({ code: 'regex', hint: '' }), { code: 'regex', hint: remedy });
  t.same(withRemedy({ code: 'regex', hint: 'Better.' }), { code: 'regex', hint: 'Better.' });
});

t.test('a coded error', async (t) => {
  const cause = new Error('below');
  const error = new CodedError('ERR_SALLYPORT_LOOP', 'round and round', { cause });
  t.match(error, { code: 'ERR_SALLYPORT_LOOP', message: 'round and round', cause });
  t.ok(error instanceof Error);
});
