import { readdirSync, readFileSync } from 'node:fs';
import { parseAllDocuments } from 'yaml';
import type { ManifestText } from '../../../lib/deploy/inject.ts';
import { podTemplates } from '../../../lib/deploy/pod-template.ts';
import type { InjectSettings } from '../../../lib/deploy/settings.ts';

export type Given = InjectSettings['given'];

export const settings: InjectSettings = {
  version: '1.2.3',
  given: { image: 'registry.example.com/sallyport:1.2.3' },
  namespace: 'default',
};

/** With more flags. */
export function flagged(more: Given): InjectSettings {
  return { ...settings, given: { ...settings.given, ...more } };
}

const folder = new URL('../../fixtures/workloads/', import.meta.url);

export const workloads: readonly ManifestText[] = readdirSync(folder)
  .sort()
  .map((file) => ({ file, text: readFileSync(new URL(file, folder), 'utf8') }));

export interface AnyContainer {
  readonly name: string;
  readonly args?: readonly string[];
  readonly ports?: readonly { readonly name: string }[];
  readonly readinessProbe?: { readonly httpGet: { readonly port: string } };
  readonly resources?: object;
  readonly env?: readonly {
    readonly name: string;
    readonly value?: string;
    readonly valueFrom?: { readonly fieldRef: { readonly fieldPath: string } };
  }[];
}

export interface AnyPod {
  readonly metadata?: {
    readonly annotations?: Record<string, string>;
    readonly labels?: Record<string, string>;
  } | null;
  readonly spec: {
    readonly initContainers?: readonly AnyContainer[] | null;
    readonly volumes?: readonly { readonly name: string }[] | null;
  };
}

/** The values of a stream, read without lib/yaml.ts. */
export function valuesOf(text: string): unknown[] {
  return parseAllDocuments(text, { merge: true }).map((document) => document.toJS());
}

/** Every pod of a stream, with the volumes that a StatefulSet's claim templates bring. */
export function podsOf(text: string): { readonly pod: AnyPod; readonly claims: readonly string[] }[] {
  return valuesOf(text).flatMap((value) => {
    const { spec } = (value ?? {}) as { spec?: { volumeClaimTemplates?: { metadata: { name: string } }[] } };
    const claims = (spec?.volumeClaimTemplates ?? []).map(({ metadata }) => metadata.name);
    return podTemplates(value).templates.map(({ pod }) => ({ pod: pod as unknown as AnyPod, claims }));
  });
}

export function deployment(spec: string, metadata = ''): string {
  return `apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  template:
    metadata:
      labels: {app: web}
${metadata}    spec:
${spec}`;
}
