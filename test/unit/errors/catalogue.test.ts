import { readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import t from 'tap';
import { CodedError } from '../../../lib/errors/coded-error.ts';
import { errorCatalogue } from '../../../lib/errors/error-codes.ts';
import { faultCatalogue } from '../../../lib/errors/faults.ts';
import { problemCatalogue, withRemedy } from '../../../lib/errors/problems.ts';

const root = resolve(import.meta.dirname, '../../..');

const sources: ReadonlyMap<string, string> = new Map(
  ['lib', 'bin', 'certs'].flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
      .map((name) => join(folder, name))
      .filter((name) => /\.ts$|\/sallyport$/.test(name) && !name.startsWith('lib/errors/'))
      .map((name) => [name, readFileSync(join(root, name), 'utf8')] as const),
  ),
);
const texts = [...sources.values()];

// That a code is in the catalogue, and that its severity is one that it may have, the compiler sees to.
t.test('every code of the catalogue is used, and says what it means and what to do', async (t) => {
  const catalogues = [problemCatalogue, errorCatalogue, faultCatalogue];
  const rows = { ...problemCatalogue, ...errorCatalogue, ...faultCatalogue };
  t.ok(Object.keys(rows).length > 150, 'codes are found at all');
  t.equal(
    Object.keys(rows).length,
    catalogues.reduce((sum, each) => sum + Object.keys(each).length, 0),
    'a code is in one catalogue alone',
  );
  for (const [code, { meaning, remedy }] of Object.entries(rows)) {
    t.ok(
      texts.some((source) => source.includes(`'${code}'`) || source.includes(`[${code}]`)),
      `${code} is used`,
    );
    t.match(code, !(code in errorCatalogue) ? /^[a-z]+\d?(-[a-z]+\d?)*$/ : /^ERR_SALLYPORT_[A-Z_]+$/);
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

interface Utterance {
  /** What reaches a person, or may. */
  readonly pattern: RegExp;
  /** Where that is right, and why; each place must still need its exception. */
  readonly allowed: ReadonlyMap<string, string>;
  /** Rooms that are not looked at. */
  readonly beside?: RegExp;
}

const nobody: ReadonlyMap<string, string> = new Map();

/** All ways in which words of ours leave the program: each is one that asks for a code, or is named here. */
const utterances: readonly Utterance[] = [
  {
    pattern: /\bstderr\.write\(/g,
    allowed: new Map([
      ['bin/arguments.ts', 'complain: the way with a code'],
      ['bin/existing-policy.ts', 'problems, which have codes'],
      ['bin/explain-policy.ts', 'problems, which have codes'],
      ['bin/inject.ts', 'problems and workloads'],
      ['bin/main.ts', 'usage, UsageError, and what nobody has foreseen'],
      ['bin/policy-test-load.ts', 'problems and faults, which have codes'],
      ['bin/standard-input.ts', 'says what it waits for'],
      ['bin/suggest.ts', 'problems, which have codes'],
    ]),
  },
  {
    pattern:
      /\bconsole\.|process\.stderr|process\.emitWarning|writeSync\(2|writeTo\(2, `(?!sallyport: \$\{complaintText\()/g,
    allowed: nobody,
  },
  {
    // Errors without a code: a person sees them as faults of the program, with a stack, or through another one that has it.
    pattern: /\bnew (?:Error|TypeError|RangeError)\(/g,
    // What fails a request there gets its code in http/refuse.ts, without which there is no line.
    // What builds the image is run by its author.
    beside: /^lib\/(?:proxy\/http|deploy\/image\/)/,
    allowed: new Map([
      ['bin/health.ts', 'becomes the message of "unhealthy"'],
      ['bin/standard-input.ts', 'becomes the problem "unreadable"'],
      ['bin/version.ts', 'an installation without its package.json'],
      ['certs/authority.ts', 'become messages of the command certs'],
      ['lib/config/variables.ts', 'a default of ours'],
      ['lib/config/workload.ts', 'made wrong by us'],
      ['lib/deploy/yaml-edit.ts', 'used wrong by us'],
      ['lib/proxy/node-direct-writes.ts', 'as Node makes them of a failed write'],
      ['lib/redirect/apply.ts', 'used wrong by us'],
      ['lib/reload/chain-depth.ts', 'an OpenSSL that Node does not come with'],
      ['lib/reload/credential-files.ts', 'becomes a fault with a code'],
      ['lib/reload/credential-source.ts', 'used wrong by us'],
      ['lib/app/workers/remote-admin.ts', 'becomes status 413'],
      ['lib/app/workers/thread.ts', 'becomes the error of "worker-died"'],
      ['lib/reload/load-thread.ts', 'becomes the reason of "policy-not-loaded"'],
      ['lib/telemetry/figures.ts', 'used wrong by us'],
      ['lib/telemetry/labels.ts', 'used wrong by us'],
      ['lib/telemetry/pause-metrics.ts', 'used wrong by us'],
      ['lib/telemetry/series.ts', 'used wrong by us'],
      ['lib/telemetry/transport-metrics.ts', 'used wrong by us'],
      ['lib/reload/no-tickets.ts', 'an OpenSSL that Node does not come with'],
      ['lib/reload/policy-source.ts', 'becomes the reason of "policy-not-loaded"'],
      ['lib/reload/watch.ts', 'becomes the error of "not-watched"'],
    ]),
  },
  // Classes of errors: each has a code by its type, which the row below looks at.
  {
    pattern: /\bextends Error\b(?! implements Complaint)/g,
    allowed: new Map([
      ['bin/arguments.ts', 'UsageError, whose constructor asks for one'],
      ['bin/explain-query.ts', 'BadQuestion has one'],
      ['lib/analysis/automaton.ts', 'becomes what is said to be unexamined'],
      ['lib/certificate-names.ts', 'thrown and caught in the file'],
      ['lib/deploy/yaml-edit.ts', 'becomes the problem "not-editable"'],
      ['lib/policy/decide/question.ts', 'makes a request invalid'],
      ['lib/proxy/tls/shown-certificates.ts', 'thrown and caught in the file, and becomes the reason of a handshake'],
      ['lib/policy/rust-syntax.ts', 'becomes the problem "regex"'],
      ['lib/regular-file.ts', 'becomes the problem or fault of who reads'],
      ['lib/reload/policy-disk.ts', 'a load that nobody waits for any more'],
    ]),
  },
  // Past the types: the log whose warnings and errors need no code.
  { pattern: /\bfrom 'pino'/g, allowed: new Map([['lib/telemetry/log.ts', 'makes the log that asks for codes']]) },
  {
    pattern: /\b(?:warn|error)(?:\(fields: object|: \(fields: object)/g,
    allowed: nobody,
  },
  // The launcher, before there is any Node.
  { pattern: /echo "sallyport: [^"]*[^\]]" >&2/g, allowed: nobody },
];

t.test('no message that a user can cause stands without a code', async (t) => {
  const launcher = sources.get('bin/sallyport') ?? '';
  t.equal(launcher.match(/echo "sallyport: [^"]*" >&2/g)?.length, 4, 'messages of the launcher are found at all');
  for (const [code] of launcher.matchAll(/(?<=\[)[a-z]+-[a-z-]+(?=\]" >&2)/g)) t.ok(code in faultCatalogue, code);
  for (const { pattern, allowed, beside } of utterances) {
    const found = new Map(
      [...sources]
        .filter(([file]) => beside?.test(file) !== true)
        .map(([file, source]) => [file, source.match(pattern)?.length ?? 0]),
    );
    for (const [file, times] of found) {
      if (allowed.has(file)) t.not(times, 0, `${file} needs its exception from ${pattern}`);
      else t.equal(times, 0, `${file}: ${pattern}`);
    }
    for (const file of allowed.keys()) t.ok(found.has(file), `${file}, an exception, is there`);
  }
});
