import { styleText } from 'node:util';
import { type ChangeKind, changeKinds, type PolicyChange } from '../lib/analysis/compare.ts';
import { type ClientsText, type RequestsText, rangeText } from '../lib/analysis/describe.ts';
import type { Answered } from '../lib/analysis/outcome.ts';
import { oneLine, wrapped } from '../lib/printable.ts';
import { refText } from '../lib/resource-ref.ts';
import type { CommandLine } from './arguments.ts';
import { explainCommandLine } from './explain-command.ts';
import { widthOf } from './help.ts';
import type { PodFlag } from './table/pod.ts';

type Paint = (format: Parameters<typeof styleText>[0], text: string) => string;

const titles: Readonly<Record<ChangeKind, string>> = {
  allowed: 'newly allowed',
  refused: 'newly refused',
  otherwise: 'answered otherwise',
  moved: 'the same, by another authorization',
};
const colors = { allowed: 'red', refused: 'yellow', otherwise: 'cyan', moved: 'dim' } as const;

/** Items of one list that are shown. */
const mostShown = 8;

export function changesText(
  changes: readonly PolicyChange[],
  unexamined: readonly string[],
  policies: readonly [before: string, after: string],
  line: CommandLine<PodFlag>,
  stream: NodeJS.WriteStream,
): string {
  const paint: Paint = (format, text) => styleText(format, text, { stream });
  const width = widthOf(stream);
  const rows: string[] = [];
  for (const kind of changeKinds) {
    const alike = changes.filter((change) => change.kind === kind);
    if (alike.length === 0) continue;
    rows.push(paint(['bold', colors[kind]], titles[kind]));
    for (const change of alike) rows.push(...changeRows(change, policies, line, width), '');
  }
  for (const what of unexamined)
    rows.push(wrapped(oneLine(`not examined, so differences may be missing: ${what}`), width, 2));
  const counts = changeKinds.flatMap((kind) => {
    const count = changes.filter((change) => change.kind === kind).length;
    return count === 0 ? [] : [`${count} ${titles[kind]}`];
  });
  return `${[...rows, counts.join('; ')].join('\n')}\n`;
}

function changeRows(
  { ports, clients, requests, before, after, example }: PolicyChange,
  [, policy]: readonly [string, string],
  line: CommandLine<PodFlag>,
  width: number,
): string[] {
  const row = rowsOf(width);
  return [
    row('ports', listed(ports.map(rangeText))),
    ...clientRows(clients, row),
    ...requestRows(requests, row),
    row('before', outcomeText(before)),
    row('after', outcomeText(after)),
    oneLine(`  ${explainCommandLine([policy], line, { ...example, client: example.ip.text })}`),
  ];
}

type Row = (name: string, text: string) => string;

/** A name, and its text beside it in as many lines as it takes. */
export function rowsOf(width: number): Row {
  const indent = 12;
  return (name, text) => {
    const lines = wrapped(`${' '.repeat(indent)}${oneLine(text)}`, width, indent);
    return `  ${name.padEnd(indent - 2)}${lines.slice(indent)}`;
  };
}

function more(count: number, row: Row): string[] {
  return count > mostShown ? [row('', `and ${count - mostShown} more`)] : [];
}

function listed(items: readonly string[]): string {
  const shown = items.slice(0, mostShown).join(', ');
  return items.length > mostShown ? `${shown} and ${items.length - mostShown} more` : shown;
}

function clientText({ who, from, protocols }: ClientsText): string {
  const names = who === null ? 'anybody' : listed(who);
  const by = protocolText(protocols);
  const all = `${names}${by === '' ? '' : `, by ${by},`}`;
  if (from === null) return all.replace(/,$/, '');
  return 'only' in from ? `${all} from ${listed(from.only)}` : `${all} from anywhere but ${listed(from.but)}`;
}

export function clientRows(clients: readonly ClientsText[], row: Row): string[] {
  return [
    ...clients.slice(0, mostShown).map((each, i) => row(i === 0 ? 'clients' : '', clientText(each))),
    ...more(clients.length, row),
  ];
}

export function requestRows(requests: readonly RequestsText[] | null, row: Row): string[] {
  if (requests === null) return [row('carries', 'what is not read as requests')];
  return [
    ...requests.slice(0, mostShown).map((each, i) => row(i === 0 ? 'requests' : '', requestText(each))),
    ...more(requests.length, row),
  ];
}

function protocolText(protocols: readonly string[]): string {
  const all = ['http1', 'http2', 'grpc'];
  if (protocols.length === 3 && all.every((name) => protocols.includes(name))) return '';
  const names: Readonly<Record<string, string>> = {
    http1: 'HTTP/1',
    http2: 'HTTP/2',
    grpc: 'gRPC',
    tcp: 'bytes',
    connect: 'nothing (a TCP probe)',
  };
  return protocols.map((name) => names[name] ?? name).join(', ');
}

function requestText({ hosts, paths, conditions }: RequestsText): string {
  const [method, ...others] =
    conditions[0] !== undefined && /^[A-Z]/.test(conditions[0]) ? conditions : ['', ...conditions];
  const where = paths === null ? (method === '' ? 'any request' : 'any path') : listed(paths);
  return [method, where, hosts === null ? '' : `at ${listed(hosts)}`, others.join(', ')]
    .filter((text) => text !== '' && text !== undefined)
    .join(' ');
}

export function outcomeText({ verdict, tcp, audit, authz, effects, status, closedBy }: Answered): string {
  const by = authz === null ? '' : ` by ${refText(authz)}`;
  const audited = audit ? ' (audit)' : '';
  const more = effects.length === 0 ? '' : `, ${effects.join(', ')}`;
  if (verdict === 'permit')
    return `allowed${audited}${tcp === null ? '' : tcp === 'forward' ? ' as bytes' : ' as a probe'}${by}${more}`;
  const closed = closedBy.length === 0 ? '' : ` by ${closedBy.map(refText).join(', ')}`;
  if (verdict === 'redirect') return `redirected${by}${more}`;
  return `${verdict} (${status === 'close' ? 'closed' : status})${closed}`;
}

/** One change for programs. */
export function changeJson(
  { kind, before, after, ports, clients, requests, example }: PolicyChange,
  old: readonly string[],
  fresh: readonly string[],
  line: CommandLine<PodFlag>,
): object {
  const { ip, ...question } = example;
  const asked = { ...question, client: ip.text };
  return {
    kind,
    ports: ports.map(rangeText),
    clients,
    requests,
    before,
    after,
    example: {
      question: asked,
      explainBefore: explainCommandLine(old, line, asked),
      explainAfter: explainCommandLine(fresh, line, asked),
    },
  };
}
