/**
 * What cannot be measured here: linkerd2-proxy itself. CPU microseconds per request, Sallyport's beside its own, as they
 * were measured once on one machine, in turns.
 */
export const linkerdProxy = {
  date: 'November 2026',
  method:
    'linkerd2-proxy, release build, one worker, in the network namespace of the app, redirected traffic, the same policy; Sallyport in the same place',
  cpuMicros: {
    'http1-keepalive': { sallyport: 17.5, linkerdProxy: 33 },
    'h2c-to-h2c': { sallyport: 10.3, linkerdProxy: 22 },
  },
} as const;

export function recordedLines(): string {
  const { date, method, cpuMicros } = linkerdProxy;
  const rows = Object.entries(cpuMicros).map(
    ([name, { sallyport, linkerdProxy: theirs }]) =>
      `  ${name}: ${sallyport} to ${theirs} us, ratio ${(theirs / sallyport).toFixed(2)}`,
  );
  return `Recorded, ${date} (${method}):\n${rows.join('\n')}`;
}
