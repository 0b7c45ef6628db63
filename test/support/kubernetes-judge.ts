import { parse } from 'yaml';
import { podTemplates } from '../../lib/deploy/pod-template.ts';
import type { Answer, Kubernetes } from './kubernetes.ts';

/** What was sent to the API server, and what became of it. */
export interface Judged {
  readonly sent: unknown;
  readonly answer: Answer;
}

/** Each object of a stream, and each pod that a controller would make of it. */
export async function judged(cluster: Kubernetes, text: string, namespace = 'web'): Promise<readonly Judged[]> {
  const found: Judged[] = [];
  for (const document of objectsOf(text)) {
    found.push({ sent: parse(document), answer: await cluster.create(document, namespace, true) });
    const value = parse(document);
    for (const { pod, path } of podTemplates(value).templates) {
      if (path.length === 0) continue;
      const made = madeOf(pod, value);
      found.push({ sent: made, answer: await cluster.create(JSON.stringify(made), namespace, true) });
    }
  }
  return found;
}

/** As kubectl sends them: one at a time, and a List as its items. */
function objectsOf(text: string): string[] {
  if (text.startsWith('{')) return [text];
  return text.split(/^---\n/m).flatMap((document) => {
    const { kind, items } = parse(document) as { kind: string; items?: unknown[] };
    return kind === 'List' ? (items ?? []).map((item) => JSON.stringify(item)) : [document];
  });
}

function madeOf(
  template: object,
  owner: { spec?: { volumeClaimTemplates?: { metadata: { name: string } }[] } },
): object {
  const { metadata, spec } = structuredClone(template) as { metadata?: object; spec: { volumes?: object[] | null } };
  const claims = (owner.spec?.volumeClaimTemplates ?? []).map(({ metadata: { name } }) => ({
    name,
    persistentVolumeClaim: { claimName: `${name}-web-0` },
  }));
  spec.volumes = [...(spec.volumes ?? []), ...claims];
  return { apiVersion: 'v1', kind: 'Pod', metadata: { ...metadata, generateName: 'web-' }, spec };
}

export function refusals(all: readonly Judged[]): string[] {
  return all.flatMap(({ answer: { status, body } }) => (status === 201 ? [] : [`${status} ${String(body.message)}`]));
}

export function warningsOf(all: readonly Judged[]): string[] {
  return all.flatMap(({ answer }) => answer.warnings).map((warning) => warning.replaceAll(/spec\.\S*?:/g, ''));
}

/** The places of what was sent that are not there, or say something else, in what is stored. */
export function lost(sent: unknown, stored: unknown, at = ''): string[] {
  if (sent === null || sent === undefined) return [];
  if (Array.isArray(sent)) {
    // What the server appends (tolerations, volumes of its own) stands behind.
    return sent.flatMap((item, index) => lost(item, (stored as unknown[] | undefined)?.[index], `${at}[${index}]`));
  }
  if (typeof sent === 'object') {
    if (Object.keys(sent).length === 0) return [];
    return Object.entries(sent).flatMap(([key, value]) =>
      lost(value, (stored as Record<string, unknown> | undefined)?.[key], `${at}.${key}`),
    );
  }
  return sent === stored || amount(sent) === amount(stored) ? [] : [`${at}: ${String(sent)} is ${String(stored)}`];
}

/** Quantities are stored in one spelling. */
function amount(value: unknown): unknown {
  return typeof value === 'string' && /^0?\.5$/.test(value) ? '500m' : value;
}
