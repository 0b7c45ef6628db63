import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { type Child, type Finished, missing, runToEnd, startChild } from '../../support/children.ts';
import { replaceFile, temporaryFolder } from '../../support/files.ts';
import { openServer } from '../../support/open-policy.ts';
import { address, at, createPodNetwork, curl, type Place, podNetworkUnavailable } from '../../support/pod-network.ts';
import { startPodApp } from '../../support/pod-programs.ts';
import { checkout, parseLogLines } from '../../support/sallyport.ts';
import { until } from '../../support/until.ts';

// No registry of images is needed to prove what the Containerfile makes: the same build context, the same commands, and
// a root of its own, read-only, in which there is nothing of the checkout.

const unavailable =
  (await podNetworkUnavailable(t, 'unshare', 'chroot', 'mount', 'npm', 'tar')) || (await missing(t, 'sh'));

const containerfile = readFileSync(join(checkout, 'Containerfile'), 'utf8');
const manifest = JSON.parse(readFileSync(join(checkout, 'package.json'), 'utf8')) as {
  readonly version: string;
  readonly dependencies: Readonly<Record<string, string>>;
  readonly devDependencies: Readonly<Record<string, string>>;
};

function instruction(pattern: RegExp): string {
  const found = pattern.exec(containerfile)?.[1];
  if (found === undefined) throw new Error(`Containerfile has no ${pattern}`);
  return found;
}

/** Packs from the build context alone, and installs the package as the second stage does. Yields its folder. */
async function install(t: Test): Promise<string> {
  // Outside the checkout: npm looks for a package in every folder above, and would find this one.
  const folder = temporaryFolder(t);
  const run = async (cwd: string, command: string, ...args: readonly string[]): Promise<void> => {
    // tap puts a hook of its own into NODE_OPTIONS of whatever is started, and the compiler does not bear it.
    const plain = ['--unset=NODE_OPTIONS', command, ...args];
    const done = await runToEnd(t, 'env', plain, { cwd, timeoutMs: 120_000, env: withoutNpm(process.env) });
    if (done.code !== 0) throw new Error(`${command} ${args.join(' ')}: ${done.stdout}${done.stderr}`);
  };

  const context = join(folder, 'context');
  mkdirSync(context);
  const rules = readFileSync(join(checkout, '.dockerignore'), 'utf8').split('\n');
  for (const name of rules.filter((line) => line.startsWith('!')).map((line) => line.slice(1))) {
    cpSync(join(checkout, name), join(context, name), { recursive: true });
  }
  // In place of the first stage's npm ci.
  symlinkSync(join(checkout, 'node_modules'), join(context, 'node_modules'));
  await run(context, 'npm', 'pack', '--silent', '--pack-destination', folder);

  const root = join(folder, 'sallyport');
  mkdirSync(root);
  const tarball = join(folder, `sallyport-${manifest.version}.tgz`);
  await run(root, 'tar', '--extract', '--gzip', '--file', tarball, '--strip-components', '1', '--no-same-owner');
  cpSync(join(checkout, 'package-lock.json'), join(root, 'package-lock.json'));
  await run(root, 'sh', '-c', `${instruction(/^RUN (npm ci --omit=dev .*)$/m)} --prefer-offline`);
  return root;
}

/** Inside `npm test`, npm's own variables name the checkout as the place to work on; it must not be touched. */
function withoutNpm(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const kept = /^npm_config_(registry|cache|userconfig)$/i;
  return Object.fromEntries(Object.entries(env).filter(([name]) => !/^npm_/i.test(name) || kept.test(name)));
}

