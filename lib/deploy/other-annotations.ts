import { didYouMean } from '../policy/nearest.ts';
import { annotationOf, optionNames } from './options.ts';
import { injectAnnotation, injectedAnnotation, recordAnnotation } from './record.ts';

/** Annotations of these names are there for a sidecar; all others are none of ours. */
const forSidecars = /^(config(\.(alpha|beta))?\.linkerd\.io|sallyport\.dev)\//;

const outbound = 'Sallyport leaves outbound connections alone';
const itsImages = "it names an image of Linkerd's; Sallyport's is sallyport.dev/image";
const native = 'a native sidecar is ready before the app starts and ends after it';
const fixedUser = 'Sallyport is user and group 2102, by which the redirect rules know it';
const noDiscovery = 'Sallyport asks nobody for policy';
const noTracing = 'Sallyport sends no traces';

/** Linkerd's, by what follows the last slash, with why they have no meaning here. */
const meaningless: ReadonlyMap<string, string> = new Map([
  ['close-wait-timeout', 'it is a setting of the kernel, which Sallyport leaves alone'],
  ['control-port', 'Sallyport has no control port'],
  ['debug-image', itsImages],
  ['debug-image-pull-policy', itsImages],
  ['debug-image-version', itsImages],
  ['disable-identity', 'without an identity Secret Sallyport terminates no TLS'],
  ['disable-tap', 'Sallyport has no tap'],
  ['enable-debug-sidecar', 'there is no debug sidecar'],
  ['enable-external-profiles', outbound],
  ['inbound-port', 'redirected connections arrive at port 4143'],
  ['init-image', itsImages],
  ['init-image-version', itsImages],
  ['outbound-port', outbound],
  ['pod-inbound-ports', "the ports are read from the pod's containers"],
  ['proxy-additional-env', 'the variables are those that flags and annotations make'],
  ['proxy-admin-shutdown', '/shutdown always answers, and only to this machine'],
  ['proxy-await', native],
  ['proxy-cpu-ratio-limit', 'how many threads serve is sallyport.dev/workers'],
  ['proxy-disable-inbound-protocol-detect-timeout', 'how long detection may take is sallyport.dev/detect-timeout'],
  ['proxy-disable-outbound-protocol-detect-timeout', outbound],
  ['proxy-enable-native-sidecar', native],
  ['proxy-gid', fixedUser],
  ['proxy-image', itsImages],
  ['proxy-inbound-discovery-cache-unused-timeout', noDiscovery],
  ['proxy-log-http-headers', 'headers are never logged'],
  ['proxy-outbound-connect-timeout', outbound],
  ['proxy-outbound-discovery-cache-unused-timeout', outbound],
  ['proxy-uid', fixedUser],
  ['proxy-version', itsImages],
  ['proxy-wait-before-exit-seconds', native],
  ['skip-outbound-ports', outbound],
  ['trace-collector', noTracing],
  ['trace-collector-service-account', noTracing],
]);

const honoured: ReadonlySet<string> = new Set([
  ...optionNames.map(annotationOf),
  injectAnnotation,
  injectedAnnotation,
  recordAnnotation,
]);

export interface IdleAnnotation {
  readonly name: string;
  readonly message: string;
  readonly hint: string;
}

/** Those that look as if they told the sidecar something, and do not. */
export function idleAnnotations(annotations: Readonly<Record<string, unknown>>): readonly IdleAnnotation[] {
  return Object.keys(annotations).flatMap((name) => {
    if (!forSidecars.test(name) || honoured.has(name)) return [];
    const own = name.slice(name.indexOf('/') + 1);
    const reason = /^config\./.test(name) ? meaningless.get(own) : undefined;
    if (reason !== undefined) return [{ name, message: `${name} has no effect: ${reason}`, hint: '' }];
    // Of the other prefix, perhaps: only there is the nearest one sure to be meant.
    const same = [...honoured].filter((known) => known.endsWith(`/${own}`));
    const hint = same.length > 0 ? `Did you mean "${same.join('" or "')}"?` : didYouMean(name, honoured);
    return [{ name, message: `${name} is not known`, hint }];
  });
}

/** Those that stand on a workload, or its jobTemplate, rather than on its pods, where neither Linkerd nor Sallyport looks. */
export function strayAnnotations(
  annotations: Readonly<Record<string, unknown>>,
  place: string,
): readonly IdleAnnotation[] {
  return Object.keys(annotations)
    .filter((name) => forSidecars.test(name) || name === 'linkerd.io/inject')
    .map((name) => ({
      name,
      message: `${name} has no effect: it stands on the ${place}, not on its pods`,
      hint: 'Move it to metadata.annotations of the pod template.',
    }));
}
