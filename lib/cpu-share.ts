/**
 * Yields what tells the share of time for which this thread has had a processor since it was last asked. Not the share for
 * which its event loop was at work, which on a crowded machine is mostly waiting for a processor.
 */
export function cpuShareMeter(): () => number {
  let [lastMs, lastMicros] = [performance.now(), cpuMicros()];
  return () => {
    const [nowMs, nowMicros] = [performance.now(), cpuMicros()];
    const share = (nowMicros - lastMicros) / Math.max(1, (nowMs - lastMs) * 1000);
    [lastMs, lastMicros] = [nowMs, nowMicros];
    return share;
  };
}

/** Of the process where Node does not tell of a thread (before 23.9). */
function cpuMicros(): number {
  const { user, system } = typeof process.threadCpuUsage === 'function' ? process.threadCpuUsage() : process.cpuUsage();
  return user + system;
}
