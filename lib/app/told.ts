import type { Readiness } from '../ops/readiness.ts';
import type { Log } from '../telemetry/log.ts';
import type { Telemetry } from '../telemetry/metrics.ts';

/** Who hears of a load. */
export interface Told {
  readonly readiness: Readiness;
  readonly telemetry: Telemetry;
  readonly logger: Log['logger'];
}
