import { oneLine } from '../lib/printable.ts';
import type { CommandLine } from './arguments.ts';
import { shellWord } from './shell-word.ts';
import { type PodFlag, podFlagRows } from './table/pod.ts';

/** A question by its fields; null and undefined are not asked. */
export interface ShownQuestion {
  readonly port?: unknown;
  readonly client?: unknown;
  readonly identity?: unknown;
  readonly tls?: unknown;
  readonly protocol?: unknown;
  readonly method?: unknown;
  readonly path?: unknown;
  readonly host?: unknown;
  readonly headers?: readonly (readonly [name: string, value: string])[];
}

/** The command that explains one question, with the policy and the facts of the pod that the user's own command was given. */
export function explainCommandLine(
  paths: readonly string[],
  line: CommandLine<PodFlag>,
  { headers = [], ...question }: ShownQuestion,
): string {
  const { port, client, identity, tls, protocol, method, path, host } = question;
  const podFlags = (Object.keys(podFlagRows) as PodFlag[]).flatMap((flag) =>
    line.values(flag).map((value) => [flag, value] as const),
  );
  const asked: (readonly [string, unknown])[] = [
    ...paths.map((policy) => ['policy', policy] as const),
    ...podFlags,
    ...Object.entries({ port, client, identity }),
    ['tls', tls === 'none' ? undefined : tls],
    ['protocol', protocol === 'http1' ? undefined : protocol],
    ['method', method === 'GET' ? undefined : method],
    ...Object.entries({ path, host }),
    ...headers.map(([name, value]) => ['header', `${name}: ${value}`] as const),
  ];
  const words = asked.flatMap(([flag, value]) => {
    if (value === undefined || value === null) return [];
    const text = String(value);
    return [`--${flag}${text.startsWith('-') ? '=' : ' '}${shellWord(text)}`];
  });
  return oneLine(`sallyport explain ${words.join(' ')}`);
}
