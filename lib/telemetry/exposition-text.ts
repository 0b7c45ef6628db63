import { setImmediate as turn } from 'node:timers/promises';
import { Registry } from './registry.ts';
import { collectedBy, type MetricDescription, registerCollected, type Sample } from './series.ts';

/** Lines that are written before others have their turn: about a millisecond's work. */
const linesATurn = 512;

/**
 * All that a registry shows, in the text format. It may have a hundred thousand lines, which would hold up all traffic for a
 * second: so they are written in slices. The lines of one histogram are of one moment, those of two series need not be.
 */
export async function expositionText(registry: Registry): Promise<string> {
  const families: string[] = [];
  for (const metric of registry.getMetricsAsArray()) {
    const collected = collectedBy(metric);
    if (collected === undefined) families.push(await registry.getSingleMetricAsString(metric.name));
    else families.push(await inSlices(collected.description, collected.values()));
  }
  return `${families.join('\n\n')}\n`;
}

async function inSlices(description: MetricDescription, samples: Iterable<Sample>): Promise<string> {
  let text = '';
  let slice: Sample[] = [];
  const write = async (): Promise<void> => {
    const one = new Registry();
    registerCollected(one, description, () => slice);
    const written = await one.getSingleMetricAsString(description.name);
    // Two lines begin every family, and none of its slices but the first.
    text = text === '' ? written : `${text}\n${written.slice(written.indexOf('\n', written.indexOf('\n') + 1) + 1)}`;
    slice = [];
  };
  for (const sample of samples) {
    if (slice.length === linesATurn) {
      await write();
      await turn();
    }
    slice.push(sample);
  }
  if (slice.length > 0 || text === '') await write();
  return text;
}
