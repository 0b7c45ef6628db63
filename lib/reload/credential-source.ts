import { CodedError } from '../errors/coded-error.ts';
import type { CodedLog } from '../errors/complaint.ts';
import { boundChains } from './chain-depth.ts';
import { type Clock, systemClock } from './clock.ts';
import { readCredentialFiles } from './credential-files.ts';
import {
  type CredentialBytes,
  type CredentialFault,
  type CredentialFiles,
  type Credentials,
  credentialFaultText,
  type LoadContext,
  verifyCredentials,
} from './credentials.ts';
import { ExpiryWatch } from './expiry.ts';
import { offerNoTickets } from './no-tickets.ts';
import { type Judgement, type Reading, Reloader } from './reloader.ts';
import type { Times } from './settling.ts';
import { filesOnDisk, type World } from './world.ts';

export interface CredentialSourceOptions extends CredentialFiles {
  /** SNI names for which TLS is terminated here; the certificate's DNS SANs where absent. */
  readonly names?: readonly string[] | undefined;
  /** Called after each good load, the first included; they count as in use when it resolves. */
  readonly onLoaded: (credentials: Credentials, origin: CredentialOrigin) => void | Promise<void>;
  /** Called when changed files cannot be used, once for each set of faults; the previous credentials stay in force. Not called for the first load. */
  readonly onFailed: (faults: readonly CredentialFault[]) => void;
  /** Called when the files hold again what is in use, after `onFailed`. */
  readonly onMended?: () => void;
  /** A load has not ended for 15 s, and what for it waits; null when it has ended at last. */
  readonly onOverdue?: (waitingFor: string | null) => void;
  readonly log: CodedLog;
  readonly clock?: Clock;
  /** For tests. */
  readonly times?: Times;
  readonly retryMs?: number;
  readonly overdueMs?: number;
  readonly world?: World;
}

/** Of what credentials were made: the same again makes the same. */
export interface CredentialOrigin {
  readonly bytes: CredentialBytes;
  readonly context: LoadContext;
}

export interface CredentialSource {
  /** Loads once and begins to watch. Rejects with `CredentialsUnusable` where the first load fails; then nothing is watched. */
  start(): Promise<Credentials>;
  /** The last good load. Throws before `start` has resolved: there is nothing to serve TLS with. */
  current(): Credentials;
  /** Looks at the files again. */
  reload(): void;
  stop(): Promise<void>;
}

/** The first load failed. One fault a line. */
export class CredentialsUnusable extends CodedError {
  readonly faults: readonly CredentialFault[];
  constructor(faults: readonly CredentialFault[]) {
    super('ERR_SALLYPORT_IDENTITY', faults.map(credentialFaultText).join('\n'));
    this.name = 'CredentialsUnusable';
    this.faults = faults;
  }
}

/** A certificate that is not valid yet is looked at again when it is, and at least so often: clocks are set. */
const longestWaitMs = 60 * 60 * 1000;

/**
 * Certificate, key and trust anchors as files that may change at any time. They are read and verified together, and only
 * a whole and consistent set is published. In the middle of a rotation, when the new key stands beside the old
 * certificate, the last good set stays; the next file's change brings the new one.
 *
 * An anchor that is lost cuts clients off, so that the files are believed as policy is: not while they are being written,
 * not when they are emptied, and an anchor that is gone only when that has settled.
 */
export function createCredentialSource(options: CredentialSourceOptions): CredentialSource {
  return new FollowedCredentials(options);
}

/** What the files say, verified. */
type CredentialRead =
  | { readonly kind: 'usable'; readonly credentials: Credentials; readonly origin: CredentialOrigin }
  /** `validFrom`: see `CredentialsResult`. */
  | { readonly kind: 'faulty'; readonly faults: readonly CredentialFault[]; readonly validFrom: Date | null }
  /** What is served already. */
  | { readonly kind: 'served' };

type CredentialStage =
  | { readonly kind: 'new' }
  /** `faults`: why there is nothing to serve yet. */
  | { readonly kind: 'starting'; faults: readonly CredentialFault[] }
  | { readonly kind: 'serving'; readonly credentials: Credentials; readonly bytes: CredentialBytes };

class FollowedCredentials implements CredentialSource {
  readonly #options: CredentialSourceOptions;
  readonly #reloader: Reloader<CredentialRead>;
  #stage: CredentialStage = { kind: 'new' };
  /** The faults last reported: files that stay bad are one failure, however many events their folder sees. */
  #told = '';
  readonly #clock: Clock;
  readonly #expiry: ExpiryWatch;
  #notYet: () => void = () => {};

