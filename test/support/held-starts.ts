import { type IpAddress, parseIp } from '../../lib/ip.ts';
import { sourceOf } from '../../lib/proxy/fairness/sources.ts';
import { starts } from '../../lib/proxy/fairness/starts.ts';

/** For many turns, or until it is called, what clients of 127.0.0.1 have to begin waits for its turn. */
export function holdStarts(): () => void {
  const asker = sourceOf(parseIp('127.0.0.1') as IpAddress);
  let isHeld = true;
  const fill = (): void => {
    if (isHeld) starts.begin(asker, fill);
  };
  for (let others = 0; others < 1000; others++) starts.begin(asker, fill);
  return () => {
    isHeld = false;
  };
}
