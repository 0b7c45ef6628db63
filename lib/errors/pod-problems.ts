import { either, error, type ProblemRow, warning } from './row.ts';

/** Problems of a Pod, and of workloads that `inject` is given. */
export const podProblems = {
  'invalid-pod': error(
    'What should be a Pod is none, or has no containers.',
    'Write it as kubectl get pod -o yaml does.',
  ),
  annotation: either(
    "An annotation cannot be read; a warning, and the cluster's default, where Linkerd would go on, an error for inject.",
    'Write one of the default policies, or ports and ranges such as 25,9000-9100.',
  ),
  'probe-port': warning(
    'A probe names a port that its container does not have over TCP, and is skipped.',
    "Name one of the container's own ports.",
  ),
  'probe-path': warning(
    'A probe has a path that is none, or that cannot be handed on, and is skipped.',
    'Write it from "/", without spaces and commas, or authorize it by a route.',
  ),
  'pod-ip': warning('An address in the status of the Pod is none, and is left out.', 'Copy the status as it is.'),
  'unknown-workload': warning(
    'A kind that is not known here has a pod template; its pods are left unguarded.',
    'Guard its pods by hand, or let another kind make them.',
  ),
  'host-network': error(
    'The pod uses the network of its node, whose every pod the redirect rules would catch.',
    'Take hostNetwork away, or annotate the pod with sallyport.dev/inject: disabled.',
  ),
  'linkerd-injects': error(
    "Linkerd's own proxy would take the same ports.",
    'Inject one of the two: set linkerd.io/inject: disabled on this pod, or leave Sallyport out.',
  ),
  'name-in-use': error('The pod has a container or volume of our name already.', 'Rename it.'),
  'port-in-use': error(
    'A container has a port that Sallyport listens on.',
    'Let it listen elsewhere, or choose another by --admin-port or --health-port.',
  ),
  'uid-in-use': error(
    'A container runs as the user whom the redirect rules take for the proxy.',
    'Run it as another user.',
  ),
  'may-unguard': warning(
    'A container may change the redirect rules, and so open every port.',
    'Take NET_ADMIN and privileged away from it.',
  ),
  record: error(
    'The record of an earlier injection cannot be read.',
    'Take out by hand what it has added, with this annotation.',
  ),
  'not-editable': error(
    'The YAML is written in a way that cannot be changed in place.',
    'Write it out in place of the alias or merge key.',
  ),
  'config-map': error(
    'The policy folder cannot be one ConfigMap.',
    'Use letters, digits, "-", "_" and "." in names of files, each once, and at most 1 MiB in all.',
  ),
} as const satisfies Readonly<Record<string, ProblemRow>>;
