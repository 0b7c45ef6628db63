import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import { fileFault } from '../config/file-fault.ts';
import { notRegular, tooLarge } from '../regular-file.ts';
import type { CredentialBytes, CredentialFault, CredentialFiles } from './credentials.ts';

export type CredentialFilesRead =
  | { readonly kind: 'read'; readonly bytes: CredentialBytes }
  | { readonly kind: 'faulty'; readonly faults: readonly CredentialFault[] };

/** Certificate, key and trust anchors as they stand; a fault for each that cannot be read. */
export async function readCredentialFiles(files: CredentialFiles): Promise<CredentialFilesRead> {
  const faults: CredentialFault[] = [];
  const read = async (file: string): Promise<string> => {
    try {
      return await readSmallFile(file);
    } catch (error) {
      const { why, remedy } = fileFault(file, error, unknownFile);
      faults.push({ file, code: 'identity-unreadable', message: `cannot be read: ${why}`, hint: remedy });
      return '';
    }
  };
  const [cert, key, trustAnchors] = await Promise.all([
    read(files.certFile),
    read(files.keyFile),
    read(files.trustAnchorsFile),
  ]);
  return faults.length > 0 ? { kind: 'faulty', faults } : { kind: 'read', bytes: { cert, key, trustAnchors } };
}

const unknownFile = 'Check the SALLYPORT_IDENTITY_* variables, and that the volume is mounted.';

/** Far more than the largest bundle of trust anchors. */
const mostBytes = 4 * 1024 * 1024;

/** A pipe in the place of a file would be waited for without end, and everything behind it. */
async function readSmallFile(path: string): Promise<string> {
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const stat = await file.stat();
    if (stat.isDirectory()) throw Object.assign(new Error(), { code: 'EISDIR' });
    if (!stat.isFile()) throw Object.assign(new Error(), { code: notRegular });
    if (stat.size > mostBytes) throw Object.assign(new Error(), { code: tooLarge });
    return await file.readFile('latin1');
  } finally {
    await file.close();
  }
}
