import { type BigIntStats, lstatSync, readdirSync, readlinkSync, statSync } from 'node:fs';
import { lstat, readdir, readlink, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { isPolicyFileName } from '../config/policy-paths.ts';

/*
 * What can be seen of files without reading them: enough to see that they changed, and how. Times are only ever compared
 * for equality, never with a clock: a time in the future, or a clock that was set back, means nothing here.
 */

export interface FileLook {
  /** Differs after every write, replacement or change of times. */
  readonly stamp: string;
  /** Which file it is: another one after a rename over it. */
  readonly inode: string;
  readonly empty: boolean;
  /** A symbolic link, whose own folder has no event for writes to what it leads to. */
  readonly link: boolean;
  /** Of the place where it was looked for; as `Look.generation`. */
  readonly generation: string;
}

type OwnLook = Omit<FileLook, 'generation'>;

/** The policy files that a path stands for at one moment. */
export interface Look {
  readonly files: ReadonlyMap<string, FileLook>;
  /**
   * Where a ConfigMap volume's `..data` leads: such a folder is swapped whole. Empty for any other place. Of several paths
   * that of each, so that only a file's own tells anything of it.
   */
  readonly generation: string;
  /** Equal where nothing changed. */
  readonly stamp: string;
  /** When it was begun, by this thread's `performance.now()`. */
  readonly takenMs: number;
}

/** The names of a folder that are policy files, in the order in which they count. */
export function policyFileNames(names: readonly string[]): string[] {
  return names.filter(isPolicyFileName).sort();
}

/** As `look`, for the thread that loads. */
export function lookNow(path: string): Look {
  const takenMs = performance.now();
  const target = settle(() => statSync(path, { bigint: true }));
  const files = target?.isDirectory()
    ? policyFileNames(settle(() => readdirSync(path)) ?? []).map((name) => join(path, name))
    : [path];
  const found = files.map((file): [string, OwnLook | null] => [
    file,
    fileLook(
      settle(() => lstatSync(file, { bigint: true })),
      settle(() => statSync(file, { bigint: true })),
    ),
  ]);
  const links = [path, dirname(path)].map((folder) => settle(() => readlinkSync(join(folder, '..data'))));
  return { ...lookOf(path, target, found, links), takenMs };
}

/** Never rejects: what cannot be looked at is not there. */
async function look(path: string): Promise<Look> {
  const takenMs = performance.now();
  const none = (): undefined => undefined;
  const target = await stat(path, { bigint: true }).catch(none);
  const files = target?.isDirectory()
    ? policyFileNames(await readdir(path).catch(() => [])).map((name) => join(path, name))
    : [path];
  const found = await Promise.all(
    files.map(async (file): Promise<[string, OwnLook | null]> => {
      const [own, leadsTo] = await Promise.all([
        lstat(file, { bigint: true }).catch(none),
        stat(file, { bigint: true }).catch(none),
      ]);
      return [file, fileLook(own, leadsTo)];
    }),
  );
  const links = await Promise.all([path, dirname(path)].map((folder) => readlink(join(folder, '..data')).catch(none)));
  return { ...lookOf(path, target, found, links), takenMs };
}

/** Several paths as one. */
export async function lookAtAll(paths: readonly string[]): Promise<Look> {
  const looks = await Promise.all(paths.map(look));
  return {
    files: new Map(looks.flatMap(({ files }) => [...files])),
    generation: looks.map(({ generation }) => generation).join(''),
    stamp: looks.map(({ stamp }) => stamp).join('\n'),
    takenMs: Math.min(...looks.map(({ takenMs }) => takenMs)),
  };
}

function lookOf(
  path: string,
  target: BigIntStats | undefined,
  found: readonly [string, OwnLook | null][],
  links: readonly (string | undefined)[],
): Omit<Look, 'takenMs'> {
  const generation = links.find((link) => link !== undefined) ?? '';
  const files = new Map(
    found.flatMap(([file, own]): [string, FileLook][] => (own === null ? [] : [[file, { ...own, generation }]])),
  );
  const stamps = [...files].map(([file, { stamp }]) => `${file} ${stamp}`);
  // The folder itself counts by what it is, not by its times: files that are no policy come and go in it.
  const stamp = [path, target === undefined ? 'absent' : `${target.dev}:${target.ino}`, generation, ...stamps].join(
    '\n',
  );
  return { files, generation, stamp };
}

function fileLook(own: BigIntStats | undefined, leadsTo: BigIntStats | undefined): OwnLook | null {
  if (own === undefined || leadsTo?.isDirectory()) return null;
  const { dev, ino, size, mtimeNs, ctimeNs } = leadsTo ?? own;
  const inode = `${dev}:${ino}`;
  return {
    stamp: `${own.ino} ${inode} ${size} ${mtimeNs} ${ctimeNs} ${leadsTo === undefined ? 'dangling' : ''}`,
    inode: `${own.dev}:${own.ino} ${inode}`,
    empty: size === 0n,
    link: own.isSymbolicLink(),
  };
}

function settle<T>(ask: () => T): T | undefined {
  try {
    return ask();
  } catch {
    return undefined;
  }
}
