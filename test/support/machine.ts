import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Finished, missing, runToEnd, startChild, type Teardown } from './children.ts';
import { temporaryFolder } from './files.ts';
import type { Place } from './pod-network.ts';
import { until } from './until.ts';

/**
 * A machine with a systemd of its own: the first process of a process namespace, on the files of this machine with a layer
 * over them that is gone with the test. Its network is a place of the pod network. What systemd would set for the whole
 * kernel (/proc/sys, /sys) is read-only to it.
 */
export interface Machine {
  /** A folder of the test's that it has as `/srv`. */
  readonly srv: string;
  /** Its first process, as seen from here. */
  readonly pid: number;
  /** Runs a shell script as its root. Its own network; `this machine` is for what downloads packages. */
  sh(script: string, network?: 'its own' | 'this machine'): Promise<Finished>;
}

const systemd = '/lib/systemd/systemd';

/** Why there can be no such machine here; false where there can. */
export async function machineUnavailable(t: Teardown): Promise<string | false> {
  if (!existsSync(systemd)) return 'not installed: systemd';
  const absent = await missing(t, 'systemctl', 'systemd-analyze', 'unshare', 'nsenter', 'mount', 'pivot_root');
  if (absent) return absent;
  const layer = `mount -t tmpfs layer /mnt && mkdir /mnt/upper /mnt/work /mnt/root
    mount -t overlay -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work layer /mnt/root
    mount -t cgroup2 cgroup2 /mnt/root/mnt`;
  const tried = spawnSync('unshare', ['--mount', 'sh', '-euc', layer], { encoding: 'utf8' });
  return tried.status === 0 ? false : `no overlay or cgroup can be mounted here: ${tried.stderr.trim()}`;
}

/** Puts the shell into a control group of its own, by whose name it is found again. Argument: the name. */
const intoGroup = `
mount -t cgroup2 cgroup2 /mnt
mkdir "/mnt/$1"
echo $$ > "/mnt/$1/cgroup.procs"
umount /mnt
`;

const outOfGroup = `
mount -t cgroup2 cgroup2 /mnt
find "/mnt/$1" -depth -type d -exec rmdir {} +
`;

/** Arguments: a folder for mounts, the folder that becomes /srv, the program that becomes node. */
const boot = `
set -eu
place=$1 srv=$2 node=$3
mount -t tmpfs -o mode=755 machine "$place"
mkdir "$place/upper" "$place/work" "$place/root"
root=$place/root
mount -t overlay -o "lowerdir=/,upperdir=$place/upper,workdir=$place/work" machine "$root"
mount --bind "$srv" "$root/srv"
touch "$root/usr/local/bin/node"
mount --bind "$node" "$root/usr/local/bin/node"
mount -t proc proc "$root/proc"
mount --bind "$root/proc/sys" "$root/proc/sys"
mount -o remount,bind,ro "$root/proc/sys"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
mount -t tmpfs -o mode=755 run "$root/run"
mount -t tmpfs tmp "$root/tmp"
mount -t tmpfs -o mode=755 dev "$root/dev"
for device in null zero full random urandom tty; do
  touch "$root/dev/$device"
  mount --bind "/dev/$device" "$root/dev/$device"
done
mkdir "$root/dev/shm" "$root/dev/pts"
mount -t tmpfs shm "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666 pts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
# Not what this machine itself would start.
rm -rf "$root/etc/systemd/system"
mkdir "$root/etc/systemd/system"
printf '[Unit]\\nDescription=The machine of a test\\nRequires=sysinit.target\\nAfter=sysinit.target\\n' \\
  > "$root/etc/systemd/system/machine.target"
# Not by chroot: for the services' own roots, systemd must have the root of its mounts.
cd "$root"
pivot_root . mnt
umount --lazy /mnt
cd /
# As whoever starts a systemd in a container must: it hands credentials to services by mounts that spread.
mount --make-rshared /
exec env --ignore-environment container=other PATH="$PATH" ${systemd} --system --unit=machine.target
`;

const path = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

/** Boots it; resolves when systemd is up. */
export async function bootMachine(t: Teardown, place: Place): Promise<Machine> {
  const folder = temporaryFolder(t);
  const srv = join(folder, 'srv');
  const mounts = join(folder, 'mounts');
  for (const one of [srv, mounts]) mkdirSync(one);
  const group = `sallyport-test-${process.pid}`;
  t.teardown(() => spawnSync('unshare', ['--mount', 'sh', '-c', outOfGroup, 'sh', group]));
  const apart = ['--mount', '--pid', '--fork', '--kill-child', '--uts', '--ipc', '--cgroup'];
  const [command = '', ...within] = place.namespace.within;
  const script = `set -eu; ${intoGroup} shift; exec unshare ${apart.join(' ')} sh -c "$0" sh "$@"`;
  const child = await startChild(
    t,
    command,
    [...within, 'unshare', '--mount', 'sh', '-c', script, boot, group, mounts, srv, process.execPath],
    { env: { PATH: path } },
  );
  const pid = await until(
    'the first process of the machine',
    () => {
      if (child.process.exitCode !== null) throw new Error(`the machine ended: ${child.stderr()}`);
      const [first] = readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8').split(' ').filter(Boolean);
      const line = first === undefined ? '' : readFileSync(`/proc/${first}/cmdline`, 'utf8');
      return line.startsWith(systemd) ? Number(first) : undefined;
    },
    { lastSeen: () => child.stderr() },
  );
  // Whoever started it is not waited for by it, and the other way round.
  t.teardown(() => child.process.exitCode === null && process.kill(pid, 'SIGKILL'));
  const machine: Machine = {
    srv,
    pid,
    sh: (script, network = 'its own') => {
      const spaces = ['--mount', '--uts', '--ipc', '--pid', '--cgroup', ...(network === 'its own' ? ['--net'] : [])];
      const shell = ['env', '--ignore-environment', `PATH=${path}`, 'HOME=/root', 'sh', '-euc', `cd /srv\n${script}`];
      return runToEnd(t, 'nsenter', ['--target', `${pid}`, ...spaces, '--root', '--wdns=/', ...shell], {
        timeoutMs: 120_000,
      });
    },
  };
  let state = '';
  await until(
    'the machine to be up',
    async () => {
      const { stdout, stderr } = await machine.sh('systemctl is-system-running || true');
      state = stdout.trim() || stderr.trim();
      return state === 'running' || state === 'degraded';
    },
    { timeoutMs: 30_000, everyMs: 200, lastSeen: () => state },
  );
  return machine;
}
