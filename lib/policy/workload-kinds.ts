import { type FieldPath, valueAt } from './field-path.ts';

/** A kind of object that pods are made from. */
export interface WorkloadKind {
  readonly kind: string;
  /** Of its `apiVersion`, the API group and what begins the version: the group gives the kind its meaning. */
  readonly group: RegExp;
  /** Where its pod templates stand. `*` stands for every item of a list. */
  readonly templates: readonly FieldPath[];
}

const inSpec: FieldPath = ['spec', 'template'];

/** Kubernetes' own, and those of others whose templates have the form of Kubernetes'. */
const workloadKinds: readonly WorkloadKind[] = [
  { kind: 'Pod', group: /^v1$/, templates: [[]] },
  { kind: 'PodTemplate', group: /^v1$/, templates: [['template']] },
  { kind: 'ReplicationController', group: /^v1$/, templates: [inSpec] },
  { kind: 'Deployment', group: /^(apps|extensions)\//, templates: [inSpec] },
  { kind: 'StatefulSet', group: /^apps\//, templates: [inSpec] },
  { kind: 'DaemonSet', group: /^(apps|extensions)\//, templates: [inSpec] },
  { kind: 'ReplicaSet', group: /^(apps|extensions)\//, templates: [inSpec] },
  { kind: 'Job', group: /^batch\//, templates: [inSpec] },
  { kind: 'CronJob', group: /^batch\//, templates: [['spec', 'jobTemplate', ...inSpec]] },
  // Argo Rollouts.
  { kind: 'Rollout', group: /^argoproj\.io\//, templates: [inSpec] },
  // Knative.
  { kind: 'Service', group: /^serving\.knative\.dev\//, templates: [inSpec] },
  { kind: 'Configuration', group: /^serving\.knative\.dev\//, templates: [inSpec] },
  // OpenShift.
  { kind: 'DeploymentConfig', group: /^apps\.openshift\.io\//, templates: [inSpec] },
  // OpenKruise.
  { kind: 'CloneSet', group: /^apps\.kruise\.io\//, templates: [inSpec] },
  { kind: 'StatefulSet', group: /^apps\.kruise\.io\//, templates: [inSpec] },
  { kind: 'DaemonSet', group: /^apps\.kruise\.io\//, templates: [inSpec] },
  { kind: 'BroadcastJob', group: /^apps\.kruise\.io\//, templates: [inSpec] },
  // KEDA: a Job's spec without the Job.
  { kind: 'ScaledJob', group: /^keda\.sh\//, templates: [['spec', 'jobTargetRef', 'template']] },
  // JobSet and LeaderWorkerSet.
  {
    kind: 'JobSet',
    group: /^jobset\.x-k8s\.io\//,
    templates: [['spec', 'replicatedJobs', '*', 'template', ...inSpec]],
  },
  {
    kind: 'LeaderWorkerSet',
    group: /^leaderworkerset\.x-k8s\.io\//,
    templates: [
      ['spec', 'leaderWorkerTemplate', 'leaderTemplate'],
      ['spec', 'leaderWorkerTemplate', 'workerTemplate'],
    ],
  },
  // Agones.
  { kind: 'GameServer', group: /^agones\.dev\//, templates: [inSpec] },
  { kind: 'Fleet', group: /^agones\.dev\//, templates: [['spec', 'template', 'spec', 'template']] },
];

/** `Widget.example.com=spec.template`, `*` in the path for each item of a list; null for anything else. */
export function readWorkloadKind(text: string): WorkloadKind | null {
  const [, kind, group, path] =
    /^([A-Z][A-Za-z0-9]*)(?:\.([a-z0-9](?:[a-z0-9.-]*[a-z0-9])?))?=([\w*-]+(?:\.[\w*-]+)*)$/.exec(text) ?? [];
  if (kind === undefined || path === undefined) return null;
  const prefix = group === undefined ? '' : `${group.replaceAll('.', '\\.')}/`;
  return { kind, group: new RegExp(`^${prefix}v\\d`), templates: [path.split('.')] };
}

/**
 * Where the pod templates of one object stand that are there.
 *
 * @param more kinds besides those that are known here.
 * @returns null where the object is of no known kind; empty where one of a known kind has none (a Rollout that refers to a
 * Deployment, say).
 */
export function templatePaths(object: unknown, more: readonly WorkloadKind[] = []): readonly FieldPath[] | null {
  const apiVersion = String(valueAt(object, ['apiVersion']));
  const kind = valueAt(object, ['kind']);
  const known = [...more, ...workloadKinds].find((each) => each.kind === kind && each.group.test(apiVersion));
  if (known === undefined) return null;
  const paths = known.templates.flatMap((template) => everyPath(object, template));
  return paths.filter((path) => isMapping(valueAt(object, path)));
}

/** The paths in an object that a path with `*` stands for. */
function everyPath(object: unknown, path: FieldPath): FieldPath[] {
  const star = path.indexOf('*');
  if (star === -1) return [path];
  const before = path.slice(0, star);
  const list = valueAt(object, before);
  if (!Array.isArray(list)) return [];
  return list.flatMap((_, item) => everyPath(object, [...before, item, ...path.slice(star + 1)]));
}

function isMapping(value: unknown): boolean {
  return typeof value === 'object' && value !== null;
}
