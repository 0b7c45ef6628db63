import { existsSync, mkdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Finished, missing, runToEnd, type Teardown } from './children.ts';
import { temporaryFolder } from './files.ts';
import { checkout } from './sallyport.ts';

// No registry of images is needed to build the image. What its Containerfile calls `node:26-slim` is made here as that
// one is: the smallest Debian, libatomic1, and the programs of Node and npm, from this machine's own package sources.

export interface BuiltImage {
  /** The layers' root file system, as a folder. */
  readonly root: string;
  readonly config: ImageConfig;
  /** Of the uncompressed layers: the same files with the same times and modes have the same. */
  readonly layers: readonly string[];
  /** Of the configuration: the same image has the same. */
  readonly id: string;
}

export interface ImageConfig {
  readonly User: string;
  readonly Env: readonly string[];
  readonly Entrypoint: readonly string[];
  readonly Cmd: readonly string[];
  readonly Labels: Readonly<Record<string, string>>;
  readonly ExposedPorts: Readonly<Record<string, unknown>>;
  readonly StopSignal: string;
}

/** Why no image can be built here; false where one can. */
export async function imageUnavailable(t: Teardown): Promise<string | false> {
  if (process.getuid?.() !== 0) return 'to build an image without a container engine takes root';
  return missing(t, 'buildah', 'debootstrap', 'unshare', 'npm', 'tar', 'apt-get');
}

export interface Builder {
  build(name: string, ...flags: readonly string[]): Promise<BuiltImage>;
}

/** A store of images with the base in it, gone with the test. */
export async function imageBuilder(t: Teardown): Promise<Builder> {
  const folder = temporaryFolder(t);
  const store = ['--storage-driver', 'vfs', '--root', join(folder, 'store'), '--runroot', join(folder, 'run')];
  const buildah = async (...args: readonly string[]): Promise<string> => {
    const options = { env: { ...withoutNpm(process.env), BUILDAH_ISOLATION: 'chroot' }, timeoutMs: 400_000 };
    return succeeded('buildah', args, await runToEnd(t, 'buildah', [...store, ...args], options)).trim();
  };
  const registry = (await run(t, 'npm', 'config', 'get', 'registry')).trim();
  const cache = (await run(t, 'npm', 'config', 'get', 'cache')).trim();
  mkdirSync(cache, { recursive: true });

  const from = await buildah('from', 'scratch');
  await buildah('add', from, await baseArchive(t), '/');
  const environment = ['NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt', `npm_config_registry=${registry}`];
  await buildah('config', '--cmd', 'node', ...environment.flatMap((one) => ['--env', one]), from);
  await buildah('commit', '--quiet', '--rm', from, baseName());

  return {
    build: async (name, ...flags) => {
      const quick = ['--volume', `${cache}:/root/.npm`];
      await buildah('build', '--pull=never', ...quick, ...flags, '--tag', name, checkout);
      const inspected = JSON.parse(await buildah('inspect', '--type', 'image', name));
      const container = await buildah('from', '--pull=never', name);
      return {
        root: await buildah('mount', container),
        config: inspected.OCIv1.config,
        layers: inspected.OCIv1.rootfs.diff_ids,
        id: inspected.FromImageID,
      };
    },
  };
}

/** What the Containerfile builds from. */
function baseName(): string {
  const [, name] = /^ARG NODE_IMAGE=(\S+)$/m.exec(readFileSync(join(checkout, 'Containerfile'), 'utf8')) ?? [];
  if (name === undefined) throw new Error('the Containerfile names no NODE_IMAGE');
  return name;
}

/** An archive of the base's root, kept between runs: it takes a minute, and depends on nothing in the checkout but Node. */
async function baseArchive(t: Teardown): Promise<string> {
  const [, suite = ''] = /^VERSION_CODENAME=(\w+)$/m.exec(readFileSync('/etc/os-release', 'utf8')) ?? [];
  const kept = join(tmpdir(), 'sallyport-image-base', `${suite}-${process.version}.tar`);
  if (existsSync(kept)) return kept;
  const root = temporaryFolder(t);
  const include = '--include=libatomic1,ca-certificates';
  // In namespaces of its own, so that what it mounts and starts is gone with it.
  const apart = ['--mount', '--propagation', 'private', '--pid', '--fork', '--kill-child'];
  const made = ['--variant=minbase', include, suite, root, await packageSource(t, suite)];
  const options = { timeoutMs: 400_000, env: withoutNpm(process.env) };
  succeeded('debootstrap', made, await runToEnd(t, 'unshare', [...apart, 'debootstrap', ...made], options));
  await run(
    t,
    'sh',
    '-euc',
    `
root=$1 node=$2
npm=$(realpath "$(command -v npm)")
cp "$node" "$root/usr/local/bin/node"
mkdir -p "$root/usr/local/lib/node_modules"
cp -aL "\${npm%/bin/*}" "$root/usr/local/lib/node_modules/npm"
ln -s ../lib/node_modules/npm/bin/npm-cli.js "$root/usr/local/bin/npm"
# The authorities that this machine trusts, where they are more than Debian's.
[ ! -f /etc/ssl/certs/ca-certificates.crt ] || cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
tar --create --file "$root.tar" --directory "$root" .
`,
    ...['sh', root, process.execPath],
  );
  mkdirSync(join(kept, '..'), { recursive: true });
  renameSync(`${root}.tar`, kept);
  rmSync(root, { recursive: true, force: true });
  return kept;
}

/** Where this machine itself has its Debian packages from. */
async function packageSource(t: Teardown, suite: string): Promise<string> {
  const format = ['--format', '$(REPO_URI) $(RELEASE) $(COMPONENT)', 'Created-By: Packages'];
  const lines = (await run(t, 'apt-get', 'indextargets', ...format)).split('\n').map((line) => line.split(' '));
  const [uri] = lines.find(([, release, component]) => release === suite && component === 'main') ?? [];
  if (uri === undefined) throw new Error(`apt has no source for ${suite}`);
  return uri;
}

async function run(t: Teardown, command: string, ...args: readonly string[]): Promise<string> {
  const options = { timeoutMs: 120_000, env: withoutNpm(process.env) };
  return succeeded(command, args, await runToEnd(t, command, args, options));
}

function succeeded(command: string, args: readonly string[], { code, stdout, stderr }: Finished): string {
  if (code !== 0) throw new Error(`${command} ${args.join(' ')}: ${`${stdout}\n${stderr}`.slice(-4_000)}`);
  return stdout;
}

/** Inside `npm test`, npm's own variables name the checkout as the place to work on; it must not be touched. */
export function withoutNpm(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const kept = /^npm_config_(registry|cache|userconfig)$/i;
  return Object.fromEntries(Object.entries(env).filter(([name]) => !/^npm_/i.test(name) || kept.test(name)));
}
