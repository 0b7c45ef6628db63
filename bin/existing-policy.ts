import { readFileSync } from 'node:fs';
import { fileFault } from '../lib/config/file-fault.ts';
import type { HttpRouteDocument, PolicyDocument } from '../lib/policy/documents/types.ts';
import { type Labels, selects } from '../lib/policy/selectors.ts';
import type { Workload } from '../lib/policy/workload.ts';
import { loadPolicyNow } from '../lib/reload/load.ts';
import type { Existing } from '../lib/suggest/merge.ts';
import { type Io, UsageError } from './arguments.ts';
import { problemText } from './problem-text.ts';

/** Null, with the problems printed, where it cannot be read: nothing is added to what nobody can read. */
export function existingPolicy(
  path: string,
  workload: Workload,
  io: Io,
): (Existing & { readonly text: string }) | null {
  const load = loadPolicyNow({ paths: [path], namespace: workload.namespace });
  for (const problem of load.problems) io.stderr.write(`${problemText(problem, io.stderr)}\n`);
  if (load.problems.some(({ severity }) => severity === 'error')) return null;
  const text = textOf(path);
  const ended = text === '' || text.endsWith('\n') ? text : `${text}\n`;
  // What is in other namespaces has no say here.
  const own = load.documents.filter(({ namespace }) => namespace === workload.namespace);
  const servers = new Map(own.flatMap((each) => (each.kind === 'Server' ? [[each.name, new Map(each.labels)]] : [])));
  return {
    text,
    names: load.documents.flatMap((document) => [document.name, ...namesIn(document)]),
    isOpenTo: ({ name }) => own.some((document) => opens(document, name, servers.get(name) ?? new Map())),
    matchesOf: ({ name }) =>
      own
        .filter((each): each is HttpRouteDocument => each.kind === 'HTTPRoute')
        .filter(({ spec }) => spec.parents.some((parent) => parent.name === name))
        .flatMap(({ spec }) => spec.rules.flatMap(({ matches }) => matches)),
    with: (added) => (added === '' ? text : `${ended}---\n${added}`),
  };
}

/** What it would be about as soon as there was something of that name. */
function namesIn(document: PolicyDocument): readonly string[] {
  switch (document.kind) {
    case 'AuthorizationPolicy': {
      const { target, required } = document.spec;
      return [...('name' in target ? [target.name] : []), ...required.map(({ name }) => name)];
    }
    case 'ServerAuthorization':
      return 'name' in document.spec.server ? [document.spec.server.name] : [];
    case 'HTTPRoute':
    case 'GRPCRoute':
      return document.spec.parents.map(({ name }) => name);
    case 'HTTPLocalRateLimitPolicy':
      return [document.spec.server];
    default:
      return [];
  }
}

/** Whether it authorizes somebody for all of the Server. */
function opens(document: PolicyDocument, name: string, labels: Labels): boolean {
  switch (document.kind) {
    case 'AuthorizationPolicy': {
      const { target } = document.spec;
      return target.kind === 'namespace' || (target.kind === 'server' && target.name === name);
    }
    case 'ServerAuthorization': {
      const { server } = document.spec;
      return 'name' in server ? server.name === name : selects(server.selector, labels);
    }
    case 'Server':
      return document.name === name && document.spec.accessPolicy !== 'deny';
    default:
      return false;
  }
}

/** @throws UsageError */
function textOf(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    const { why, remedy } = fileFault(path, error);
    throw new UsageError('requests-unreadable', `--merge: ${path} cannot be read: ${why}`, remedy);
  }
}
