import { basename, dirname, resolve } from 'node:path';

/**
 * Whether a file of this name in a folder of policy is read. Names that begin with a dot are not: the `..data` and `..2026_…`
 * of a ConfigMap volume hold the same files again.
 */
export function isPolicyFileName(name: string): boolean {
  return !name.startsWith('.') && /\.(ya?ml|json)$/.test(name);
}

/** Whether what stands at a path is read as policy: it is the path of that, or a file in its folder. */
export function isReadAsPolicy(path: string, policyPath: string): boolean {
  const [file, policy] = [resolve(path), resolve(policyPath)];
  return file === policy || (dirname(file) === policy && isPolicyFileName(basename(file)));
}
