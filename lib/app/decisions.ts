import { randomBytes } from 'node:crypto';
import type { Config } from '../config/config.ts';
import { decisionsPath } from '../ops/admin-callers.ts';
import type { DecisionTally } from '../telemetry/decision-counts.ts';
import { DecisionFile } from '../telemetry/decision-file.ts';
import { DecisionRecords } from '../telemetry/decision-records.ts';
import type { Log } from '../telemetry/log.ts';
import type { LineSink } from '../telemetry/output.ts';
import { RecordedScope } from '../telemetry/recorded-scope.ts';
import type { DecisionRecording } from '../telemetry/recording.ts';
import { decisionsPage } from './decisions-page.ts';

/** The record of decisions of the process: what this thread records, and where all threads' lines go. */
export interface KeptDecisions {
  readonly recording: DecisionRecording;
  readonly lines: LineSink;
  /** For the admin server. @param others of the other threads */
  page(others: readonly DecisionTally[]): Promise<string>;
  /** Writes what is left. */
  close(): Promise<void>;
}

/** What is configured of it. */
type RecordSettings = NonNullable<Config['decisions']>;
type AdminListen = Pick<Config, 'adminListen' | 'workers'>;

/** @param onDropped called with the number of lines that the file does not take. */
export function keepDecisions(
  decisions: RecordSettings,
  admin: AdminListen,
  log: Log,
  onDropped: (lines: number) => void,
): KeptDecisions {
  const { file, maxBytes, keep } = decisions;
  const { workers: threads } = admin;
  const written = file === null ? null : new DecisionFile({ path: file, maxBytes, keep, log: log.logger, onDropped });
  const lines: LineSink = written ?? log;
  // What the file does not take, it says there itself; of standard output the log counts it.
  const records = new DecisionRecords({ ...decisions, asked: askedAt(admin), threads, sink: lines, dropped: () => 0 });
  const key = randomBytes(16).toString('hex');
  // Before the file's own last write.
  process.prependListener('exit', records.flush);
  return {
    recording: { records, scope: RecordedScope },
    lines,
    page: (others) => decisionsPage([records.tally(), ...others], key),
    async close() {
      records.flush();
      process.off('exit', records.flush);
      await written?.close();
    },
  };
}

/** In a further worker, whose lines the main thread writes. */
export function sendDecisions(
  decisions: RecordSettings,
  admin: AdminListen,
  sink: LineSink & { readonly dropped: number },
): DecisionRecording {
  const [asked, threads] = [askedAt(admin), admin.workers];
  return {
    records: new DecisionRecords({ ...decisions, asked, threads, sink, dropped: () => sink.dropped }),
    scope: RecordedScope,
  };
}

function askedAt({
  adminListen,
}: Pick<Config, 'adminListen'>): { readonly port: number; readonly path: string } | null {
  return adminListen === null ? null : { port: adminListen.port, path: decisionsPath };
}
