/**
 * What a Pod has the kubelet ask of the app on one port. `http` is `httpGet` of a liveness, readiness or startup probe, the
 * one kind that Linkerd lets through; `hook` is `httpGet` of `postStart` or `preStop`, which makes the app do something.
 * `https` and `https-hook` are the same with `scheme: HTTPS`. Paths are without query.
 */
export type Probe =
  | { readonly kind: PathKind; readonly path: string }
  /** `grpc`: a call of `grpc.health.v1.Health/Check`. `tcp`: connects, and closes. */
  | { readonly kind: PortKind };

const pathKinds = ['http', 'https', 'hook', 'https-hook'] as const;
const portKinds = ['grpc', 'tcp'] as const;
export type PathKind = (typeof pathKinds)[number];
type PortKind = (typeof portKinds)[number];
/** As metrics and `SALLYPORT_PROBES` name it. */
export type ProbeKind = PathKind | PortKind;

/** By port, each once. */
export type ProbesByPort = ReadonlyMap<number, readonly Probe[]>;

/** The one call that a gRPC probe makes (grpc/health/v1). Which service it asks about is in the message, unseen. */
export const healthCheck = '/grpc.health.v1.Health/Check';

/** As in `SALLYPORT_PROBES`: `8080/healthz`, `https:8443/healthz`, `grpc:9000`. */
export function probeText(port: number, probe: Probe): string {
  const what = 'path' in probe ? `${port}${probe.path}` : String(port);
  return probe.kind === 'http' ? what : `${probe.kind}:${what}`;
}

/** What `probeText` writes, the query of a path dropped; undefined for anything else. */
export function parseProbe(text: string): { readonly port: number; readonly probe: Probe } | undefined {
  const [, name = 'http', digits = '', path] = /^(?:([a-z-]+):)?(\d{1,5})(\/[^?#\s]*)?(?:\?\S*)?$/.exec(text) ?? [];
  const port = Number(digits);
  if (digits === '' || port < 1 || port > 65_535) return undefined;
  const pathKind = pathKinds.find((kind) => kind === name);
  if (pathKind !== undefined) return path === undefined ? undefined : { port, probe: { kind: pathKind, path } };
  const portKind = portKinds.find((kind) => kind === name);
  return portKind === undefined || text !== `${name}:${digits}` ? undefined : { port, probe: { kind: portKind } };
}

/** The paths of the probes of one kind. */
export function pathsOf(probes: readonly Probe[], wanted: PathKind): readonly string[] {
  return probes.flatMap((probe) => ('path' in probe && probe.kind === wanted ? [probe.path] : []));
}

function isSameProbe(a: Probe, b: Probe): boolean {
  return a.kind === b.kind && ('path' in a ? a.path : '') === ('path' in b ? b.path : '');
}

/** The same probes and this one, once. */
export function withProbe(probes: readonly Probe[] | undefined, probe: Probe): readonly Probe[] {
  if (probes === undefined) return [probe];
  return probes.some((known) => isSameProbe(known, probe)) ? probes : [...probes, probe];
}
