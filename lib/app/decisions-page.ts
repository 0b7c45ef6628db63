import { createHmac } from 'node:crypto';
import { setImmediate as turn } from 'node:timers/promises';
import { wireText } from '../policy/bytes.ts';
import { type CountedDecision, DecisionCounts, type DecisionTally } from '../telemetry/decision-counts.ts';
import { lostLine, recordText } from '../telemetry/decision-records.ts';

/** Lines that are made before others have their turn. */
const slice = 256;

/**
 * `/decisions`: what all threads have counted, as lines of the record. Values of header fields are hashed in each, though the
 * file may hold them as they are: that is for the user alone who runs the proxy, and this page for everybody on the machine.
 *
 * @param key of the hash, which stands beside the values; of a line that is hashed already its own stays.
 */
export async function decisionsPage(tallies: readonly DecisionTally[], key: string): Promise<string> {
  const all = new DecisionCounts();
  for (const { counted, lost } of tallies) {
    for (const each of counted) all.add(each);
    all.lose(lost);
  }
  const { counted, lost } = all.tally();
  const lines = lost === 0 ? [] : [lostLine(Date.now(), lost)];
  const oldestFirst = counted.toSorted((a, b) => a.firstMs - b.firstMs);
  for (const [i, each] of oldestFirst.entries()) {
    if (i % slice === slice - 1) await turn();
    lines.push(recordText(withoutValues(each, key)));
  }
  return lines.join('');
}

function withoutValues(decision: CountedDecision, key: string): CountedDecision {
  const { text } = decision;
  if (!text.includes('"headers":{')) return decision;
  const { headers, ...record }: { headers: Record<string, string[]>; salt?: string } = JSON.parse(`{${text}}`);
  if (record.salt !== undefined) return decision;
  const hashed = Object.entries(headers).map(([name, values]) => [name, values.map((value) => hashOf(value, key))]);
  const fields = JSON.stringify({ ...record, headers: Object.fromEntries(hashed), salt: key });
  return { ...decision, text: inAscii(fields).slice(1, -1) };
}

/** As the record has it (lib/records/decision.schema.json). */
function hashOf(value: string, key: string): string {
  return createHmac('sha256', key).update(wireText(value), 'latin1').digest('hex').slice(0, 32);
}

function inAscii(json: string): string {
  return json.replace(/[^\x20-\x7e]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
