import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import { CodedError } from '../errors/coded-error.ts';
import { notRegular, tooLarge } from '../regular-file.ts';
import { boundChains } from './chain-depth.ts';
import {
  type CredentialBytes,
  type CredentialFault,
  type CredentialFiles,
  type Credentials,
  type CredentialsResult,
  faultText,
  verifyCredentials,
} from './credentials.ts';
import { watchPaths } from './watch.ts';

export interface CredentialSourceOptions extends CredentialFiles {
  /** SNI names for which TLS is terminated here; the certificate's DNS SANs where absent. */
  readonly names?: readonly string[] | undefined;
  /** Called after each good load, the first included. */
  readonly onLoaded: (credentials: Credentials) => void;
  /** Called when changed files cannot be used, once for each set of faults; the credentials of before stay in force. Not called for the first load. */
  readonly onFailed: (faults: readonly CredentialFault[]) => void;
  readonly log: {
    info(fields: object, message: string): void;
    warn(fields: object, message: string): void;
  };
  /** The clock; tests set it. */
  readonly now?: () => Date;
}

export interface CredentialSource {
  /** Loads once and begins to watch. Rejects with `CredentialsUnusable` where the first load fails; then nothing is watched. */
  start(): Promise<Credentials>;
  /** The last good load. Throws before `start` has resolved: there is nothing to serve TLS with. */
  current(): Credentials;
  stop(): Promise<void>;
}

/** The first load failed. One fault a line. */
export class CredentialsUnusable extends CodedError {
  readonly faults: readonly CredentialFault[];
  constructor(faults: readonly CredentialFault[]) {
    super('ERR_SALLYPORT_IDENTITY', faults.map(faultText).join('\n'));
    this.name = 'CredentialsUnusable';
    this.faults = faults;
  }
}

/** Expiry within a day is worth a warning, unless the certificate is short-lived and has not yet come to its renewal. */
const warnBeforeExpiryMs = 24 * 60 * 60 * 1000;
/** Linkerd renews at 70 % of a certificate's life. */
const renewalShare = 0.7;
const expiryCheckMs = 60 * 60 * 1000;
/** One rotation is many events; this long after the first of them, the files are usually all there. */
const settleMs = 50;

/**
 * Certificate, key and trust anchors as files that may change at any time. They are read and verified together, and only
 * a whole and consistent set is published. In the middle of a rotation, when the new key stands beside the old
 * certificate, the last good set stays; the next file's change brings the new one.
 */
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: the loop is to be shared by all sources.
export function createCredentialSource(options: CredentialSourceOptions): CredentialSource {
  const now = options.now ?? (() => new Date());
  let current: Credentials | null = null;
  let served: CredentialBytes | null = null;
  /** The faults last told: files that stay bad are one failure, however many events their folder sees. */
  let told = '';
  let watcher: { close(): Promise<void> } | null = null;
  let settleTimer: NodeJS.Timeout | null = null;
  let expiryTimer: NodeJS.Timeout | null = null;
  let expiryWarned = 0;
  let stopped = false;
  let loading = false;
  let changedWhileLoading = false;

  async function load(): Promise<CredentialsResult | 'unchanged'> {
    const read = await readAll(options);
    if (read.kind === 'faulty') return read;
    if (served !== null && sameBytes(served, read.bytes)) return 'unchanged';
    const generation = (current?.generation ?? 0) + 1;
    const result = verifyCredentials(options, read.bytes, { names: options.names, now: now(), generation });
    if (result.kind === 'usable') {
      served = read.bytes;
      current = result.credentials;
    }
    return result;
  }

  /** Counted from the first event, not the last: a folder that never comes to rest is still read. */
  function changed(): void {
    if (stopped || settleTimer !== null) return;
    settleTimer = setTimeout(() => {
      settleTimer = null;
      void reload();
    }, settleMs);
  }

  /** One load at a time; a change during a load leads to one more, so the last state of the files is always seen. */
  async function reload(): Promise<void> {
    if (loading) {
      changedWhileLoading = true;
      return;
    }
    loading = true;
    try {
      do {
        changedWhileLoading = false;
        const result = await load();
        if (stopped) return;
        const faults = result !== 'unchanged' && result.kind === 'faulty' ? result.faults : [];
        const telling = faults.map(faultText).join('\n');
        if (result !== 'unchanged' && result.kind === 'usable') announce(result.credentials);
        else if (faults.length > 0 && telling !== told) options.onFailed(faults);
        told = telling;
      } while (changedWhileLoading);
    } finally {
      loading = false;
    }
  }

  function announce(credentials: Credentials): void {
    options.onLoaded(credentials);
    warnOfExpiry();
  }

  /** Once for each set of credentials: that nobody has renewed them is known before clients start to fail. */
  function warnOfExpiry(): void {
    if (current === null || expiryWarned === current.generation) return;
    const { notBefore, notAfter, generation } = current;
    const left = notAfter.getTime() - now().getTime();
    const life = notAfter.getTime() - notBefore.getTime();
    if (left > warnBeforeExpiryMs || left > life * (1 - renewalShare)) return;
    expiryWarned = generation;
    const fields = { file: options.certFile, notAfter: notAfter.toISOString() };
    options.log.warn(
      fields,
      left > 0 ? 'Identity certificate expires within a day' : 'Identity certificate has expired',
    );
  }

  async function stop(): Promise<void> {
    stopped = true;
    if (settleTimer !== null) clearTimeout(settleTimer);
    if (expiryTimer !== null) clearInterval(expiryTimer);
    await watcher?.close();
  }

  return {
    async start() {
      if (watcher !== null) throw new Error('a credential source starts only once');
      boundChains();
      // Watching first: a change between reading and watching would otherwise go unseen.
      watcher = watchPaths({
        paths: [options.certFile, options.keyFile, options.trustAnchorsFile],
        onChange: changed,
        onError: (error) => options.log.warn({ error: error.message }, 'Cannot watch the identity files; polling them'),
      });
      loading = true;
      const result = await load();
      loading = false;
      if (result === 'unchanged' || result.kind === 'faulty') {
        await stop();
        throw new CredentialsUnusable(result === 'unchanged' ? [] : result.faults);
      }
      announce(result.credentials);
      expiryTimer = setInterval(warnOfExpiry, expiryCheckMs).unref();
      if (changedWhileLoading) await reload();
      return result.credentials;
    },

    current() {
      if (current === null) throw new Error('no credentials have been loaded');
      return current;
    },

    stop,
  };
}