async function contents(t: Test, root: string): Promise<void> {
  const files = readdirSync(root, { recursive: true, encoding: 'utf8' });
  const own = files.filter((file) => !file.startsWith('node_modules/'));
  t.same(
    own.filter((file) => file.endsWith('.ts')),
    [],
    'JavaScript alone',
  );
  t.same(
    own.filter((file) => /(^|\/)(test|benchmarks)(\/|$)/.test(file)),
    [],
    'no tests',
  );
  const top = readdirSync(root).sort();
  t.same(top, ['LICENSE', 'README.md', 'bin', 'dist', 'node_modules', 'package-lock.json', 'package.json']);
  t.same(readdirSync(join(root, 'bin')), ['sallyport']);
  for (const name of Object.keys(manifest.dependencies)) t.ok(existsSync(join(root, 'node_modules', name)), name);
  for (const name of Object.keys(manifest.devDependencies)) {
    // `@types/node` and the like may be what a dependency brings along; the tools may not.
    if (!name.startsWith('@types/')) t.notOk(existsSync(join(root, 'node_modules', name)), `no ${name}`);
  }
  const size = await runToEnd(t, 'du', ['--summarize', '--block-size=1M', root]);
  const megabytes = Number(size.stdout.split('\t')[0]);
  t.ok(megabytes > 0 && megabytes < 60, `${megabytes} MB`);
  t.equal(instruction(/^ARG VERSION=(.*)$/m), manifest.version);
}

/**
 * Runs a command in a root that holds the system's libraries and the package, all of it read-only, as the given user.
 * Arguments: the root's mount point, the package, its node, the policy; then what to run.
 */
const inImage = `
set -eu
unset NODE_OPTIONS
root=$1 package=$2 node=$3 policy=$4
shift 4
mount -t tmpfs -o mode=755 image "$root"
bind() { mount --bind "$1" "$root$2" && mount -o remount,bind,ro "$root$2"; }
for folder in /usr /bin /sbin /lib /lib64; do
  if [ -L "$folder" ]; then cp -P "$folder" "$root$folder"
  elif [ -d "$folder" ]; then mkdir "$root$folder"; bind "$folder" "$folder"
  fi
done
mkdir "$root/sallyport" "$root/policy" "$root/proc" "$root/dev"
touch "$root/node" "$root/dev/null"
bind "$package" /sallyport
bind "$policy" /policy
bind "$node" /node
mount --bind /dev/null "$root/dev/null"
mount --bind /proc "$root/proc"
mount -o remount,ro "$root"
cd /
exec chroot "$root" "$@"
`;

/** The image's user, without any capability or a way to get one. */
const asImageUser: readonly string[] = [
  ...['setpriv', `--reuid=${instruction(/^USER (\d+):\d+$/m)}`, `--regid=${instruction(/^USER \d+:(\d+)$/m)}`],
  ...['--clear-groups', '--no-new-privs', '--bounding-set=-all', '--inh-caps=-all', '--ambient-caps=-all'],
];
/** The init container of the manifests: root, with NET_ADMIN and nothing else. */
const asInit: readonly string[] = ['setpriv', '--no-new-privs', '--bounding-set=-all,+net_admin', '--inh-caps=-all'];

interface Image {
  start(user: readonly string[], ...args: readonly string[]): Promise<Child>;
  run(user: readonly string[], ...args: readonly string[]): Promise<Finished>;
}

function image(t: Test, pod: Place, root: string, policy: string): Image {
  const mountPoint = join(root, '..', 'root');
  mkdirSync(mountPoint);
  const [command = '', ...within] = pod.namespace.within;
  const prefix = [...within, 'unshare', '--mount', '--propagation', 'private', 'sh', '-c', inImage];
  const env = {
    PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
    NODE_ENV: 'production',
    SALLYPORT_NODE: '/node',
    SALLYPORT_POLICY: '/policy',
    SALLYPORT_INBOUND_LISTEN: '[::]:4143',
    SALLYPORT_POD_NAMESPACE: 'shop',
  };
  const args = (user: readonly string[], own: readonly string[]): string[] => [
    ...[...prefix, 'sh', mountPoint, root, process.execPath, policy],
    ...[...user, '/sallyport/bin/sallyport', ...own],
  ];
  return {
    start: (user, ...own) => startChild(t, command, args(user, own), { env }),
    run: (user, ...own) => runToEnd(t, command, args(user, own), { env }),
  };
}

