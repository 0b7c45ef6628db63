import { clashesOf, listenerOfOurs } from '../config/listeners.ts';
import { oneOf } from '../config/values.ts';
import { type VariableName, variables } from '../config/variables.ts';
import type { Complaint } from '../errors/complaint.ts';
import type { Coded } from '../errors/problems.ts';
import type { FieldPath } from '../policy/field-path.ts';
import type { WorkloadKind } from '../policy/workload-kinds.ts';
import { type PodNames, redirectPort } from './option-values.ts';
import { annotationOf, type Option, type OptionName, optionNames, options, type PodOptions } from './options.ts';
import { injectAnnotation } from './record.ts';

/** What holds for a whole run of `sallyport inject`. */
export interface InjectSettings {
  readonly version: string;
  /** The flags as they were given, for pods whose annotations (and whose Namespace's) say nothing. */
  readonly given: Readonly<Partial<Record<OptionName, string>>>;
  /** Kinds besides those that are known, whose pods are guarded too. */
  readonly kinds?: readonly WorkloadKind[];
  /** What becomes of pods of no known kind: they are refused where nothing is said. */
  readonly unknownPods?: 'refused' | 'left unguarded';
  /** For workloads that name none: whose Namespace document gives them annotations. */
  readonly namespace: string;
}

/** The user and group of the proxy, whom the redirect rules know it by. */
export const proxyUid = 2102;

/** A fault in a pod template; `path` leads to the field, from the template or, where it says so, from the workload. */
export type TemplateFault = Coded & {
  readonly from?: 'workload';
  readonly path: FieldPath;
  readonly message: string;
  readonly hint: string;
};

export type Annotations = Readonly<Record<string, unknown>>;

/** Longer than any sensible value; what is refused may be somebody's whole file. */
const longest = { value: 4096, shown: 200 } as const;

/** The one reader of an option's text, from wherever it comes: what it yields may be written into YAML. */
export function readOption<Name extends OptionName>(
  name: Name,
  given: unknown,
  pod: PodNames,
): { readonly value: PodOptions[Name] } | Complaint {
  return readText<PodOptions[Name]>(options[name] as Option<unknown> as Option<PodOptions[Name]>, given, pod);
}

function readText<T>(
  option: Pick<Option<T>, 'emptyIsList' | 'parse'>,
  given: unknown,
  pod: PodNames,
): { readonly value: T } | Complaint {
  const bad = (message: string, hint = ''): Complaint => ({ code: 'bad-text', message, hint });
  if (typeof given !== 'string') return bad('is no string', 'Kubernetes takes strings alone: quote it.');
  const text = given.trim();
  if (text.length > longest.value) return bad(`is longer than ${longest.value} characters`);
  if (/\p{Cc}/u.test(text)) return bad('has a line break or a control character in it');
  if (text === '' && !option.emptyIsList) return bad('is empty', 'Give it a value, or leave it out.');
  const read = option.parse(text, pod);
  if ('value' in read) return { value: read.value };
  const { code, fault, hint } = read;
  // What is wrong with it is said at the end.
  const message = fault.length > longest.shown ? `${fault.slice(0, longest.shown - 60)}…${fault.slice(-60)}` : fault;
  return { code, message, hint };
}

