import type { FaultCode } from '../errors/faults.ts';
import type { Problem } from '../problem.ts';
import { systemClock } from '../reload/clock.ts';
import type { LoadedPolicy } from '../reload/policy-source.ts';
import { Standing } from '../reload/standing.ts';
import type { CodedLogger } from '../telemetry/log.ts';
import { standingView } from './load-listeners.ts';

export interface LoadReportOptions {
  /** As lines of the log begin. */
  readonly what: 'Policy' | 'Candidate policy';
  readonly codes: { readonly notLoaded: FaultCode; readonly stale: FaultCode };
  readonly logger: CodedLogger;
  /** Of the policy that is decided by; 0 before the first. */
  generation(): number;
  /** What holds while a load is bad. */
  kept(): string;
  /** What one would do now, where that is otherwise than it is; null: nothing. */
  restart?(): string | null;
  /** Informed besides the log. */
  loaded?(at: Date): void;
  failed?(): void;
  overdue?(overdue: boolean): void;
  stale?(stale: boolean): void;
}

/** What is said of the loads of one set of policy documents, and to who asks how the last one went. */
export class LoadReport {
  readonly #options: LoadReportOptions;
  readonly #standing: Standing;
  #loadedAt: Date | null = null;
  /** Errors of the load under way. */
  #faults: readonly string[] = [];

  constructor(options: LoadReportOptions) {
    this.#options = options;
    const { what, codes, logger, generation } = options;
    this.#standing = new Standing({
      code: codes.stale,
      messages: { still: () => `${what} still not loaded; ${options.kept()}`, again: `${what} files are good again` },
      fields: () => ({ generation: generation() }),
      staleFields: () => this.#restart(),
      onChange: (stale) => options.stale?.(stale),
      log: logger,
      clock: systemClock,
    });
  }

  problems(problems: readonly Problem[]): void {
    const { what, logger } = this.#options;
    this.#faults = problems.filter(({ severity }) => severity === 'error').map(problemText);
    for (const { severity, message, ...where } of problems) {
      logger[severity === 'error' ? 'error' : 'warn'](where, `${what}: ${message}`);
    }
  }

  loaded({ documents, changes }: LoadedPolicy): void {
    const { what, logger } = this.#options;
    const generation = this.#options.generation();
    this.#loadedAt = new Date();
    this.#options.loaded?.(this.#loadedAt);
    this.#standing.accepted();
    if (changes === 'same') logger.debug({ documents, generation }, `${what} loaded; no document says anything else`);
    else logger.info({ documents, generation, ...(changes === 'first' ? {} : changes) }, `${what} loaded`);
  }

  failed(reason: string): void {
    const { what, codes, logger } = this.#options;
    this.#options.failed?.();
    logger.error({ code: codes.notLoaded, reason, ...this.#restart() }, `${what} not loaded; ${this.#options.kept()}`);
    this.#standing.refused(reason, this.#faults);
    this.#faults = [];
  }

  #restart(): { readonly restart?: string } {
    const restart = this.#options.restart?.() ?? null;
    return restart === null ? {} : { restart };
  }

  overdue(waitingFor: string | null): void {
    const { what, logger } = this.#options;
    this.#options.overdue?.(waitingFor !== null);
    if (waitingFor !== null)
      logger.error({ code: 'load-overdue', waitingFor }, `${what} load overdue: it has not ended for 15 s`);
    else logger.info({}, `${what} load ended after all`);
    this.#standing.overdue(waitingFor);
  }

  get isStale(): boolean {
    return this.#standing.state.kind === 'stale';
  }

  view(): { readonly generation: number; readonly loadedAt: string | null; readonly stale: object | null } {
    const loadedAt = this.#loadedAt?.toISOString() ?? null;
    return { generation: this.#options.generation(), loadedAt, ...standingView(this.#standing.state) };
  }

  stop(): void {
    this.#standing.stop();
  }
}

function problemText({ file, line, column, message, code }: Problem): string {
  return `${file}:${line}:${column}: ${message} [${code}]`;
}
