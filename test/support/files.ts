import { mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { TestCertificate } from './certificates.ts';
import type { Teardown } from './children.ts';

/** A folder of this test's own, removed with it. Unlike tap's `testdir`, two runs in one checkout do not share it. */
export function temporaryFolder(t: Teardown): string {
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-test-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** Replaces a file in one step: a watcher sees the old text or the new one, never a part. */
export function replaceFile(path: string, text: string): void {
  mkdirSync(dirname(path), { recursive: true });
  // Outside the folder itself, so that a watched folder never holds the draft.
  const draft = `${dirname(path)}.draft`;
  writeFileSync(draft, text);
  renameSync(draft, path);
}

/** Writes the three files of an identity and yields the variables that name them. */
export function identityEnvironment(folder: string, certificate: TestCertificate): Record<string, string> {
  const paths = {
    SALLYPORT_IDENTITY_KEY: join(folder, 'own.key'),
    SALLYPORT_IDENTITY_CERT: join(folder, 'own.crt'),
    SALLYPORT_IDENTITY_TRUST_ANCHORS: join(folder, 'anchors.crt'),
  };
  replaceFile(paths.SALLYPORT_IDENTITY_KEY, certificate.keyPem);
  replaceFile(paths.SALLYPORT_IDENTITY_CERT, certificate.certificatePem);
  replaceFile(paths.SALLYPORT_IDENTITY_TRUST_ANCHORS, certificate.trustAnchorsPem);
  return paths;
}
