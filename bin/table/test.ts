import { command, once, repeated, toggle } from './row.ts';

export const testCommand = command({
  does: 'policy tests in YAML: questions to a policy with the answers that are expected, and what of it no case exercises',
  brief: 'test FILE…|- …',
  usage: ['test FILE…|- [flags]'],
  about: [
    "Asks each case of a test file of the policy that it names, by the proxy's own deciding function, and prints what is answered otherwise than expected, with the reason. No server runs, and no variable of the environment is read: a test decides alike everywhere. Each case is decided in a world of its own, in which no rate limit is spent.",
    'FILE is YAML, a test a document; - is standard input. lib/policy-test/README.md in the repository has the fields, and lib/policy-test/policy-test.schema.json in the package is their JSON Schema. A file with an unknown field, an empty list or a case without expectation is refused whole.',
  ],
  words: { kind: 'paths' },
  flags: {
    policy: repeated('PATH', 'these documents in place of those that the tests name; - for standard input'),
    coverage: toggle('list the authorizations and rules that no case exercises'),
    'require-coverage': once('PERCENT', 'fail where the cases exercise less of the authorizations and rules'),
    json: toggle(
      'one object: { "cases": [ … ], "coverage": …, "portsWithoutServer": [ … ], "files": …, "passed": …, "failed": …, "ok": … }',
    ),
    tap: toggle('TAP 14, a test point a question'),
    junit: once('FILE|-', "JUnit's XML, to a file beside the other output, or to standard output"),
  },
  notes: [
    'An authorization is exercised when it has admitted a case, a rule when a case belongs to it. What Sallyport has built in is not counted.',
  ],
  exits: 'test',
});
