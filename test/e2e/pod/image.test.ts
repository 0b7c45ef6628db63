import {
  chmodSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { type Child, type Finished, runToEnd, startChild } from '../../support/children.ts';
import { temporaryFolder } from '../../support/files.ts';
import { type BuiltImage, type ImageConfig, imageBuilder, imageUnavailable } from '../../support/image.ts';
import { openAdmin, openServer } from '../../support/open-policy.ts';
import { address, at, createPodNetwork, curl, type Place, podNetworkUnavailable } from '../../support/pod-network.ts';
import { startPodApp } from '../../support/pod-programs.ts';
import { checkout, parseLogLines } from '../../support/sallyport.ts';
import { until } from '../../support/until.ts';

// The image, built from the Containerfile and run as a container engine would: its own root, read-only, in namespaces of
// its own, as its user, without capabilities, beside an app.

const unavailable = (await podNetworkUnavailable(t, 'mount', 'chroot')) || (await imageUnavailable(t));

const containerfile = readFileSync(join(checkout, 'Containerfile'), 'utf8');
const manifest = JSON.parse(readFileSync(join(checkout, 'package.json'), 'utf8')) as {
  readonly version: string;
  readonly devDependencies: Readonly<Record<string, string>>;
};

function instruction(pattern: RegExp): string {
  const found = pattern.exec(containerfile)?.[1];
  if (found === undefined) throw new Error(`Containerfile has no ${pattern}`);
  return found;
}

/** Every path of the image, with the kind and mode of what is there. */
function everything(root: string): { readonly path: string; readonly mode: number; readonly kind: string }[] {
  const entries = readdirSync(root, { recursive: true, withFileTypes: true });
  return entries.map((entry) => {
    const file = join(entry.parentPath, entry.name);
    const kind = entry.isFile() ? 'file' : entry.isDirectory() ? 'folder' : entry.isSymbolicLink() ? 'link' : 'other';
    return { path: file.slice(root.length), mode: lstatSync(file).mode & 0o7777, kind };
  });
}

function describes(t: Test, { config }: BuiltImage): void {
  const label = (name: string): string | undefined => config.Labels[`org.opencontainers.image.${name}`];
  t.equal(label('title'), 'Sallyport');
  t.equal(label('version'), manifest.version);
  t.equal(label('revision'), '0123abc');
  t.equal(label('source'), 'https://git.example.com/sallyport');
  t.equal(label('licenses'), 'Apache-2.0');
  t.match(label('description'), /Linkerd's policy documents/);
  t.equal(config.User, '2102:2102');
  t.equal(config.StopSignal, 'SIGTERM');
  t.same(Object.keys(config.ExposedPorts).sort(), ['4143/tcp', '4191/tcp', '4192/tcp']);
  t.same(config.Cmd, ['run']);
  // What the launcher tells V8 and malloc, the image does, without the launcher.
  const launcher = readFileSync(join(checkout, 'bin/sallyport'), 'utf8');
  const [, flags = ''] = /^flags='(.*)'$/m.exec(launcher) ?? [];
  const [, newer = ''] = /^newer='(.*)'$/m.exec(launcher) ?? [];
  const main = '/sallyport/dist/bin/main.js';
  t.same(config.Entrypoint, ['/usr/local/bin/node', ...flags.split(' '), ...newer.split(' '), main]);
  const exported = [...launcher.matchAll(/^export (\w+)="\$\{\1:-(\w+)\}"$/gm)].map(
    ([, name, value]) => `${name}=${value}`,
  );
  t.same(exported.length, 1);
  for (const each of exported) t.ok(config.Env.includes(each), each);
}

async function contains(t: Test, { root }: BuiltImage): Promise<void> {
  const all = everything(root);
  const files = all.filter(({ kind }) => kind === 'file');
  const paths = (chosen: typeof all): string[] => chosen.map(({ path }) => path);
  t.same(paths(all.filter(({ kind }) => kind === 'other')), [], 'no devices, sockets or pipes');
  t.same(
    paths(all.filter(({ mode, path }) => (mode & 0o6000) !== 0 && path !== '/tmp')),
    [],
    'nothing raises privileges',
  );
  const writable = all.filter(({ mode, kind, path }) => kind !== 'link' && (mode & 0o022) !== 0 && path !== '/tmp');
  t.same(paths(writable), [], "nothing is anybody else's to write");
  t.same(
    paths(files.filter(({ path, mode }) => (mode & 0o111) !== 0 && /^(\/usr)?(\/local)?\/s?bin\//.test(path))).sort(),
    [
      '/usr/local/bin/node',
      '/usr/local/bin/sallyport',
      '/usr/sbin/xtables-legacy-multi',
      '/usr/sbin/xtables-nft-multi',
    ],
    'the only programs: no shell, no package manager',
  );
  const [interpreter] = readFileSync(join(root, 'usr/local/bin/sallyport'), 'utf8').split('\n');
  t.equal(interpreter, '#!/usr/local/bin/node', 'the command needs no shell');
  t.same(readdirSync(join(root, 'sallyport')).sort(), [
    ...['LICENSE', 'README.md', 'dist', 'node_modules', 'npm-shrinkwrap.json', 'package.json'],
  ]);
  const own = paths(files).filter((path) => path.startsWith('/sallyport/'));
  t.same(
    own.filter((path) => /\.([cm]?ts|map)$|^\/sallyport\/(test|benchmarks)\//.test(path)),
    [],
    'JavaScript alone, no tests',
  );
  const modules = readdirSync(join(root, 'sallyport/node_modules'));
  for (const name of Object.keys(manifest.devDependencies)) t.notOk(modules.includes(name), `no ${name}`);
  const size = await runToEnd(t, 'du', ['--summarize', '--block-size=1M', root]);
  const megabytes = Number(size.stdout.split('\t')[0]);
  t.comment(`${megabytes} MB`);
  const [, claimed] =
    /\| less than (\d+) MB, user 2102, no shell;/.exec(readFileSync(join(checkout, 'README.md'), 'utf8')) ?? [];
  t.ok(megabytes > 100 && megabytes < Number(claimed), `${megabytes} MB, as README says`);
}

interface Bill {
  readonly bomFormat: string;
  readonly specVersion: string;
  readonly version: number;
  readonly metadata: { readonly timestamp: string; readonly component: Component };
  readonly components: readonly Component[];
  readonly dependencies: readonly { readonly ref: string; readonly dependsOn: readonly string[] }[];
}

interface Component {
  readonly type: string;
  readonly 'bom-ref': string;
  readonly name: string;
  readonly version: string;
  readonly purl: string;
  readonly hashes?: readonly { readonly alg: string; readonly content: string }[];
}

/** The bill of materials against what is there, and against what CycloneDX 1.5 asks for. */
function billed(t: Test, { root }: BuiltImage): void {
  const bill = JSON.parse(readFileSync(join(root, 'usr/share/doc/sallyport/sbom.cdx.json'), 'utf8')) as Bill;
  t.match(bill, { bomFormat: 'CycloneDX', specVersion: '1.5', version: 1 });
  t.match(bill.metadata.timestamp, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  t.match(bill.metadata.component, { type: 'application', name: 'sallyport', version: manifest.version });

  const every = [bill.metadata.component, ...bill.components];
  const refs = every.map((component) => component['bom-ref']);
  t.equal(new Set(refs).size, refs.length, 'each is named once');
  for (const { type, name, version, purl, hashes } of every) {
    t.ok(['application', 'library', 'platform'].includes(type) && name !== '', purl);
    t.match(purl, /^pkg:(npm|deb\/debian|generic)\/[\w%./+-]+@[\w.%+~-]+(\?arch=\w+&distro=debian-\w+)?$/);
    t.ok(purl.includes(`@${encodeURIComponent(version)}`), `${purl} at ${version}`);
    for (const { alg, content } of hashes ?? []) t.ok(alg === 'SHA-512' && /^[0-9a-f]{128}$/.test(content), purl);
  }
  t.same(bill.dependencies.map(({ ref }) => ref).sort(), [...refs].sort(), 'each has its dependencies');
  const needed = new Set(bill.dependencies.flatMap(({ dependsOn }) => dependsOn));
  for (const ref of needed) t.ok(refs.includes(ref), `${ref} is there`);
  t.same(
    bill.components.map((component) => component['bom-ref']).filter((ref) => !needed.has(ref)),
    [],
    'none is needless',
  );

  const named = new Set(every.map(({ name, version }) => `${name}@${version}`));
  t.ok(named.has(`node@${process.versions.node}`), 'Node');
  const installed = everything(join(root, 'sallyport'))
    .filter(({ path }) => /\/node_modules\/(@[^/]+\/)?[^/]+\/package\.json$/.test(path))
    .map(({ path }) => JSON.parse(readFileSync(join(root, 'sallyport', path), 'utf8')) as Component)
    .map(({ name, version }) => `${name}@${version}`);
  t.ok(installed.length > 25, `${installed.length} packages of npm`);
  t.same(
    installed.filter((one) => !named.has(one)),
    [],
    'each installed package is billed',
  );
  const debian = bill.components.filter(({ purl }) => purl.startsWith('pkg:deb/')).map(({ name }) => name);
  t.same(debian, readdirSync(join(root, 'var/lib/dpkg/status.d')).sort(), "each of Debian's");
  for (const name of debian) {
    t.ok(lstatSync(join(root, 'usr/share/doc', name, 'copyright')).size > 0, `the copyright of ${name}`);
  }
  for (const library of ['libc6', 'libstdc++6', 'libatomic1', 'iptables']) t.ok(debian.includes(library), library);
}

/**
 * Runs a command in the image's root, read-only, with /proc of its own process namespace, as the given user. Arguments:
 * the image's root, a folder for mounts, the policy; then what to run.
 */
const inImage = (environment: readonly string[]): string => `
set -eu
image=$1 place=$2 policy=$3
shift 3
mount -t tmpfs -o mode=755 image "$place"
mkdir "$place/upper" "$place/work" "$place/root"
# As engines do it: an upper layer that takes the mount points.
mount -t overlay -o "lowerdir=$image,upperdir=$place/upper,workdir=$place/work" image "$place/root"
root=$place/root
mkdir "$root/policy"
mount --bind "$policy" "$root/policy"
mount -o remount,bind,ro "$root/policy"
# The engine's own, and away with its first exec: what sets the user has no place in the image.
setpriv=$(command -v setpriv)
loader=$(ldd "$setpriv" | grep -o '/[^ ]*/ld-linux[^ ]*')
mkdir "$root/.engine"
cp -L "$setpriv" $(ldd "$setpriv" | grep -o '/[^ ]*') "$root/.engine"
mount -t proc proc "$root/proc"
touch "$root/dev/null"
mount --bind /dev/null "$root/dev/null"
mount -o remount,ro "$root"
cd /
start="/.engine/$(basename "$loader") --library-path /.engine /.engine/setpriv"
exec env --ignore-environment ${environment.map((one) => `'${one}'`).join(' ')} "$(command -v chroot)" "$root" $start "$@"
`;

/** The image's user, without any capability or a way to get one. */
function asImageUser({ User }: ImageConfig): readonly string[] {
  const [user, group] = User.split(':');
  return [
    ...[`--reuid=${user}`, `--regid=${group}`, '--clear-groups', '--no-new-privs'],
    ...['--bounding-set=-all', '--inh-caps=-all', '--ambient-caps=-all'],
  ];
}
/** The init container of the manifests: root, with NET_ADMIN and nothing else. */
const asInit: readonly string[] = ['--no-new-privs', '--bounding-set=-all,+net_admin', '--inh-caps=-all'];

interface Container {
  readonly child: Child;
  /** Of its first process, as seen from here. */
  readonly pid: number;
}

interface Engine {
  start(user: readonly string[], ...args: readonly string[]): Promise<Container>;
  run(user: readonly string[], ...args: readonly string[]): Promise<Finished>;
}

function engine(t: Test, pod: Place, { root, config }: BuiltImage, policy: string): Engine {
  const [command = '', ...within] = pod.namespace.within;
  const own = ['SALLYPORT_POLICY=/policy', 'SALLYPORT_INBOUND_LISTEN=[::]:4143', 'SALLYPORT_POD_NAMESPACE=shop'];
  const apart = ['unshare', '--mount', '--propagation', 'private', '--pid', '--fork', '--kill-child'];
  const args = (user: readonly string[], words: readonly string[]): string[] => [
    ...[...within, ...apart, 'sh', '-c', inImage([...config.Env, ...own]), 'sh', root, temporaryFolder(t), policy],
    ...[...user, ...config.Entrypoint, ...words],
  ];
  return {
    start: async (user, ...words) => {
      const child = await startChild(t, command, args(user, words));
      const firstProcess = (): string | undefined =>
        readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8').split(' ').find(Boolean);
      // It outlives the one that started it: to become another user is to forget that one should end with one's parent.
      t.teardown(() => child.process.exitCode === null && process.kill(Number(firstProcess() ?? child.pid), 'SIGKILL'));
      const pid = await until('the first process', () => {
        const first = firstProcess();
        const line = first === undefined ? '' : readFileSync(`/proc/${first}/cmdline`, 'utf8');
        return line.startsWith(config.Entrypoint[0] as string) ? Number(first) : undefined;
      });
      return { child, pid };
    },
    run: (user, ...words) => runToEnd(t, command, args(user, words)),
  };
}

/** A ConfigMap's volume: what it holds is swapped whole, as the kubelet does it. */
function configMap(folder: string): { readonly folder: string; swap(text: string): void } {
  mkdirSync(folder);
  let version = 0;
  return {
    folder,
    swap: (text) => {
      const name = `..${++version}`;
      mkdirSync(join(folder, name));
      writeFileSync(join(folder, name, 'policy.yaml'), text);
      symlinkSync(name, join(folder, '..data_tmp'));
      renameSync(join(folder, '..data_tmp'), join(folder, '..data'));
      if (version === 1) symlinkSync('..data/policy.yaml', join(folder, 'policy.yaml'));
    },
  };
}

async function commands(t: Test, run: Engine['run'], user: readonly string[]): Promise<void> {
  t.match(await run(user, '--version'), { code: 0, stdout: `sallyport ${manifest.version}\n` });
  t.match(await run(user, 'check'), { code: 0, stderr: '' });
  const explain = ['explain', '--port', '8080', '--client', '10.1.2.3', '--policy', '/policy'];
  t.match(await run(user, ...explain), { code: 0, stdout: /permit/ });
  t.match(await run(user, 'iptables', '--apply'), { code: 1, stderr: /NET_ADMIN is missing/ });
  t.match(await run(user, 'health'), { code: 1, stderr: /nobody listens there/ });
  for (const command of ['run', 'demo', 'check', 'explain', 'certs', 'iptables', 'inject', 'health']) {
    const help = await run(user, command, '--help');
    t.match(help, { code: 0, stdout: /^Usage:\s+sallyport / }, `${command} --help`);
  }
}

async function runs(t: Test, image: BuiltImage): Promise<void> {
  const parent = temporaryFolder(t);
  chmodSync(parent, 0o755);
  const policy = configMap(join(parent, 'policy'));
  policy.swap(openServer('web', 8080) + openAdmin);
  const net = await createPodNetwork(t);
  const app = await startPodApp(t, net);
  const { start, run } = engine(t, net.pod, image, policy.folder);
  const user = asImageUser(image.config);

  await t.test('every command', (t) => commands(t, run, user));

  await t.test('the init step', async (t) => {
    t.match(await run(asInit, 'iptables', '--apply', '--ipv6', '--own-address'), { code: 0, stdout: /in force/ });
  });

  const { child, pid } = await start(user, ...image.config.Cmd);
  /** As `exec` of an engine does it: in the container's own namespaces, by the name on its PATH. */
  const exec = (...command: readonly string[]): Promise<Finished> => {
    const inside = [
      '--target',
      `${pid}`,
      '--mount',
      '--pid',
      '--net',
      '--root',
      '--setuid',
      '2102',
      '--setgid',
      '2102',
    ];
    return runToEnd(t, 'nsenter', [...inside, ...command]);
  };
  const [program = '', ...words] = JSON.parse(instruction(/^HEALTHCHECK .* CMD (\[.*\])$/m)) as string[];
  await until(
    'the health check of the image',
    async () => (await exec(`/usr/local/bin/${program}`, ...words)).code === 0,
    {
      lastSeen: () => child.stdout() + child.stderr(),
    },
  );

  await t.test('without privileges, on a root that it cannot write', async (t) => {
    const status = readFileSync(`/proc/${pid}/status`, 'utf8');
    t.match(status, /^Name:\s+(node|MainThread)/m);
    t.match(status, /^NSpid:\s+\d+\s+1$/m, 'the first of its container, whom no signal ends by default');
    t.match(status, /^Uid:\s+2102\s+2102\s+2102\s+2102$/m);
    t.match(status, /^Gid:\s+2102\s+2102\s+2102\s+2102$/m);
    for (const set of ['Inh', 'Prm', 'Eff', 'Bnd', 'Amb']) t.match(status, new RegExp(`^Cap${set}:\\s+0+$`, 'm'));
    t.match(status, /^NoNewPrivs:\s+1$/m);
    for (const place of ['/new', '/sallyport/new', '/usr/new', '/tmp/new', '/policy/new']) {
      t.throws(() => writeFileSync(`/proc/${pid}/root${place}`, ''), { code: 'EROFS' }, `${place}, even by root`);
    }
  });

  await t.test('guards the app, counts it, and follows its ConfigMap', async (t) => {
    // The log is written through a buffer, so that its line may come a little after the port opens.
    const loaded = await until('the log line', () =>
      parseLogLines(child.stdout()).find(({ msg }) => msg === 'Policy loaded'),
    );
    t.match(loaded, { documents: 4, generation: 1 });
    for (const host of [address.pod, address.pod6]) {
      t.match(await curl(net.client, at(host, 8080)), { status: 200 }, host);
      t.match(await curl(net.client, at(host, 8081)), { status: 403 }, host);
    }
    for (const path of ['/live', '/ready']) {
      t.match(await curl(net.node, at(address.pod, 4192, path)), { status: 200 }, path);
    }
    const { body } = await curl(net.client, at(address.pod, 4191, '/metrics'));
    t.match(body, /^inbound_http_authz_allow_total\{target_addr="10.42.0.7:8080",.*\} 1$/m);
    t.match(body, /^inbound_http_authz_deny_total\{target_addr="10.42.0.7:8081",.*\} 1$/m);
    t.match(body, /^sallyport_policy_generation 1$/m);
    policy.swap(openServer('web', 8081) + openAdmin);
    await until('the new policy', async () => (await curl(net.client, at(address.pod, 8081))).status === 200);
    t.match(await curl(net.client, at(address.pod, 8080)), { status: 403 });
    t.same(app.unguarded(), []);
  });

  await t.test('stops on the stop signal', async (t) => {
    process.kill(pid, image.config.StopSignal);
    t.match(await child.exited, { code: 0, signal: null });
    t.equal(parseLogLines(child.stdout()).at(-1)?.msg, 'Stopped');
    t.equal(child.stderr(), '');
  });
}

if (unavailable) {
  t.plan(0, unavailable);
} else {
  t.setTimeout(2_700_000);
  await t.test('the image', { timeout: 2_670_000 }, async (t) => {
    const builder = await imageBuilder(t);
    const named = ['REVISION=0123abc', 'SOURCE=https://git.example.com/sallyport'];
    const flags = ['--timestamp', '0', ...named.flatMap((one) => ['--build-arg', one])];
    const image = await builder.build('sallyport', ...flags);
    await t.test('what it says of itself', async (t) => describes(t, image));
    await t.test('what is in it', (t) => contains(t, image));
    await t.test('its bill of materials', async (t) => billed(t, image));
    await t.test('what it does', (t) => runs(t, image));
    await t.test('built again it is the same, byte for byte', async (t) => {
      const again = await builder.build('sallyport-again', ...flags);
      t.same(again.layers, image.layers, 'the layers');
      t.equal(again.id, image.id, 'the whole image');
    });
  });
}
