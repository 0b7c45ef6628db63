import { list, oneOf, type Parsed, type Parser, portNumber } from '../config/values.ts';
import { type VariableName, variables } from '../config/variables.ts';
import { parsePortRanges, portRangeText } from '../policy/workload.ts';
import { isEveryPort, subnets } from '../redirect/exemptions.ts';

/** Where redirected connections arrive; fixed, as Linkerd's is. */
export const redirectPort = 4143;

/** What the text of an option may refer to, of the pod for which it is read. */
export interface PodNames {
  /** Null for a flag, which is read before any pod is. */
  readonly serviceAccount: string | null;
  readonly ports: ReadonlyMap<string, readonly number[]>;
}

/** Reads text that has been trimmed, is not too long and has no control characters. */
export type OptionParser<T> = (text: string, pod: PodNames) => Parsed<T>;

const quote = (text: string): string => JSON.stringify(text);

/** The very text that the variable will have: what its own parser takes, after `rewrite`. */
export function variableText(
  name: VariableName,
  rewrite: (text: string, pod: PodNames) => string = (text) => text,
): OptionParser<string> {
  return (given, pod) => {
    const value = rewrite(given, pod);
    const parsed = variables[name].parse(value);
    return 'fault' in parsed ? parsed : { value };
  };
}

export const image: OptionParser<string> = (value) =>
  /^[\w][\w.\-/:@]{0,1023}$/.test(value)
    ? { value }
    : {
        code: 'bad-image',
        fault: `${quote(value)} names no image`,
        hint: 'write a reference such as registry.example.com/sallyport:1.2.3',
      };

export const pullPolicy: OptionParser<string> = oneOf(['Always', 'IfNotPresent', 'Never']);

/** RFC 1123's subdomain, as Kubernetes names objects: stricter than what may be a name in a certificate. */
const kubernetesName: Parser<string> = (given) =>
  given.length <= 253 && /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/.test(given)
    ? { value: given }
    : {
        code: 'bad-name',
        fault: `${quote(given)} is not a DNS name`,
        hint: 'use lower-case letters, digits, "-" and ".", at most 253 in all',
      };

export const names: OptionParser<readonly string[]> = list(kubernetesName);

const placeholder = '{serviceaccount}';

/** The name of a ConfigMap or Secret, which may have the pod's ServiceAccount in it. */
export const objectName: OptionParser<string> = (given, { serviceAccount }) => {
  // Not by a text to replace it with: `$&` in that would be the placeholder again.
  const read = kubernetesName(given.replaceAll(placeholder, () => serviceAccount ?? 'default'));
  return 'fault' in read ? { ...read, hint: `${read.hint}; ${placeholder} stands for the pod's ServiceAccount` } : read;
};

export const port: OptionParser<number> = (given) => {
  const value = portNumber(given);
  return value === undefined
    ? { code: 'bad-port', fault: `${quote(given)} is not a port`, hint: 'write a number from 1 to 65535' }
    : { value };
};

/** Numbers, ranges, and names of the pod's ports, which become their numbers as with Linkerd's injector. */
export function ports(skipped: boolean): OptionParser<string> {
  return (given, pod) => {
    const { text, fault, code } = readPorts(numbered(given, pod), skipped);
    const known = pod.ports.size === 0 ? '' : `; the pod has ${[...pod.ports.keys()].join(', ')}`;
    return fault === null
      ? { value: text }
      : { code, fault, hint: `write ports and ranges, such as 25,9000-9100${known}` };
  };
}

/** A list of ports in one spelling; those to be skipped also as the redirect step will judge them. */
function readPorts(
  text: string,
  skipped: boolean,
): {
  readonly text: string;
  readonly fault: string | null;
  readonly code: 'bad-ports' | 'reserved-port' | 'every-port';
} {
  const { ranges, fault } = parsePortRanges(text);
  if (skipped && ranges.some(({ first, last }) => first <= redirectPort && redirectPort <= last)) {
    const message = `${redirectPort} is where redirected connections arrive; it cannot be left alone`;
    return { text: '', fault: message, code: 'reserved-port' };
  }
  if (skipped && isEveryPort(ranges, redirectPort))
    return { text: '', fault: `every port but ${redirectPort} is left alone`, code: 'every-port' };
  return { text: portRangeText(ranges), fault, code: 'bad-ports' };
}

function numbered(text: string, { ports }: PodNames): string {
  const entries = text.split(',').map((entry) => entry.trim());
  return entries
    .filter((entry) => entry !== '')
    .flatMap((entry) => ports.get(entry)?.map(String) ?? [entry])
    .join(',');
}

/** As the redirect step reads it. */
export const subnetList: OptionParser<string> = (given) => {
  const read = subnets(given);
  return 'fault' in read ? read : { value: read.value.map(({ cidr }) => cidr).join(',') };
};

/**
 * Linkerd's levels are directives by target, `warn,linkerd=info`. There is one level here: that of `linkerd`, or else the
 * one without a target.
 */
export function logLevel(given: string): string {
  const directives = given.split(',').map((directive) => directive.trim());
  const own = directives.find((directive) => directive.startsWith('linkerd='))?.slice('linkerd='.length);
  return own ?? directives.find((directive) => !/[=[]/.test(directive)) ?? given;
}

/** A quantity of a resource, as it is written and as a number. */
export interface Quantity {
  readonly text: string;
  readonly number: number;
}
/** `none`: nothing is asked for, whatever would be otherwise. */
export type Amount = Quantity | 'none';

const multiples: ReadonlyMap<string, number> = new Map([
  ['', 1],
  ['m', 0.001],
  ...['k', 'M', 'G', 'T', 'P'].map((unit, index) => [unit, 1000 ** (index + 1)] as const),
  ...['Ki', 'Mi', 'Gi', 'Ti', 'Pi'].map((unit, index) => [unit, 1024 ** (index + 1)] as const),
]);

/** Of a text that is one. */
export function quantity(text: string): Quantity {
  const [, number = '', unit = ''] = /^([\d.]+)(\D*)$/.exec(text) ?? [];
  return { text, number: Number(number) * (multiples.get(unit) ?? Number.NaN) };
}

/** @param pattern which quantities of Kubernetes make sense for the resource. */
function amount(pattern: RegExp, example: string): OptionParser<Amount> {
  return (text) => {
    if (text === 'none') return { value: text };
    const number = pattern.test(text) ? quantity(text).number : 0;
    if (number > 0) return { value: { text, number } };
    return {
      code: 'bad-amount',
      fault: `${quote(text)} is not an amount`,
      hint: `write one such as ${example}, or none`,
    };
  };
}

/** No finer than a thousandth, as Kubernetes has it. */
export const cpuAmount = amount(/^(\d{1,7}m|\d{1,4}(\.\d{1,3})?)$/, '100m or 0.5');
export const byteAmount = amount(/^\d{1,15}([kMGTP]|[KMGTP]i)?$/, '128Mi');
