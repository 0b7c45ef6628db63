const family = 'sallyport_event_loop_pause_seconds';

/** Pauses of Sallyport's event loop above a millisecond since its start, as its metrics have them a second late. */
export async function pausesSoFar(metricsPort: number): Promise<number> {
  const response = await fetch(`http://127.0.0.1:${metricsPort}/metrics`);
  const text = await response.text();
  if (response.status !== 200) throw new Error(`the metrics were answered with ${response.status}: ${text}`);
  const value = (series: string): number => {
    const line = text.split('\n').find((each) => each.startsWith(`${series} `));
    return Number(line?.slice(series.length + 1) ?? 0);
  };
  return value(`${family}_count`) - value(`${family}_bucket{le="0.001"}`);
}
