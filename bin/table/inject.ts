import { command, once, toggle } from './row.ts';

export const injectCommand = command({
  does: 'Sallyport as a native sidecar, put into workload YAML or taken out again',
  brief: 'inject FILE…|- …',
  usage: [
    'inject FILE…|- [flags]',
    'inject FILE…|- --uninject',
    'inject --print-policy-configmap FOLDER [--name NAME] [--namespace NS]',
    'inject --print-pod-monitor [--name NAME] [--namespace NS]',
  ],
  about: [
    'Puts Sallyport as a native sidecar (Kubernetes 1.29 or later) before the app of every workload in the YAML, and prints the result. Everything else stays as it is written, comments and order too. Done again it changes nothing; another version or other flags replace what is there. With an error nothing is printed, so that half a stream is never applied.',
  ],
  words: { kind: 'paths' },
  flags: {
    image: once('REF', 'of Sallyport (sallyport:<this version>)'),
    'policy-configmap': once(
      'NAME',
      'the ConfigMap of policy files, which must exist for the pod to start (sallyport-policy)',
    ),
    'identity-secret': once('NAME', 'a Secret with tls.crt, tls.key and ca.crt; without it no TLS is terminated'),
    'default-inbound-policy': once('P', 'for ports without a Server (deny)'),
    'skip-inbound-ports': once('LIST', 'ports that are left alone, such as 25,9000-9100: no policy governs them'),
    'opaque-ports': once('LIST', 'ports without a Server that are never inspected'),
    'own-address': toggle('also guard connections from inside the pod to its own addresses'),
    'trust-domain': once('NAME', 'as in SALLYPORT_TRUST_DOMAIN'),
    'control-plane-namespace': once('NS', 'as in SALLYPORT_CONTROL_PLANE_NAMESPACE'),
    'admin-port': once('PORT', '(4191)'),
    'health-port': once('PORT', '(4192)'),
    namespace: once('NS', 'of what names none (default)'),
    name: once('NAME', 'of what --print-policy-configmap and --print-pod-monitor print'),
    json: toggle('the report on standard error as one JSON object'),
    uninject: toggle('take Sallyport out again, whichever version and flags put it in'),
    'print-policy-configmap': once('FOLDER', 'the policy files of a folder as a ConfigMap, if check finds no error'),
    'print-pod-monitor': toggle('a PodMonitor for the Prometheus operator'),
  },
  notes: [
    'The annotations config.linkerd.io/default-inbound-policy, skip-inbound-ports, opaque-ports and proxy-require-identity-inbound-ports of a pod, or else of its Namespace in the same YAML, win over the flags. sallyport.dev/inject: disabled, on either, leaves pods as they are.',
  ],
  exits: 'inject',
  page: ['In Kubernetes', 'lib/deploy/README.md'],
});