async function runs(t: Test, root: string): Promise<void> {
  const policy = join(root, '..', 'policy');
  const policyFile = join(policy, 'policy.yaml');
  replaceFile(policyFile, openServer('web', 8080));
  const net = await createPodNetwork(t);
  const app = await startPodApp(t, net);
  const { start, run } = image(t, net.pod, root, policy);

  await t.test('every command', async (t) => {
    t.match(await run(asImageUser, '--version'), { code: 0, stdout: `sallyport ${manifest.version}\n` });
    t.match(await run(asImageUser, 'check'), { code: 0, stderr: '' });
    const explain = ['explain', '--port', '8080', '--client', '10.1.2.3', '--policy', '/policy'];
    t.match(await run(asImageUser, ...explain), { code: 0, stdout: /permit/ });
    t.match(await run(asImageUser, 'iptables', '--apply'), { code: 1, stderr: /NET_ADMIN is missing/ });
    t.match(await run(asImageUser, 'health'), { code: 1, stderr: /ECONNREFUSED/ });
    for (const command of ['run', 'demo', 'check', 'explain', 'certs', 'iptables', 'inject', 'health']) {
      t.match(
        await run(asImageUser, command, '--help'),
        { code: 0, stdout: /^Usage:\s+sallyport / },
        `${command} --help`,
      );
    }
  });

  await t.test('the init step', async (t) => {
    t.match(await run(asInit, 'iptables', '--apply', '--ipv6', '--own-address'), { code: 0, stdout: /in force/ });
  });

  const child = await start(asImageUser, 'run');
  const [, ...check] = JSON.parse(instruction(/^HEALTHCHECK .* CMD (\[.*\])$/m)) as string[];
  await until('the health check of the image', async () => (await run(asImageUser, ...check)).code === 0, {
    lastSeen: () => child.stdout() + child.stderr(),
  });

  await t.test('without privileges, on a root that it cannot write', async (t) => {
    const status = readFileSync(`/proc/${child.pid}/status`, 'utf8');
    t.match(status, /^Name:\s+(node|MainThread)/m);
    t.match(status, /^Uid:\s+2102\s+2102\s+2102\s+2102$/m);
    t.match(status, /^Gid:\s+2102\s+2102\s+2102\s+2102$/m);
    for (const set of ['Inh', 'Prm', 'Eff', 'Bnd', 'Amb']) t.match(status, new RegExp(`^Cap${set}:\\s+0+$`, 'm'));
    t.match(status, /^NoNewPrivs:\s+1$/m);
    for (const place of ['/new', '/sallyport/new', '/usr/new', '/policy/new']) {
      t.throws(() => writeFileSync(`/proc/${child.pid}/root${place}`, ''), { code: 'EROFS' }, `${place}, even by root`);
    }
  });

  await t.test('guards the app, and reloads in its thread', async (t) => {
    // The log is written through a buffer, so that its line may come a little after the port opens.
    const loaded = await until('the log line', () =>
      parseLogLines(child.stdout()).find(({ msg }) => msg === 'Policy loaded'),
    );
    t.match(loaded, { documents: 2, generation: 1 });
    for (const host of [address.pod, address.pod6]) {
      t.match(await curl(net.client, at(host, 8080)), { status: 200 }, host);
      t.match(await curl(net.client, at(host, 8081)), { status: 403 }, host);
    }
    replaceFile(policyFile, openServer('web', 8081));
    await until('the new policy', async () => (await curl(net.client, at(address.pod, 8081))).status === 200);
    t.match(await curl(net.client, at(address.pod, 8080)), { status: 403 });
    t.same(app.unguarded(), []);
  });

  await t.test('stops on the stop signal', async (t) => {
    const signal = instruction(/^STOPSIGNAL (\w+)$/m) as NodeJS.Signals;
    t.match(await child.end(signal, 10_000), { code: 0, signal: null });
    t.equal(child.stderr(), '');
  });
}

if (unavailable) {
  t.plan(0, unavailable);
} else {
  t.setTimeout(290_000);
  await t.test('the image', { timeout: 280_000 }, async (t) => {
    const root = await install(t);
    await t.test('what is in it', (t) => contents(t, root));
    await t.test('what it does', (t) => runs(t, root));
  });
}