/** Why the listeners of one pod cannot have these ports; null where they can. */
export function sharedPort(chosen: Pick<PodOptions, 'admin-port' | 'health-port' | 'inbound-ports'>): Complaint | null {
  const inbound = variables.SALLYPORT_INBOUND_PORTS.parse(chosen['inbound-ports'] ?? '');
  const explicit = ('value' in inbound ? (inbound.value ?? []) : []).map((each) => ({ ...each, isExplicit: true }));
  const redirected = chosen['inbound-ports'] === null ? [redirectPort] : [];
  const others = [...redirected, chosen['admin-port'], chosen['health-port']];
  const listeners = [...others.map((port) => ({ listen: { host: null, port }, isExplicit: false })), ...explicit];
  const [clash] = clashesOf(listeners);
  if (clash !== undefined) {
    const message = `two listeners cannot share a port, as they would ${clash.late.listen.port}`;
    const hint = `Give each a port of its own; ${redirectPort} is that of redirected connections.`;
    return { code: 'listeners-clash', message, hint };
  }
  // Started before the app, the proxy has the port; and then it would be its own app.
  const here = { isRedirected: false, ips: [] };
  const { app } = explicit.find(({ app }) => listenerOfOurs(listeners, app, here) !== undefined) ?? {};
  if (app === undefined) return null;
  const message = `the app cannot listen on port ${app.port} of ${app.host}, where the proxy does`;
  return { code: 'own-app', message, hint: 'Let the app listen on another port, as by 8080=127.0.0.1:3000.' };
}

/**
 * The nearest statement wins: the pod's annotation, then its Namespace's, then the flag, which speaks for the whole
 * stream. What cannot be read is an error: with Linkerd a bad list is empty and a bad policy is the cluster's, and
 * either may open or close more than its author meant, with nobody watching.
 */
export function podOptions(
  { given }: InjectSettings,
  own: Annotations,
  ofNamespace: Annotations,
  pod: PodNames,
): { readonly options: PodOptions | null; readonly faults: readonly TemplateFault[] } {
  const faults: TemplateFault[] = [];
  const stated = Object.fromEntries(
    optionNames.map((name) => {
      const annotation = annotationOf(name);
      const from = nearest(annotation, own, ofNamespace);
      const text = from === undefined ? (given[name] ?? options[name].fallback) : from[annotation];
      if (text === null) return [name, null];
      const read = readOption(name, text, pod);
      if ('value' in read) return [name, read.value];
      faults.push(
        from === undefined
          ? unreadable(`--${name}`, ['metadata'], read)
          : unreadableAnnotation(annotation, from === own, read),
      );
      return [name, null];
    }),
  ) as unknown as PodOptions;
  if (faults.length > 0) return { options: null, faults };
  const shared = sharedPort(stated);
  const path = ['metadata', 'annotations'];
  return shared === null
    ? { options: stated, faults }
    : { options: null, faults: [{ ...shared, severity: 'error', code: 'port-in-use', path }] };
}

const wishes = { emptyIsList: false, parse: oneOf(['enabled', 'disabled']) };

/** Whether a pod is to be left out, by what stands nearest to it. A wish that cannot be read is nobody's wish. */
export function isLeftOut(own: Annotations, ofNamespace: Annotations): boolean | TemplateFault {
  const from = nearest(injectAnnotation, own, ofNamespace);
  if (from === undefined) return false;
  const read = readText(wishes, from[injectAnnotation], { serviceAccount: null, ports: new Map() });
  return 'value' in read ? read.value === 'disabled' : unreadableAnnotation(injectAnnotation, from === own, read);
}

function nearest(annotation: string, own: Annotations, ofNamespace: Annotations): Annotations | undefined {
  return [own, ofNamespace].find((each) => Object.hasOwn(each, annotation) && each[annotation] !== null);
}

function unreadableAnnotation(annotation: string, isOwn: boolean, read: Complaint): TemplateFault {
  return isOwn
    ? unreadable(annotation, ['metadata', 'annotations', annotation], read)
    : unreadable(`${annotation} of the Namespace`, ['metadata'], read);
}

function unreadable(whose: string, path: FieldPath, { message, hint }: Complaint): TemplateFault {
  return { severity: 'error', code: 'annotation', path, message: `${whose}: ${message}`, hint };
}

/** The options that the proxy has as variables, with their texts. */
export function statedVariables(stated: PodOptions): readonly (readonly [name: VariableName, text: string])[] {
  return optionNames.flatMap((name) => {
    const { variable } = options[name];
    const text = stated[name];
    return variable === null || text === null ? [] : [[variable, String(text)] as const];
  });
}
