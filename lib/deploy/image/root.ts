/**
 * Makes the root file system of the image: `node root.ts PACKAGE ROOT`. It has the package, Node, the programs of
 * iptables, and the shared libraries that these load; no shell, no package manager, nothing that anybody else could run.
 */
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  copyFileSync,
  cpSync,
  lstatSync,
  lutimesSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { billOfMaterials, type DebianPackage } from './sbom.ts';

const [packageFolder = '', root = ''] = process.argv.slice(2);
const sourceDateEpoch = Number(process.env.SOURCE_DATE_EPOCH ?? '0');

/** What `sallyport iptables` asks for by name: both backends, both families, to save and to restore. */
const redirectPrograms = ['nft', 'legacy'].flatMap((backend) =>
  ['iptables', 'ip6tables'].flatMap((family) => ['save', 'restore'].map((verb) => `${family}-${backend}-${verb}`)),
);

const run = (program: string, ...args: readonly string[]): string =>
  execFileSync(program, args, { encoding: 'utf8', env: { ...process.env, LC_ALL: 'C' } });

/** Everything below a folder that is no folder, by its path: some extensions of iptables are links to others. */
const filesBelow = (folder: string): string[] =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => !entry.isDirectory())
    .map((entry) => join(entry.parentPath, entry.name));

/** Copied from Debian's packages, for the copyright files and the bill of materials. */
const fromDebian = new Set<string>();

function put(file: string, at = file): void {
  const target = join(root, at);
  mkdirSync(dirname(target), { recursive: true });
  copyFileSync(realpathSync(file), target);
  // Nothing here is anybody's to change, and no program raises privileges.
  chmodSync(target, (lstatSync(realpathSync(file)).mode & 0o111) === 0 ? 0o644 : 0o755);
}

function putLibraries(...programs: readonly string[]): void {
  for (const program of programs) {
    // `libm.so.6 => /lib/…/libm.so.6 (0x…)`, and the loader itself without an arrow.
    for (const [, path = ''] of run('ldd', program).matchAll(/(?:^|\s)(\/\S+) \(0x/gm)) {
      put(path);
      fromDebian.add(realpathSync(path));
    }
  }
}

function write(at: string, text: string, mode = 0o644): void {
  mkdirSync(dirname(join(root, at)), { recursive: true });
  writeFileSync(join(root, at), text);
  chmodSync(join(root, at), mode);
}

function putNode(): void {
  put(process.execPath, '/usr/local/bin/node');
  // A fifth of it is names of functions that only a native debugger reads.
  run('strip', '--strip-unneeded', join(root, '/usr/local/bin/node'));
  putLibraries(process.execPath);
  // For `exec` into a container and other people's health checks; the entry point has V8's flags besides.
  const main = JSON.stringify('/sallyport/dist/bin/main.js');
  write('/usr/local/bin/sallyport', `#!/usr/local/bin/node\nimport(${main});\n`, 0o755);
}

function putPackage(): void {
  // Types and source maps are for who develops: a thousand files that no program reads.
  const filter = (source: string): boolean => !/\.([cm]?ts|map)$/.test(source);
  cpSync(packageFolder, join(root, '/sallyport'), { recursive: true, verbatimSymlinks: true, filter });
  // The launcher is a shell script, and there is no shell; nor is there systemd.
  for (const folder of ['bin', 'lib']) run('rm', '-r', join(root, '/sallyport', folder));
  putLibraries(...filesBelow(join(packageFolder, 'node_modules')).filter((file) => file.endsWith('.node')));
}

function putIptables(): void {
  for (const name of redirectPrograms) {
    const link = run('sh', '-c', `command -v ${name}`).trim();
    const program = join('/usr/sbin', readlinkSync(link));
    if (!fromDebian.has(program)) {
      put(program);
      fromDebian.add(program);
      putLibraries(program);
    }
    symlinkSync(readlinkSync(link), join(root, '/usr/sbin', name));
  }
  const [extension] = run('dpkg', '-L', 'iptables', 'libxtables12').match(/^\/.*\/xtables(?=\/lib)/m) ?? [];
  if (extension === undefined) throw new Error('the extensions of iptables are not where they were');
  for (const file of filesBelow(extension)) {
    put(file);
    fromDebian.add(realpathSync(file));
    putLibraries(file);
  }
}

/** The packages that the copied files belong to, with their copyright and what scanners of images look for. */
function putRecords(): DebianPackage[] {
  // A path may be known to dpkg as /lib/x although /lib is a link to /usr/lib.
  const names = [...fromDebian].map((file) => {
    const spellings = [file, file.replace(/^\/usr\//, '/')];
    const owned = run('sh', '-c', 'dpkg -S "$@" 2>/dev/null || true', 'sh', ...spellings);
    const [, name] = /^([^:,\s]+)/.exec(owned) ?? [];
    if (name === undefined) throw new Error(`no package has ${file}`);
    return name;
  });
  return [...new Set(names)].sort().map((name) => {
    put(`/usr/share/doc/${name}/copyright`);
    write(`/var/lib/dpkg/status.d/${name}`, run('dpkg-query', '--status', name));
    const format = `\${Version} \${Architecture}`;
    const [version = '', architecture = ''] = run('dpkg-query', '--show', `--showformat=${format}`, name).split(' ');
    return { name, version, architecture };
  });
}

/** Files and folders alike get the one time of all, so that the same content is the same layer. */
function settleTimes(path: string): void {
  if (lstatSync(path).isDirectory()) for (const name of readdirSync(path)) settleTimes(join(path, name));
  lutimesSync(path, sourceDateEpoch, sourceDateEpoch);
}

mkdirSync(root, { recursive: true });
putNode();
putPackage();
putIptables();
write('/etc/passwd', 'root:x:0:0:root:/:/sbin/nologin\nsallyport:x:2102:2102:Sallyport:/:/sbin/nologin\n');
write('/etc/group', 'root:x:0:\nsallyport:x:2102:\n');
write('/etc/nsswitch.conf', 'passwd: files\ngroup: files\nhosts: files dns\n');
put('/etc/os-release');
for (const folder of ['/tmp', '/run', '/proc', '/sys', '/dev']) mkdirSync(join(root, folder), { recursive: true });
chmodSync(join(root, '/tmp'), 0o1777);
const debian = putRecords();
const distribution = /^VERSION_CODENAME=(\w+)$/m.exec(readFileSync('/etc/os-release', 'utf8'))?.[1] ?? 'unknown';
const bill = billOfMaterials({
  installed: packageFolder,
  nodeVersion: process.version,
  debian,
  distribution: `debian-${distribution}`,
  sourceDateEpoch,
});
write('/usr/share/doc/sallyport/sbom.cdx.json', `${JSON.stringify(bill, null, 1)}\n`);
settleTimes(root);
