import { styleText } from 'node:util';
import { rangeText } from '../lib/analysis/describe.ts';
import type { QuestionSet } from '../lib/analysis/sets.ts';
import type { Workload } from '../lib/policy/workload.ts';
import { oneLine, wrapped } from '../lib/printable.ts';
import type { CommandLine } from './arguments.ts';
import { clientRows, outcomeText, requestRows, rowsOf } from './diff-text.ts';
import { explainCommandLine } from './explain-command.ts';
import { widthOf } from './help.ts';
import type { PodFlag } from './table/pod.ts';

export interface ShownGrants {
  readonly grants: readonly QuestionSet[];
  readonly unexamined: readonly string[];
  readonly paths: readonly string[];
  readonly line: CommandLine<PodFlag>;
  readonly workload: Workload;
  /** What stands in place of no grants. */
  readonly none: string;
}

export function grantsText(shown: ShownGrants, stream: NodeJS.WriteStream): string {
  const { grants, unexamined, paths, line, workload, none } = shown;
  const width = widthOf(stream);
  const row = rowsOf(width);
  const rows = grants.flatMap((set) => [
    styleText('bold', oneLine(set.outcomes.map(outcomeText).join()), { stream }),
    row('ports', set.ports.map(rangeText).join(', ')),
    ...clientRows(
      set.clients.map((each) => ({ ...each, who: each.who?.map((name) => accountText(name, workload)) ?? null })),
      row,
    ),
    ...requestRows(set.requests, row),
    oneLine(`  ${explainCommandLine(paths, line, { ...set.example, client: set.example.ip.text })}`),
    '',
  ]);
  for (const what of unexamined) rows.push(wrapped(oneLine(`not examined, so some may be missing: ${what}`), width, 2));
  return `${grants.length === 0 ? [...rows, none].join('\n') : rows.join('\n').trimEnd()}\n`;
}

/** `ServiceAccount shop/web` of the identity that it has. */
function accountText(name: string, workload: Workload): string {
  const account = accountOf(name, workload);
  return account === null ? name : `ServiceAccount ${account.namespace}/${account.name}`;
}

function accountOf(
  identity: string,
  { controlPlaneNamespace, trustDomain }: Workload,
): { readonly namespace: string; readonly name: string } | null {
  const suffix = `.serviceaccount.identity.${controlPlaneNamespace}.${trustDomain}`;
  const [name, namespace, ...rest] = identity.endsWith(suffix) ? identity.slice(0, -suffix.length).split('.') : [];
  if (name === undefined || namespace === undefined || rest.length > 0) return null;
  return /[* ]/.test(name) ? null : { namespace, name };
}

/** One set for programs. */
export function grantJson(
  { outcomes: [outcome], ports, clients, requests, example }: QuestionSet,
  paths: readonly string[],
  line: CommandLine<PodFlag>,
  workload: Workload,
): object {
  const { ip, ...question } = example;
  const asked = { ...question, client: ip.text };
  const serviceAccounts = clients.flatMap(({ who }) => (who ?? []).flatMap((name) => accountOf(name, workload) ?? []));
  return {
    authz: outcome?.authz ?? null,
    outcome,
    ports: ports.map(rangeText),
    clients,
    serviceAccounts,
    requests,
    example: { question: asked, explain: explainCommandLine(paths, line, asked) },
  };
}