type ReadResult =
  | { readonly kind: 'read'; readonly bytes: CredentialBytes }
  | { readonly kind: 'faulty'; readonly faults: readonly CredentialFault[] };

async function readAll(files: CredentialFiles): Promise<ReadResult> {
  const faults: CredentialFault[] = [];
  const read = async (file: string): Promise<string> => {
    try {
      return await readSmallFile(file);
    } catch (error) {
      const code = (error as NodeJS.ErrnoException).code ?? 'unknown error';
      faults.push({ file, message: `cannot be read: ${reasons.get(code) ?? code}`, hint: remedies.get(code) ?? '' });
      return '';
    }
  };
  const [cert, key, trustAnchors] = await Promise.all([
    read(files.certFile),
    read(files.keyFile),
    read(files.trustAnchorsFile),
  ]);
  return faults.length > 0 ? { kind: 'faulty', faults } : { kind: 'read', bytes: { cert, key, trustAnchors } };
}

/** Far more than the largest bundle of trust anchors. */
const mostBytes = 4 * 1024 * 1024;

/** A pipe in the place of a file would be waited for without end, and everything behind it. */
async function readSmallFile(path: string): Promise<string> {
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const stat = await file.stat();
    if (stat.isDirectory()) throw Object.assign(new Error(), { code: 'EISDIR' });
    if (!stat.isFile()) throw Object.assign(new Error(), { code: notRegular });
    if (stat.size > mostBytes) throw Object.assign(new Error(), { code: tooLarge });
    return await file.readFile('latin1');
  } finally {
    await file.close();
  }
}

const reasons = new Map([
  ['ENOENT', 'no such file'],
  ['EACCES', 'permission denied'],
  ['EISDIR', 'it is a folder'],
  ['ENXIO', 'it is no regular file'],
  [notRegular, 'it is no regular file'],
  [tooLarge, 'it is too large to hold certificates'],
  ['ELOOP', 'symbolic links lead in a circle'],
]);
const remedies = new Map([
  ['ENOENT', 'check the SALLYPORT_IDENTITY_* variables and that the volume is mounted'],
  ['EACCES', 'let the user that runs sallyport read the file'],
  ['EISDIR', 'name the file itself, such as tls.crt inside the folder'],
]);

function sameBytes(a: CredentialBytes, b: CredentialBytes): boolean {
  return a.cert === b.cert && a.key === b.key && a.trustAnchors === b.trustAnchors;
}
