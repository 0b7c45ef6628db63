import { type Cgroup, cgroupsOf, type ReadText } from './cgroups.ts';

/** Cores that this process may use, as its cgroup and those above it limit them: 1.5, say; null where nothing does. */
export function cpuLimit(read?: ReadText): number | null {
  const limits = cgroupsOf('cpu', read).flatMap((group) => limitOf(group) ?? []);
  return limits.length === 0 ? null : Math.min(...limits);
}

/** Null where there is no limit, and where there is no such file. */
function limitOf(group: Cgroup): number | null {
  const [quota, period] =
    group.version === 2
      ? (group.text('cpu.max') ?? '').trim().split(/\s+/)
      : [group.text('cpu.cfs_quota_us'), group.text('cpu.cfs_period_us')];
  // `max` and `-1` are no limit.
  const cores = Number(quota ?? Number.NaN) / Number(period ?? Number.NaN);
  return Number.isFinite(cores) && cores > 0 ? cores : null;
}
