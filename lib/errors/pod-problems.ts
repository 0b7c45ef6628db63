import { either, error, type ProblemRow, warning } from './row.ts';

/** Problems of a Pod, and of workloads that `inject` is given. */
export const podProblems = {
  'invalid-pod': error(
    'What should be a Pod is none, or has no containers.',
    'Write it as kubectl get pod -o yaml does.',
  ),
  annotation: either(
    "An annotation cannot be read; a warning, and the cluster's default, where Linkerd would go on, an error for inject.",
    'Write it as Linkerd does, ports as 25,9000-9100; lib/deploy/README.md has what inject takes.',
  ),
  'probe-port': warning(
    'A probe names a port that its container does not have over TCP, and is skipped.',
    "Name one of the container's own ports.",
  ),
  'probe-host': warning(
    'A probe has a host, which the kubelet asks in place of the pod, and is skipped.',
    'Take host away, or authorize by a route what comes from there.',
  ),
  'probe-path': warning(
    'A probe has a path that is none, or that cannot be handed on, and is skipped.',
    'Write it from "/", without spaces and commas, or authorize it by a route.',
  ),
  'pod-ip': warning('An address in the status of the Pod is none, and is left out.', 'Copy the status as it is.'),
  'unknown-workload': either(
    'A kind that is not known here describes pods, which would be left unguarded; a warning with --allow-unguarded.',
    'Say where its pod template stands by --pod-template KIND.GROUP=PATH, or leave its pods unguarded.',
  ),
  'pod-security': warning(
    'The Namespace enforces a level of Pod Security that refuses the init container, and with it the pod.',
    'Use --inbound-ports, which does without it, or let the Namespace enforce "privileged".',
  ),
  scrape: warning(
    "The pod's own annotations for Prometheus stay: what they name may close, and Sallyport's own metrics are not scraped.",
    'Permit the scraper by a Server for that port, and scrape Sallyport by a PodMonitor (--print-pod-monitor).',
  ),
  'host-network': error(
    'The pod uses the network of its node, whose every pod the redirect rules would catch.',
    'Take hostNetwork away, or annotate the pod with sallyport.dev/inject: disabled.',
  ),
  'linkerd-injects': error(
    "Linkerd's own proxy would take the same ports.",
    'Inject one of the two: set linkerd.io/inject: disabled on this pod, or leave Sallyport out.',
  ),
  'istio-injects': error(
    "Istio's own sidecar, or its ztunnel, would take the same connections.",
    'Inject one of the two: set the label sidecar.istio.io/inject: "false", or istio.io/dataplane-mode: none, on this pod, or leave Sallyport out.',
  ),
  'other-proxy': error(
    'The pod already has the sidecar of Linkerd or Istio, which takes its inbound connections.',
    'Inject the YAML without it, or annotate the pod with sallyport.dev/inject: disabled.',
  ),
  'idle-annotation': warning(
    'An annotation of Linkerd or Sallyport has no effect here, is misspelt, or stands where nobody looks.',
    'Take it away, or write the one that was meant on the pod template.',
  ),
  resources: error(
    'The sidecar or the init container would ask for more of a resource than it may use.',
    'Raise the limit, or lower the request.',
  ),
  'little-memory': warning(
    'The sidecar or the init container may use less memory than it needs to start.',
    'Raise the limit by proxy-memory-limit or init-memory-limit.',
  ),
  'no-redirect': warning(
    'With inbound-ports no connection is redirected, and only its listeners are guarded.',
    'Let the app listen on 127.0.0.1 alone, and Services and probes name the listeners.',
  ),
  'unguarded-port': warning(
    'A container has a port over UDP or SCTP, which nothing redirects; no policy governs it.',
    "Close it by a NetworkPolicy of the cluster's network, or by the app's own means.",
  ),
  'name-in-use': error('The pod has a container, volume or port of our name already.', 'Rename it.'),
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
