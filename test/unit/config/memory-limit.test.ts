import t from 'tap';
import { memoryBound } from '../../../lib/config/memory-limit.ts';

type Files = Readonly<Record<string, string>>;

const rows: readonly (readonly [name: string, files: Files, limit: number | null, used: number | null])[] = [
  ['nothing to read', {}, null, null],
  ['no limit', { '/proc/self/cgroup': '0::/\n', '/sys/fs/cgroup/memory.max': 'max\n' }, null, null],
  [
    'a container: its own is the root',
    {
      '/proc/self/cgroup': '0::/\n',
      '/sys/fs/cgroup/memory.max': '268435456\n',
      '/sys/fs/cgroup/memory.high': 'max\n',
      '/sys/fs/cgroup/memory.current': '100000000\n',
      '/sys/fs/cgroup/memory.stat': 'anon 1\ninactive_file 10000000\nactive_file 20000000\n',
    },
    268_435_456,
    70_000_000,
  ],
  [
    'over memory.high it would be slowed down',
    {
      '/proc/self/cgroup': '0::/a\n',
      '/sys/fs/cgroup/a/memory.max': '268435456\n',
      '/sys/fs/cgroup/a/memory.high': '200000000\n',
      '/sys/fs/cgroup/a/memory.current': '100000000\n',
      '/sys/fs/cgroup/a/memory.stat': '',
    },
    200_000_000,
    100_000_000,
  ],
  [
    'one above allows less, for others as well: what is used there is not ours alone',
    {
      '/proc/self/cgroup': '0::/a/b\n',
      '/sys/fs/cgroup/a/b/memory.max': '268435456\n',
      '/sys/fs/cgroup/a/b/memory.current': '100000000\n',
      '/sys/fs/cgroup/a/memory.max': '134217728\n',
      '/sys/fs/cgroup/a/memory.current': '120000000\n',
      '/sys/fs/cgroup/a/memory.stat': '',
    },
    134_217_728,
    null,
  ],
  [
    'version 1',
    {
      '/proc/self/cgroup': '4:memory:/pod/x\n0::/\n',
      '/sys/fs/cgroup/memory/pod/x/memory.limit_in_bytes': '134217728\n',
      '/sys/fs/cgroup/memory/pod/x/memory.usage_in_bytes': '90000000\n',
      '/sys/fs/cgroup/memory/pod/x/memory.stat':
        'active_file 7\ntotal_inactive_file 1000000\ntotal_active_file 2000000\n',
      '/sys/fs/cgroup/memory/memory.limit_in_bytes': '9223372036854771712\n',
    },
    134_217_728,
    87_000_000,
  ],
  [
    'version 1, with a lower limit of a group above that is out of sight',
    {
      '/proc/self/cgroup': '4:memory:/docker/abc\n',
      '/sys/fs/cgroup/memory/memory.limit_in_bytes': '9223372036854771712\n',
      '/sys/fs/cgroup/memory/memory.usage_in_bytes': '90000000\n',
      '/sys/fs/cgroup/memory/memory.stat': 'hierarchical_memory_limit 67108864\n',
    },
    67_108_864,
    90_000_000,
  ],
  ['text that is no number', { '/proc/self/cgroup': '0::/\n', '/sys/fs/cgroup/memory.max': '-5\n' }, null, null],
];

for (const [name, files, limit, used] of rows) {
  t.test(name, async (t) => {
    const bound = memoryBound((path) => {
      const text = files[path];
      if (text === undefined) throw new Error(`no file ${path}`);
      return text;
    });
    t.equal(bound?.limitBytes ?? null, limit);
    t.equal(bound?.usedBytes() ?? null, used);
  });
}
