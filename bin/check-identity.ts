import type { Config } from '../lib/config/config.ts';
import { readCredentialFiles } from '../lib/reload/credential-files.ts';
import { verifyCredentials } from '../lib/reload/credentials.ts';
import { endOf } from '../lib/reload/expiry.ts';
import type { PrintedProblem } from './problem-text.ts';

/** What is wrong with certificate, key and trust anchors, as a start would find, and which of them come to their end. */
export async function identityProblems(identity: Config['identity'], now: Date): Promise<readonly PrintedProblem[]> {
  if (identity === null) return [];
  const place = { line: 1, column: 1, resource: null };
  const read = await readCredentialFiles(identity);
  const found =
    read.kind === 'read'
      ? verifyCredentials(identity, read.bytes, { names: identity.names ?? undefined, now, generation: 1 })
      : { ...read, validFrom: null };
  if (found.kind === 'faulty') {
    return found.faults.map(({ file, code, message, hint }) => ({
      severity: 'error',
      code,
      message,
      file,
      hint,
      ...place,
    }));
  }
  return found.credentials.validities.flatMap((validity): PrintedProblem[] => {
    const end = endOf(validity, now);
    return end === null ? [] : [{ severity: 'warning', ...end, file: validity.file, hint: '', ...place }];
  });
}
