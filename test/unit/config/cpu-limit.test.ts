import t from 'tap';
import { cpuLimit } from '../../../lib/config/cpu-limit.ts';

type Files = Readonly<Record<string, string>>;

const v1 = '4:cpu,cpuacct:/kubepods/pod1/abc\n1:name=systemd:/\n';
const rows: readonly (readonly [name: string, files: Files, cores: number | null])[] = [
  ['nothing to read', {}, null],
  [
    'a container: its own is the root',
    { '/proc/self/cgroup': '0::/\n', '/sys/fs/cgroup/cpu.max': '150000 100000\n' },
    1.5,
  ],
  ['no limit', { '/proc/self/cgroup': '0::/\n', '/sys/fs/cgroup/cpu.max': 'max 100000\n' }, null],
  [
    'the tightest of those above',
    {
      '/proc/self/cgroup': '0::/a.slice/b.service\n',
      '/sys/fs/cgroup/a.slice/b.service/cpu.max': '400000 100000',
      '/sys/fs/cgroup/a.slice/cpu.max': '200000 100000',
    },
    2,
  ],
  [
    'its namespace begins below the mount',
    { '/proc/self/cgroup': '0::/../../x\n', '/sys/fs/cgroup/cpu.max': '300000 100000' },
    3,
  ],
  [
    'version 1',
    {
      '/proc/self/cgroup': v1,
      '/sys/fs/cgroup/cpu/kubepods/pod1/abc/cpu.cfs_quota_us': '250000\n',
      '/sys/fs/cgroup/cpu/kubepods/pod1/abc/cpu.cfs_period_us': '100000\n',
    },
    2.5,
  ],
  [
    'version 1, mounted from its own on',
    {
      '/proc/self/cgroup': v1,
      '/sys/fs/cgroup/cpu/cpu.cfs_quota_us': '200000\n',
      '/sys/fs/cgroup/cpu/cpu.cfs_period_us': '100000\n',
    },
    2,
  ],
  [
    'version 1 without a limit',
    {
      '/proc/self/cgroup': v1,
      '/sys/fs/cgroup/cpu/cpu.cfs_quota_us': '-1\n',
      '/sys/fs/cgroup/cpu/cpu.cfs_period_us': '100000\n',
    },
    null,
  ],
  ['nonsense', { '/proc/self/cgroup': '0::/\n', '/sys/fs/cgroup/cpu.max': 'a lot\n' }, null],
  ['a period of nothing', { '/proc/self/cgroup': '0::/\n', '/sys/fs/cgroup/cpu.max': '100 0\n' }, null],
];

t.test('cores of the CPU limit', async (t) => {
  for (const [name, files, cores] of rows) {
    const read = (path: string): string => {
      const text = files[path];
      if (text === undefined) throw new Error(`no ${path}`);
      return text;
    };
    t.equal(cpuLimit(read), cores, name);
  }
});