  constructor(options: CredentialSourceOptions) {
    const { certFile, keyFile, trustAnchorsFile, log, times, retryMs, overdueMs } = options;
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#expiry = new ExpiryWatch(log, this.#clock);
    const onWatchError = (error: Error): void =>
      log.warn({ code: 'not-watched', error: error.message }, 'Cannot watch the identity files; polling them');
    this.#reloader = new Reloader({
      world: options.world ?? filesOnDisk({ paths: [certFile, keyFile, trustAnchorsFile], onWatchError }),
      first: 'at once',
      read: (held) => this.#read(held),
      judge: (read, _now, meant) => this.#judge(read, meant),
      onOverdue: (waitingFor) => options.onOverdue?.(waitingFor),
      onError: (error) => this.#tell([unexpected(certFile, error)]),
      ...{ times, retryMs, overdueMs },
    });
  }

  async start(): Promise<Credentials> {
    if (this.#stage.kind !== 'new') throw new Error('a credential source starts only once');
    const starting: CredentialStage = { kind: 'starting', faults: [] };
    this.#stage = starting;
    boundChains();
    offerNoTickets();
    this.#reloader.watch();
    await this.#reloader.reload();
    const stage = this.#stage as CredentialStage;
    if (stage.kind !== 'serving') {
      await this.stop();
      throw new CredentialsUnusable(starting.faults);
    }
    return stage.credentials;
  }

  current(): Credentials {
    if (this.#stage.kind !== 'serving') throw new Error('no credentials have been loaded');
    return this.#stage.credentials;
  }

  reload(): void {
    void this.#reloader.reload();
  }

  async stop(): Promise<void> {
    this.#notYet();
    this.#expiry.stop();
    await this.#reloader.stop();
  }

  async #read(held: CredentialRead | null): Promise<Reading<CredentialRead>> {
    const value = await this.#verified(held);
    return { kind: 'read', value, look: null };
  }

  async #verified(held: CredentialRead | null): Promise<CredentialRead> {
    const read = await readCredentialFiles(this.#options);
    if (read.kind === 'faulty') return { ...read, validFrom: null };
    const { bytes } = read;
    const serving = this.#stage.kind === 'serving' ? this.#stage : null;
    if (serving !== null && sameBytes(serving.bytes, bytes)) return { kind: 'served' };
    if (held?.kind === 'usable' && sameBytes(held.origin.bytes, bytes)) return held;
    const generation = (serving?.credentials.generation ?? 0) + 1;
    const context = { names: this.#options.names, now: this.#clock.now(), generation };
    const result = verifyCredentials(this.#options, bytes, context);
    return result.kind === 'usable' ? { ...result, origin: { bytes, context } } : result;
  }

  #judge(read: CredentialRead, meant: (file: string) => boolean): Judgement {
    const lost = read.kind === 'usable' ? this.#lostAnchors(read.credentials) : [];
    const { trustAnchorsFile } = this.#options;
    return {
      missing: lost.length === 0 || meant(trustAnchorsFile) ? null : { what: lost.join(), from: trustAnchorsFile },
      conclude: () => this.#conclude(read),
    };
  }

  #lostAnchors({ anchorIds }: Credentials): string[] {
    if (this.#stage.kind !== 'serving') return [];
    return this.#stage.credentials.anchorIds.filter((id) => !anchorIds.includes(id));
  }

  async #conclude(read: CredentialRead): Promise<void> {
    if (read.kind === 'usable') {
      const { credentials, origin } = read;
      // Before they count as served: where that fails, the next attempt must not find them unchanged.
      await this.#options.onLoaded(credentials, origin);
      this.#stage = { kind: 'serving', credentials, bytes: origin.bytes };
      this.#expiry.follow(credentials.validities);
    }
    this.#notYet();
    if (read.kind === 'faulty' && read.validFrom !== null) this.#readWhenValid(read.validFrom);
    this.#tell(read.kind === 'faulty' ? read.faults : []);
  }

  #tell(faults: readonly CredentialFault[]): void {
    if (this.#stage.kind === 'starting') {
      this.#stage.faults = faults;
      return;
    }
    const told = faults.map(credentialFaultText).join('\n');
    if (told === this.#told) return;
    this.#told = told;
    if (faults.length > 0) this.#options.onFailed(faults);
    else this.#options.onMended?.();
  }

  /** Nothing else would tell: the files stay as they are. */
  #readWhenValid(validFrom: Date): void {
    const ms = validFrom.getTime() - this.#clock.now().getTime();
    this.#notYet = this.#clock.after(Math.min(Math.max(0, ms), longestWaitMs), () => void this.#reloader.reload());
  }
}

function unexpected(file: string, error: unknown): CredentialFault {
  const message = `unexpected error: ${error instanceof Error ? error.message : String(error)}`;
  return { file, code: 'ERR_SALLYPORT_UNEXPECTED', message, hint: '' };
}

function sameBytes(a: CredentialBytes, b: CredentialBytes): boolean {
  return a.cert === b.cert && a.key === b.key && a.trustAnchors === b.trustAnchors;
}
