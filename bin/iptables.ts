import { type Parser, type PortRange, portNumber, portRanges } from '../lib/config/values.ts';
import { complaintText } from '../lib/errors/complaint.ts';
import type { ExitStatus } from '../lib/errors/exits.ts';
import { type Applied, applyRules, removeRules } from '../lib/redirect/apply.ts';
import type { BackendName } from '../lib/redirect/backend.ts';
import { type Family, includesPort, isEveryPort, mergeRanges, subnets } from '../lib/redirect/exemptions.ts';
import { thisMachine } from '../lib/redirect/machine.ts';
import { RedirectError } from '../lib/redirect/redirect-error.ts';
import { nothing, printedRules, type RedirectOptions, redirectRules, restoreInput } from '../lib/redirect/rules.ts';
import { type CommandLine, complain, type FlagOf, type Io, type Main, UsageError } from './arguments.ts';

type Flag = FlagOf<'iptables'>;
type IptablesLine = CommandLine<Flag>;

export const main: Main<'iptables'> = async (line, io) => {
  if (line.has('print') && line.has('apply'))
    throw new UsageError('flags-conflict', '--print and --apply exclude each other');
  if (line.has('ipv6') && line.has('ipv4-only'))
    throw new UsageError('flags-conflict', '--ipv6 and --ipv4-only exclude each other');
  const options = readOptions(line);
  const backend = readBackend(line);
  return line.has('apply') ? apply(line, options, backend, io) : print(line, options, io);
};

function readOptions(line: IptablesLine): RedirectOptions {
  const inboundPort = port(line, 'inbound-port', 4143);
  const skipped = value(line, 'skip-inbound-ports', portRanges) ?? [];
  const answering = [portOrOff(line, 'admin-port', 4191), portOrOff(line, 'health-port', 4192)];
  const exemptPorts: PortRange[] = mergeRanges([
    ...skipped,
    ...answering.flatMap((own) => (own === null ? [] : [{ first: own, last: own }])),
  ]);
  if (includesPort(exemptPorts, inboundPort)) {
    throw new UsageError(
      'reserved-port',
      `${inboundPort} is the inbound port and cannot be left alone as well`,
      'choose another --inbound-port, or take it from the other flags',
    );
  }
  if (isEveryPort(skipped, inboundPort)) {
    throw new UsageError(
      'every-port',
      `--skip-inbound-ports: every port but ${inboundPort} is left alone`,
      'leave the rules out where nothing shall be guarded',
    );
  }
  const uid = line.value('proxy-uid') ?? '2102';
  if (!/^\d{1,10}$/.test(uid) || Number(uid) >= 2 ** 32 - 1) {
    throw new UsageError(
      'bad-user-id',
      `--proxy-uid: ${JSON.stringify(uid)} is not a user id`,
      'write a number, such as 2102',
    );
  }
  return {
    inboundPort,
    exemptPorts,
    exemptSources: value(line, 'skip-subnets', subnets) ?? [],
    proxyUid: Number(uid),
    ownAddress: line.has('own-address'),
  };
}

function value<T>(line: IptablesLine, flag: Flag, parse: Parser<T>): T | null {
  const given = line.value(flag);
  if (given === null) return null;
  const parsed = parse(given);
  if ('fault' in parsed) throw new UsageError(parsed.code, `--${flag}: ${parsed.fault}`, parsed.hint);
  return parsed.value;
}

function port(line: IptablesLine, flag: Flag, otherwise: number): number {
  const given = line.value(flag);
  const read = given === null ? otherwise : portNumber(given);
  if (read === undefined)
    throw new UsageError('bad-port', `--${flag}: ${JSON.stringify(given)} is not a port`, 'write 1 to 65535');
  return read;
}

function portOrOff(line: IptablesLine, flag: Flag, otherwise: number): number | null {
  return line.value(flag) === 'off' ? null : port(line, flag, otherwise);
}

function readBackend(line: IptablesLine): BackendName | undefined {
  const given = line.value('backend');
  if (given === null || given === 'nft' || given === 'legacy') return given ?? undefined;
  throw new UsageError('bad-choice', `--backend: ${JSON.stringify(given)} is not known`, 'one of nft, legacy');
}

function print(line: IptablesLine, options: RedirectOptions, io: Io): ExitStatus {
  const families: readonly Family[] = line.has('ipv6') ? [4, 6] : [4];
  const input = line.has('remove')
    ? (restoreInput(redirectRules(options, 4), nothing) ?? '')
    : printedRules(options, families);
  io.stdout.write(line.has('json') ? `${JSON.stringify({ families: families.map(shown), input })}\n` : input);
  return 0;
}

function apply(line: IptablesLine, options: RedirectOptions, backend: BackendName | undefined, io: Io): ExitStatus {
  const remove = line.has('remove');
  const ipv6 = line.has('ipv6') ? 'guard' : line.has('ipv4-only') ? 'leave open' : 'refuse';
  let applied: Applied;
  try {
    applied = remove
      ? removeRules(thisMachine, backend)
      : applyRules(thisMachine, { backend, ipv6, wanted: (family) => redirectRules(options, family) });
  } catch (error) {
    if (!(error instanceof RedirectError)) throw error;
    complain(io, 'sallyport iptables', error);
    return 1;
  }
  const { notes } = applied;
  if (line.has('json')) {
    const { changed, families } = applied;
    io.stdout.write(
      `${JSON.stringify({ changed, backend: applied.backend, families: families.map(shown), notes: notes.map(complaintText) })}\n`,
    );
  } else {
    for (const note of notes) complain(io, 'sallyport iptables', note);
    io.stdout.write(`${summary(applied, remove)}\n`);
  }
  return 0;
}

function summary({ backend, changed, families }: Applied, remove: boolean): string {
  if (remove) return changed ? `rules removed (${backend})` : 'there were no rules of ours';
  const which = `${families.map(shown).join(' and ')}, ${backend}`;
  return changed ? `rules in force (${which})` : `rules were in force already (${which})`;
}

function shown(family: Family): string {
  return `ipv${family}`;
}
