import { Scalar, stringify } from 'yaml';
import type { Problem } from '../problem.ts';
import { injectedAnnotation } from './record.ts';
import { adminPortName, proxyName } from './sidecar.ts';
import { unfolded } from './yaml-edit.ts';

export interface ObjectName {
  readonly name: string;
  /** Null: whichever namespace it is applied to. */
  readonly namespace: string | null;
}

/** The API server's limit for all values of one ConfigMap together. */
const mostBytes = 1024 * 1024;

/** A policy folder as a ConfigMap, one key for each file; or why it cannot be one. */
export function policyConfigMap(
  metadata: ObjectName,
  files: readonly { readonly file: string; readonly name: string; readonly text: string }[],
): { readonly yaml: string } | { readonly problem: Problem } {
  const refused = (file: string, message: string, hint: string) => ({
    problem: {
      severity: 'error',
      code: 'config-map',
      message,
      file,
      line: 1,
      column: 1,
      resource: null,
      hint,
    } as const,
  });
  const data: Record<string, string | Scalar<string>> = Object.create(null);
  let bytes = 0;
  for (const { file, name, text } of files) {
    if (!/^[-._a-zA-Z0-9]{1,253}$/.test(name) || name.startsWith('..')) {
      return refused(
        file,
        `${JSON.stringify(name)} cannot be a key of a ConfigMap`,
        'Use letters, digits, "-", "_", ".".',
      );
    }
    if (Object.hasOwn(data, name)) return refused(file, `two files are named ${name}`, 'Rename one of them.');
    data[name] = isPlain(text) ? text : quoted(text);
    bytes += Buffer.byteLength(text);
    if (bytes > mostBytes) {
      const message = `the policy is larger than the ${mostBytes} bytes that a ConfigMap holds`;
      return refused(file, message, 'Keep the documents of each workload in a ConfigMap of their own.');
    }
  }
  return { yaml: yamlOf({ apiVersion: 'v1', kind: 'ConfigMap', metadata: metadataOf(metadata), data }) };
}

/** For the Prometheus operator: every injected pod, by its annotation, at its admin port. */
export function podMonitor(metadata: ObjectName): string {
  const keep = (sourceLabel: string, regex: string) => ({ action: 'keep', sourceLabels: [sourceLabel], regex });
  return yamlOf({
    apiVersion: 'monitoring.coreos.com/v1',
    kind: 'PodMonitor',
    metadata: metadataOf(metadata),
    spec: {
      // No label marks an injected pod: selectors and their aliases stay what they were.
      selector: {},
      podMetricsEndpoints: [
        {
          port: adminPortName,
          path: '/metrics',
          relabelings: [
            keep(`__meta_kubernetes_pod_annotation_${injectedAnnotation.replaceAll(/[./-]/g, '_')}`, '.+'),
            keep('__meta_kubernetes_pod_container_name', proxyName),
          ],
        },
      ],
    },
  });
}

/** What Kubernetes' reader of YAML takes for an end of a line, or refuses, and the library writes as it is, even in quotes. */
const raw = /[\u007f-\u009f\u2028\u2029\ufeff\ufffe\uffff]/;

/**
 * Whether that reader takes a literal block for this text: none whose first line begins with a tab or spaces, and none with
 * control characters, which in quotes the library escapes.
 */
function isPlain(text: string): boolean {
  return !/^\s|[^\P{Cc}\n\t]/u.test(text) && !raw.test(text);
}

function quoted(text: string): Scalar<string> {
  const scalar = new Scalar(text);
  scalar.type = Scalar.QUOTE_DOUBLE;
  return scalar;
}

function metadataOf({ name, namespace }: ObjectName): Record<string, string> {
  return namespace === null ? { name } : { name, namespace };
}

function yamlOf(value: object): string {
  const text = stringify(value, { ...unfolded, version: '1.1', blockQuote: 'literal' });
  // They stand in double quotes alone, where this is what they are.
  return text.replaceAll(new RegExp(raw, 'g'), (mark) => `\\u${mark.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
