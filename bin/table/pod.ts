import { once, repeated } from './row.ts';

/** Flags of every command that decides for a pod: each stands for a variable. */
export const podFlagRows = {
  namespace: once('NS', 'of the pod'),
  'pod-label': repeated('K=V', 'may be repeated, as may the next three'),
  'pod-port': repeated('NAME=N', 'a named port'),
  'pod-ip': repeated('IP', 'what podClusterIp means'),
  probe: repeated('P', 'a probe of the app, as in SALLYPORT_PROBES: PORT/PATH, grpc:PORT, tcp:PORT'),
  'default-policy': once('P', 'for ports without a Server'),
  'opaque-ports': once('LIST', 'ports without a Server that are never inspected'),
} as const;

export type PodFlag = keyof typeof podFlagRows;

export const podHeading =
  'The pod (each wins over its variable, SALLYPORT_POD_LABELS and so on, and over the annotations of a manifest):';
