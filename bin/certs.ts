import { X509Certificate } from 'node:crypto';
import { mkdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { type Authority, createAuthority, issueCertificate } from '../certs/authority.ts';
import { dnsNamesOfCertificate, identityFromCertificate } from '../lib/certificate-names.ts';
import { fileFault } from '../lib/config/file-fault.ts';
import type { Complaint } from '../lib/errors/complaint.ts';
import type { ExitStatus } from '../lib/errors/exits.ts';
import type { FaultCode } from '../lib/errors/faults.ts';
import { type CommandLine, complain, type FlagOf, type Io, UsageError } from './arguments.ts';
import { shellWord } from './shell-word.ts';

/** The streams as this command uses them. */
export interface CertsIo extends Pick<Io, 'env'> {
  readonly stdout: { write(text: string): unknown };
  readonly stderr: { write(text: string): unknown };
}

/** The files, not the command line, are at fault. */
class CertsError extends Error implements Complaint {
  readonly code: FaultCode;
  readonly hint = '';
  constructor(code: FaultCode, message: string) {
    super(message);
    this.code = code;
  }
}

interface Report {
  readonly written: readonly string[];
  readonly notAfter: string;
  readonly identity: string | null;
  readonly environment: Readonly<Record<string, string>>;
  /** For people only. */
  readonly next: string;
}

export async function main(line: CommandLine<FlagOf<'certs'>>, io: CertsIo): Promise<ExitStatus> {
  try {
    const options = optionsOf(line);
    const report = options.action === 'init' ? await init(options, io.env) : await issue(options, io.env);
    io.stdout.write(options.json ? jsonOf(report) : textOf(report));
    return 0;
  } catch (error) {
    if (!(error instanceof CertsError)) throw error;
    complain(io, 'sallyport certs', error);
    return 1;
  }
}

type Env = CertsIo['env'];

const issueFlags = ['service-account', 'namespace', 'dns', 'spiffe', 'name', 'control-plane-namespace'] as const;

interface Options {
  readonly action: 'init' | 'issue';
  readonly out: string;
  readonly trustDomain: string | null;
  readonly controlPlaneNamespace: string | null;
  readonly days: string | null;
  readonly dnsNames: readonly string[];
  readonly spiffeIds: readonly string[];
  readonly serviceAccount: string | null;
  readonly namespace: string | null;
  readonly name: string | null;
  readonly force: boolean;
  readonly json: boolean;
}

function optionsOf(line: CommandLine<FlagOf<'certs'>>): Options {
  const action = line.words[0] === 'init' ? 'init' : 'issue';
  const misplaced = action === 'init' ? issueFlags.find((flag) => line.has(flag)) : undefined;
  if (misplaced !== undefined) throw new UsageError('flags-conflict', `--${misplaced} belongs to issue`);
  return {
    action,
    out: line.value('out') ?? join('certs', 'dev'),
    trustDomain: line.value('trust-domain'),
    controlPlaneNamespace: line.value('control-plane-namespace'),
    days: line.value('days'),
    dnsNames: line.values('dns'),
    spiffeIds: line.values('spiffe'),
    serviceAccount: line.value('service-account'),
    namespace: line.value('namespace'),
    name: line.value('name'),
    force: line.has('force'),
    json: line.has('json'),
  };
}

async function init(options: Options, env: Env): Promise<Report> {
  const trustDomain = setting(options.trustDomain, env.SALLYPORT_TRUST_DOMAIN, 'cluster.local');
  // As Linkerd's own installation names its root.
  const authority = createAuthority({ commonName: `root.linkerd.${trustDomain}`, days: days(options.days, 365) });
  const written = await writePair(options, 'ca', authority);
  return {
    written,
    notAfter: new X509Certificate(authority.certificatePem).validToDate.toISOString(),
    identity: null,
    environment: { SALLYPORT_IDENTITY_TRUST_ANCHORS: resolve(options.out, 'ca.crt') },
    next: `Next: sallyport certs issue --out ${shellWord(options.out)} --service-account web --namespace ${shellWord(podNamespace(env))}`,
  };
}

/** Where the pod is said to be. */
function podNamespace(env: Env): string {
  return env.SALLYPORT_POD_NAMESPACE?.trim() || 'default';
}

async function issue(options: Options, env: Env): Promise<Report> {
  const dnsNames = [...workloadNames(options, env), ...options.dnsNames];
  const { spiffeIds } = options;
  if (spiffeIds.length > 1)
    throw new UsageError(
      'bad-certificate-name',
      'a certificate with two SPIFFE IDs has no identity',
      'give --spiffe once',
    );
  const first = dnsNames[0] ?? spiffeIds[0];
  if (first === undefined)
    throw new UsageError(
      'missing-argument',
      'a name is missing',
      '--service-account and --namespace, --dns or --spiffe',
    );
  const requested = days(options.days, 30);

  const authority = await readAuthority(options.out);
  const root = new X509Certificate(authority.certificatePem);
  const left = (root.validToDate.getTime() - Date.now()) / (24 * 60 * 60 * 1000);
  if (left <= 0) {
    throw new CertsError(
      'ca-expired',
      `${join(options.out, 'ca.crt')} expired on ${root.validToDate.toISOString()}: make a new one with sallyport certs init --force`,
    );
  }
  const certificate = issueCertificate(authority, { dnsNames, spiffeIds, days: Math.min(requested, left) });

  // The proxy's own reading decides what a name is, so nothing is issued that it would not recognise.
  const leaf = new X509Certificate(certificate.certificatePem);
  const recognised = dnsNamesOfCertificate(leaf.raw);
  const identity = identityFromCertificate(leaf.raw);
  const odd = dnsNames.find((name) => !recognised.includes(name.toLowerCase()));
  if (odd !== undefined)
    throw new UsageError('bad-certificate-name', `not a DNS name that can be an identity: ${JSON.stringify(odd)}`);
  if (identity === null)
    throw new UsageError('bad-certificate-name', `not a SPIFFE ID: ${JSON.stringify(spiffeIds[0])}`);

  const base = options.name ?? fileBase(identity.name);
  if (!/^[A-Za-z0-9_][A-Za-z0-9._-]*$/.test(base) || base === 'ca') {
    throw new UsageError(
      'bad-file-name',
      `--name ${JSON.stringify(base)} cannot name the files: letters, digits, '.', '_', '-', and not ca`,
    );
  }
  const [certFile, keyFile] = await writePair(options, base, certificate);
  const environment = {
    SALLYPORT_IDENTITY_CERT: resolve(certFile),
    SALLYPORT_IDENTITY_KEY: resolve(keyFile),
    SALLYPORT_IDENTITY_TRUST_ANCHORS: resolve(options.out, 'ca.crt'),
  };
  return {
    written: [certFile, keyFile],
    notAfter: leaf.validToDate.toISOString(),
    identity: identity.name,
    environment,
    next: tryLine(environment, recognised[0] ?? null, env),
  };
}

/**
 * A line that asks a proxy with this identity on this machine: by the name of the certificate, since TLS for any other name
 * does not end there.
 */
function tryLine(environment: Readonly<Record<string, string>>, name: string | null, env: Env): string {
  const [cert, key, ca] = Object.values(environment).map(shellWord);
  const port = /^\[?[^=]*?(\d+)=/.exec(env.SALLYPORT_INBOUND_PORTS ?? '')?.[1] ?? '8080';
  const line = (host: string): string =>
    `curl --cert ${cert} --key ${key} --cacert ${ca} --connect-to ::127.0.0.1:${port} https://${host}/`;
  if (name === null) {
    return `As a client, for NAME a DNS name of the server's certificate (this one has none):\n${line('NAME')}`;
  }
  return `Against a proxy with this identity on 127.0.0.1:${port}:\n${line(name)}`;
}

/** `<sa>.<ns>.serviceaccount.identity.<control-plane-ns>.<trust-domain>`, as Linkerd names a ServiceAccount. */
function workloadNames(options: Options, env: Env): string[] {
  const { serviceAccount: account, namespace } = options;
  if (account === null && namespace === null) return [];
  if (account === null) throw new UsageError('missing-argument', '--namespace needs --service-account');
  if (namespace === null) throw new UsageError('missing-argument', '--service-account needs --namespace');
  const plane = setting(options.controlPlaneNamespace, env.SALLYPORT_CONTROL_PLANE_NAMESPACE, 'linkerd');
  const trustDomain = setting(options.trustDomain, env.SALLYPORT_TRUST_DOMAIN, 'cluster.local');
  return [`${account}.${namespace}.serviceaccount.identity.${plane}.${trustDomain}`];
}

function setting(flag: string | null, variable: string | undefined, fallback: string): string {
  const value = flag ?? (variable === undefined || variable === '' ? fallback : variable);
  if (!/^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$/.test(value))
    throw new UsageError('bad-name', `not a DNS name: ${JSON.stringify(value)}`);
  return value;
}

/** Ten years at most: enough for any development, and within what every date format can say. */
function days(text: string | null, fallback: number): number {
  if (text === null) return fallback;
  const value = /^[0-9]{1,4}$/.test(text) ? Number(text) : 0;
  if (value < 1 || value > 3650)
    throw new UsageError('bad-count', `--days ${JSON.stringify(text)} is not a number from 1 to 3650`);
  return value;
}

/** `orders` from `orders.shop.…` and from `spiffe://…/sa/orders`. */
function fileBase(identity: string): string {
  const last = identity.startsWith('spiffe://') ? (identity.split('/').at(-1) ?? '') : (identity.split('.')[0] ?? '');
  return last === 'ca' ? 'workload-ca' : last;
}

async function readAuthority(folder: string): Promise<Authority> {
  const certFile = join(folder, 'ca.crt');
  const keyFile = join(folder, 'ca.key');
  const read = async (file: string): Promise<string> => {
    try {
      return await readFile(file, 'utf8');
    } catch (error) {
      throw new CertsError(
        'ca-absent',
        `${faultOf(file, error)}: make the CA with sallyport certs init --out ${shellWord(folder)}`,
      );
    }
  };
  const authority = { certificatePem: await read(certFile), keyPem: await read(keyFile) };
  try {
    // Signs nothing that is kept; finds out whether the two files are a CA of ours.
    issueCertificate(authority, { dnsNames: ['probe'], days: 1 });
  } catch (error) {
    throw new CertsError('ca-unusable', `${certFile} and ${keyFile} are no usable CA: ${(error as Error).message}`);
  }
  return authority;
}

/** Writes BASE.crt and BASE.key, or neither: the files that stand in the way are all named before anything is touched. */
async function writePair(
  options: Options,
  base: string,
  pair: { readonly certificatePem: string; readonly keyPem: string },
): Promise<[string, string]> {
  const certFile = join(options.out, `${base}.crt`);
  const keyFile = join(options.out, `${base}.key`);
  if (!options.force) {
    const existing: string[] = [];
    for (const file of [certFile, keyFile]) if (await exists(file)) existing.push(file);
    if (existing.length > 0)
      throw new CertsError('files-exist', `${existing.join(' and ')} exist: use --force to replace`);
  }
  const written: string[] = [];
  try {
    await makeFolder(options.out);
    for (const [file, content, mode] of [
      [keyFile, pair.keyPem, 0o600],
      [certFile, pair.certificatePem, 0o644],
    ] as const) {
      // Made anew rather than overwritten, so that the key never inherits a wider mode or follows a link.
      await rm(file, { force: true });
      written.push(file);
      await writeFile(file, content, { flag: 'wx', mode });
    }
  } catch (error) {
    // Half a file, or a key without its certificate, is of no use to anybody.
    for (const file of written) await rm(file, { force: true });
    throw new CertsError('not-written', `${faultOf(written.at(-1) ?? options.out, error)}: ${remedy(error)}`);
  }
  return [certFile, keyFile];
}

/**
 * As `mkdir -p`. Not Node's own recursion, which never ends where the system says ENOENT of a folder that is there, as
 * /proc does.
 */
async function makeFolder(folder: string): Promise<void> {
  if (await isFolder(folder)) return;
  const parent = dirname(folder);
  if (parent !== folder) await makeFolder(parent);
  try {
    await mkdir(folder);
  } catch (error) {
    // Somebody else has made it meanwhile.
    if (!(await isFolder(folder))) throw error;
  }
}

async function isFolder(path: string): Promise<boolean> {
  return stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  );
}

async function exists(file: string): Promise<boolean> {
  return stat(file).then(
    () => true,
    () => false,
  );
}

function faultOf(file: string, error: unknown): string {
  const { path = file } = error as NodeJS.ErrnoException;
  return `${path}: ${fileFault(path, error).why}`;
}

function remedy(error: unknown): string {
  const { code } = error as NodeJS.ErrnoException;
  if (code === 'ENOSPC') return 'make room there, or choose another place with --out';
  return 'choose a place that can be written with --out';
}

function textOf(report: Report): string {
  const lines = report.written.map((file) => `wrote ${file}`);
  if (report.identity !== null) lines.push(`identity ${report.identity}`);
  lines.push(`valid until ${report.notAfter}`, '');
  for (const [name, value] of Object.entries(report.environment)) lines.push(`${name}=${shellWord(value)}`);
  lines.push('', report.next);
  return `${lines.join('\n')}\n`;
}

function jsonOf({ written, notAfter, identity, environment }: Report): string {
  return `${JSON.stringify({ written, notAfter, identity, environment })}\n`;
}
