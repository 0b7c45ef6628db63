import { readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { dnsName } from '../lib/config/values.ts';
import { type InjectResult, inject, type ManifestText, uninject } from '../lib/deploy/inject.ts';
import { podMonitor, policyConfigMap } from '../lib/deploy/manifests.ts';
import { type OptionName, optionNames, options } from '../lib/deploy/options.ts';
import { type InjectSettings, readOption, sharedPort } from '../lib/deploy/settings.ts';
import type { ExitStatus } from '../lib/errors/exits.ts';
import { withRemedy } from '../lib/errors/problems.ts';
import { readWorkloadKind, type WorkloadKind } from '../lib/policy/workload-kinds.ts';
import { jsonText, oneLine } from '../lib/printable.ts';
import type { Problem } from '../lib/problem.ts';
import { loadPolicyNow } from '../lib/reload/load.ts';
import { readPolicyFiles, unreadable as unreadableFile } from '../lib/reload/policy-files.ts';
import { type CommandLine, complain, type FlagOf, type Io, type Main, UsageError } from './arguments.ts';
import { problemText } from './problem-text.ts';
import { standardInput } from './standard-input.ts';
import { commandTable } from './table/table.ts';
import { version } from './version.ts';

type Flag = FlagOf<'inject'>;
type InjectLine = CommandLine<Flag>;

/** What each way of using the command takes; anything else on its line was meant for another. */
const modes = [
  { flag: 'print-policy-configmap', takes: ['name', 'namespace', 'json'], files: false, run: printConfigMap },
  { flag: 'print-pod-monitor', takes: ['name', 'namespace'], files: false, run: printPodMonitor },
  { flag: 'uninject', takes: ['namespace', 'json', 'pod-template', 'allow-unguarded'], files: true, run: edit },
] as const;

export const main: Main<'inject'> = async (line, io) => {
  const mode = modes.find(({ flag }) => line.has(flag));
  for (const flag of Object.keys(commandTable.inject.flags) as Flag[]) {
    if (!line.has(flag) || flag === mode?.flag) continue;
    const fits = mode === undefined ? flag !== 'name' : (mode.takes as readonly Flag[]).includes(flag);
    if (!fits)
      throw new UsageError(
        'flags-conflict',
        `--${flag} has no meaning ${mode === undefined ? 'here' : `with --${mode.flag}`}`,
      );
  }
  const [stray] = line.words;
  if (mode?.files === false && stray !== undefined)
    throw new UsageError('unexpected-argument', `${stray}: --${mode.flag} takes no files`);
  return (mode?.run ?? edit)(line, io);
};

async function edit(line: InjectLine, io: Io): Promise<ExitStatus> {
  const settings = readSettings(line);
  if (line.words.length === 0) {
    throw new UsageError('missing-argument', 'nothing to inject', 'name a file, or - for standard input');
  }
  const { sources, unreadable } = await readSources(line.words, io);
  const result: InjectResult =
    unreadable.length > 0
      ? { texts: [], workloads: [], problems: unreadable }
      : line.has('uninject')
        ? uninject(sources, settings)
        : inject(sources, settings);
  const { workloads, problems } = result;
  const ok = report(line, io, problems, { workloads });
  if (!line.has('json')) {
    for (const { kind, namespace, name, file, line: at, outcome, detail } of workloads) {
      const said = `${file}:${at}: ${kind} ${namespace}/${name}: ${outcome}${detail === '' ? '' : `: ${detail}`}`;
      io.stderr.write(`${oneLine(said)}\n`);
    }
    if (ok && workloads.length === 0) {
      complain(io, 'warning', {
        code: 'no-workload',
        message: 'no workload was found; the text is as it was',
        hint: '',
      });
    }
    if (!ok) io.stderr.write('nothing is printed because of the errors\n');
  }
  if (ok) io.stdout.write(joined(result.texts));
  return ok ? 0 : 1;
}

async function printConfigMap(line: InjectLine, io: Io): Promise<ExitStatus> {
  const folder = line.value('print-policy-configmap') as string;
  const namespace = named(line, 'namespace');
  const { problems } = loadPolicyNow({ paths: [folder], namespace: namespace ?? 'default' });
  const files = readPolicyFiles(folder).texts.map(({ file, text }) => ({ file, name: basename(file), text }));
  const made = policyConfigMap({ name: named(line, 'name') ?? 'sallyport-policy', namespace }, files);
  const ok = report(line, io, 'problem' in made ? [...problems, made.problem] : problems);
  if (!ok || 'problem' in made) return 1;
  io.stdout.write(made.yaml);
  return 0;
}

async function printPodMonitor(line: InjectLine, io: Io): Promise<ExitStatus> {
  io.stdout.write(podMonitor({ name: named(line, 'name') ?? 'sallyport', namespace: named(line, 'namespace') }));
  return 0;
}

/** Problems to standard error; standard output is for the YAML alone. Whether there is no error among them. */
function report(line: InjectLine, io: Io, found: readonly Problem[], more: object = {}): boolean {
  const problems = found.map(withRemedy);
  const ok = !problems.some(({ severity }) => severity === 'error');
  if (line.has('json')) io.stderr.write(`${jsonText({ ok, ...more, problems }, 2)}\n`);
  else for (const problem of problems) io.stderr.write(`${problemText(problem, io.stderr)}\n`);
  return ok;
}

/** No pod is known yet: names of ports are none here, and any ServiceAccount may stand for `{serviceaccount}`. */
const nobody = { serviceAccount: null, ports: new Map<string, readonly number[]>() };

function readSettings(line: InjectLine): InjectSettings {
  const given: Partial<Record<OptionName, string>> = {};
  const ports = { 'admin-port': 0, 'health-port': 0 };
  for (const name of optionNames) {
    const text = options[name].value === null ? (line.has(name) ? 'true' : null) : line.value(name);
    if (text !== null) given[name] = text;
    const held = text ?? options[name].fallback;
    if (held === null) continue;
    const read = readOption(name, held, nobody);
    if ('message' in read) throw new UsageError(read.code, `--${name}: ${read.message}`, read.hint);
    if (name in ports) ports[name as keyof typeof ports] = Number(read.value);
  }
  const shared = sharedPort({ ...ports, 'inbound-ports': given['inbound-ports'] ?? null });
  if (shared !== null) throw new UsageError(shared.code, shared.message, shared.hint);
  return {
    version: version(),
    given,
    namespace: named(line, 'namespace') ?? 'default',
    kinds: line.values('pod-template').map(ownKind),
    unknownPods: line.has('allow-unguarded') ? 'left unguarded' : 'refused',
  };
}

/** `Widget.example.com=spec.template`; of the core group, `Widget=spec.template`. */
function ownKind(text: string): WorkloadKind {
  const read = readWorkloadKind(text);
  if (read !== null) return read;
  throw new UsageError(
    'bad-text',
    `--pod-template: ${JSON.stringify(text)} is no kind with the path of its pod template`,
    'write KIND.GROUP=PATH, such as Widget.example.com=spec.template',
  );
}

function named(line: InjectLine, flag: Flag): string | null {
  const given = line.value(flag);
  if (given === null) return null;
  const read = dnsName(given);
  if ('fault' in read) throw new UsageError(read.code, `--${flag}: ${read.fault}`, read.hint);
  return read.value;
}

async function readSources(
  names: readonly string[],
  io: Io,
): Promise<{ readonly sources: readonly ManifestText[]; readonly unreadable: readonly Problem[] }> {
  const sources: ManifestText[] = [];
  const unreadable: Problem[] = [];
  for (const name of names) {
    const file = name === '-' ? 'stdin' : name;
    try {
      const bytes = name === '-' ? await standardInput(io) : readFileSync(name);
      // A byte order mark is kept, as all of the text is.
      const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
      sources.push({ file, text: decoder.decode(bytes) });
    } catch (error) {
      unreadable.push(unreadableFile(file, error, 'Check the path.'));
    }
  }
  return { sources, unreadable };
}

/** One file is printed as it is; several become the documents of one stream. */
function joined(texts: readonly string[]): string {
  return texts.reduce((stream, text) => {
    const lineEnd = stream.endsWith('\n') ? '' : '\n';
    return `${stream}${lineEnd}${text.startsWith('---') ? '' : '---\n'}${text}`;
  });
}
