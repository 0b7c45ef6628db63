import { type App, startApp } from '../lib/app.ts';
import { helpersGoBehindTraffic } from '../lib/behind-traffic.ts';
import { readConfig } from '../lib/config/config.ts';
import { hostFor } from '../lib/config/host.ts';
import { CodedError } from '../lib/errors/coded-error.ts';
import type { CodedLog } from '../lib/errors/complaint.ts';
import { type ExitStatus, usageExit } from '../lib/errors/exits.ts';
import { hostPort } from '../lib/ip.ts';
import { restWhenQuiet } from '../lib/ops/returned-memory.ts';
import { reportReady } from '../lib/ops/service-manager.ts';
import { faultsAreHeard, internalFault } from '../lib/proxy/guard.ts';
import { createLog } from '../lib/telemetry/log.ts';
import { flushOutputs } from '../lib/telemetry/output.ts';
import { complain, type Io, type Main } from './arguments.ts';
import { version } from './version.ts';

export const main: Main<'run'> = async (_line, io) => run(io, {});

interface Running {
  /** Called once all ports are open. */
  started?(): void;
  /** Further reasons to end, besides SIGTERM and SIGINT. */
  endings?(end: () => void): void;
  /** What a second reason to end does; the default is to cut the drain short. */
  readonly again?: 'cuts' | 'joins';
  /** What SIGHUP does; the default has all files looked at. Who lets it end the process hears it without our help. */
  readonly hangup?: 'reloads' | 'ends';
}

/** Starts, waits for a signal or for the admin server's /shutdown, drains. */
export async function run(io: Io, running: Running): Promise<ExitStatus> {
  helpersGoBehindTraffic();
  const host = await hostFor(io.env);
  const read = readConfig(io.env, host);
  if (!read.ok) {
    for (const { variable, ...fault } of read.faults) complain(io, `sallyport: ${variable}`, fault);
    return usageExit;
  }
  const { config } = read;
  const log = createLog({ level: config.logLevel, format: config.logFormat });
  const { logger } = log;
  for (const { message, ...about } of config.warnings) logger.warn(about, `${about.variable}: ${message}`);

  // The last resort. What reaches it belongs to no connection, or none that anybody knows of; the others go on, for a while.
  const uncaught = (where: string, error: unknown): void => {
    if (faultsAreHeard()) internalFault(where, null, error);
    else logger.error({ code: 'ERR_SALLYPORT_UNEXPECTED', where, err: error }, 'Internal error');
  };
  process.on('uncaughtException', (error) => uncaught('an uncaught exception', error));
  process.on('unhandledRejection', (reason) => uncaught('an unhandled rejection', reason));

  const signals = new Signals(logger, running);
  running.endings?.(signals.end);
  try {
    const build = { version: version(), gitSha: '', date: '' };
    const app = await startApp({ config, env: io.env, host, log, build });
    const { inbound, ports, admin, health } = app.addresses;
    logger.info(
      {
        version: build.version,
        node: process.version,
        inbound: shown(inbound),
        ports: [...ports.values()].map(shown),
        admin: shown(admin),
        health: shown(health),
      },
      'Listening',
    );
    const unreported = reportReady(io.env);
    if (unreported !== null) {
      logger.warn({ code: 'service-manager', error: unreported }, 'systemd does not learn that the start is over');
    }
    restWhenQuiet(() => app.rehearse());
    running.started?.();
    signals.drain(app);
    const drained = await app.stopped;
    return drained ? 0 : 1;
  } catch (error) {
    const { message } = error as Error;
    const code = error instanceof CodedError ? error.code : 'ERR_SALLYPORT_UNEXPECTED';
    logger.fatal({ code, error: message }, 'Cannot start');
    // One fault a line, as those of the variables: an identity may have several.
    for (const fault of message.split('\n')) complain(io, 'sallyport', { code, message: fault, hint: '' });
    return 1;
  } finally {
    await flushOutputs();
  }
}

function shown(address: { readonly address: string; readonly port: number } | null): string | null {
  return address === null ? null : hostPort(address.address, address.port);
}

/**
 * SIGTERM and SIGINT, heard from the first moment: the first process of a container has no other way to end. Before all
 * ports are open there is nothing to drain; afterwards the first drains, and a second one ends the process at once. SIGHUP
 * has all files looked at, as with other servers: whoever sends it wants no end.
 */
class Signals {
  #app: App | null = null;
  #endAsked = false;
  #reloadAsked = false;
  readonly #logger: Pick<CodedLog, 'info' | 'warn'>;
  readonly #again: 'cuts' | 'joins';

  constructor(logger: Pick<CodedLog, 'info' | 'warn'>, { again = 'cuts', hangup = 'reloads' }: Running) {
    this.#logger = logger;
    this.#again = again;
    for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, this.end);
    if (hangup === 'reloads') process.on('SIGHUP', this.#reload);
  }

  readonly #reload = (): void => {
    this.#logger.info({}, 'SIGHUP; looking at all files');
    // Some may have been read already while there is no app yet: they are looked at again once there is.
    if (this.#app === null) this.#reloadAsked = true;
    else this.#app.reload();
  };

  readonly end = (): void => {
    if (this.#app === null) {
      this.#logger.info({}, 'Stopped before it had started');
      process.exit(0);
    }
    if (this.#endAsked && this.#again === 'joins') return;
    if (this.#endAsked) {
      this.#logger.warn({ code: 'second-signal' }, 'Second signal; ending without a drain');
      process.exit(1);
    }
    this.#endAsked = true;
    void this.#app.stop();
  };

  drain(app: App): void {
    this.#app = app;
    if (this.#reloadAsked) app.reload();
  }
}
