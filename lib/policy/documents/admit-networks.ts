import { didYouMean } from '../nearest.ts';
import {
  type Cidr,
  contains,
  isMapped,
  type NetworkEntry,
  type NetworkSource,
  overlaps,
  parseCidr,
  podClusterIp,
  withoutHostBits,
} from '../networks.ts';
import { type AdmissionReport, type Path, pathText } from './report.ts';
import type { NetworkShape } from './shapes.ts';

function readSource(text: string, path: Path, report: AdmissionReport): NetworkSource | undefined {
  if (text === podClusterIp) return podClusterIp;
  const cidr = parseCidr(text);
  if (typeof cidr !== 'string') {
    warnOfNetwork(cidr, path, report);
    return cidr;
  }
  report.refuse(
    'cidr',
    path,
    `${cidr}`,
    didYouMean(text, [podClusterIp], 'Write it as 10.0.0.0/8, fd00::/8, or a bare address.'),
  );
  return undefined;
}

/** Said wherever a document names networks: what is no fault, and is hardly what was meant. */
export function warnOfNetwork(cidr: Cidr, path: Path, report: AdmissionReport): void {
  if (isMapped(cidr)) warnOfMapped(cidr, path, report);
  const network = withoutHostBits(cidr);
  if (network === null) return;
  const { text } = cidr;
  report.warn(
    'host-bits',
    path,
    `"${text}" is an address inside the network ${network}, and means all of that`,
    `Write ${network}, or ${text.split('/')[0]}/${cidr.family === 4 ? 32 : 128} for the one address.`,
  );
}

/** Nobody who writes this means nobody. */
function warnOfMapped({ text }: Cidr, path: Path, report: AdmissionReport): void {
  const plain = text.replace(/^.*:(?=\d+\.)/, '').replace(/\/(\d+)$/, (_, n) => `/${Math.max(0, Number(n) - 96)}`);
  report.warn(
    'mapped-network',
    path,
    `"${text}" holds no client: it is a block of IPv6, and clients over IPv4 are in none`,
    plain.includes(':') ? 'Write it as IPv4.' : `Write ${plain}.`,
  );
}

/**
 * Reads a list of networks with their exceptions. An item that has `except` alone subtracts from every network of the
 * list (Sallyport's extension). As Linkerd's admission, an exception must lie inside its network and leave something of it.
 */
export function readNetworks(shapes: readonly NetworkShape[], path: Path, report: AdmissionReport): NetworkEntry[] {
  const read = shapes.map(({ cidr, except }, i) => ({
    i,
    network: cidr === undefined ? null : readSource(cidr, [...path, i, 'cidr'], report),
    except: (except ?? []).flatMap((item, j) => {
      const source = readSource(item.cidr, [...path, i, 'except', j], report);
      return source === undefined ? [] : [{ source, path: [...path, i, 'except', j] }];
    }),
  }));
  const everywhere = read.filter(({ network }) => network === null).flatMap(({ except }) => except);
  const entries: NetworkEntry[] = [];
  for (const { i, network, except } of read) {
    if (network === null) {
      if (except.length === 0) {
        report.refuse('network-empty', [...path, i], `${pathText([...path, i])} has neither cidr nor except`);
      }
      continue;
    }
    if (network === undefined) continue;
    for (const { source, path: at } of except) checkException(source, network, at, report);
    entries.push({ network, except: [...except, ...everywhere].map(({ source }) => source) });
  }
  if (entries.length === 0 && everywhere.length > 0) {
    report.refuse('except-alone', path, 'the list has exceptions but no network to take them from');
  }
  for (const { source, path: at } of everywhere) {
    if (source === podClusterIp) continue;
    if (!entries.some(({ network }) => network === podClusterIp || overlaps(network, source))) {
      report.warn('except-outside', at, `exception ${source.text} is outside every network of the list`);
    }
  }
  return entries;
}

/** What depends on the pod's address is known only when the policy is compiled for a pod. */
function checkException(except: NetworkSource, network: NetworkSource, path: Path, report: AdmissionReport): void {
  if (network === podClusterIp || except === podClusterIp) {
    if (network === except) report.refuse('except-covers', path, 'the exception covers the whole of podClusterIp');
    return;
  }
  if (contains(except, network)) {
    report.refuse('except-covers', path, `exception ${except.text} covers the whole of ${network.text}`);
  } else if (!contains(network, except)) {
    report.refuse('except-outside', path, `exception ${except.text} is outside ${network.text}`, insideHint(network));
  }
}

function insideHint(network: Cidr): string {
  return `An exception must lie inside ${network.text}.`;
}
