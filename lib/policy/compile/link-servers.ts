import type { MissedServer } from '../decide/policy-index.ts';
import type { ServerDocument } from '../documents/types.ts';
import { type Selector, selects } from '../selectors.ts';
import { portsOfServer, serverPortNames, type Workload } from '../workload.ts';
import { byAge, inSlices, type Linking } from './linking.ts';

export interface LinkedServers {
  readonly byPort: ReadonlyMap<number, ServerDocument>;
  /** Has every other port: a Server that cannot be read, so that nobody knows which it was to have. */
  readonly elsewhere: ServerDocument | null;
  /** Those that have no port, in order of age. */
  readonly missed: readonly MissedServer[];
}

/** Which Server has which port of the pod: of several the oldest, then the first by name. */
export function* linkServers(linking: Linking): Generator<void, LinkedServers, void> {
  const byPort = new Map<number, ServerDocument>();
  let elsewhere: ServerDocument | null = null;
  const missed: MissedServer[] = [];
  const servers = [...linking.index.servers.values()].sort(byAge);
  yield* inSlices(servers, (server) => {
    const ports = selectedPorts(server, linking, missed);
    if (ports === 'every port') {
      elsewhere ??= server;
      return;
    }
    for (const port of ports) {
      const winner = byPort.get(port) ?? elsewhere;
      if (winner === null) byPort.set(port, server);
      else {
        linking.warn(
          server,
          ['spec', 'port'],
          'port-taken',
          `port ${port} already has Server ${winner.name}, so Server ${server.name} has no effect on it`,
          'The oldest Server wins, then the first by name; remove one.',
        );
      }
    }
  });
  return { byPort, elsewhere, missed };
}

/** Null where the Server is for workloads of the other kind. */
export function selectorFor({ spec }: ServerDocument, { kind = 'pod' }: Workload): Selector | null {
  return kind === 'pod' ? spec.podSelector : spec.externalWorkloadSelector;
}

/** Empty where the Server is not for this pod; such a port then has the default policy. */
function selectedPorts(
  server: ServerDocument,
  linking: Linking,
  missed: MissedServer[],
): readonly number[] | 'every port' {
  const { workload, hints } = linking;
  const { port } = server.spec;
  const selector = selectorFor(server, workload);
  const isPod = workload.kind !== 'external';
  if (selector === null) {
    const [own, other] = isPod ? ['externalWorkloadSelector', 'external'] : ['podSelector', 'pod'];
    linking.warn(
      server,
      ['spec', own],
      'selects-other-workloads',
      `it selects ${isPod ? 'ExternalWorkloads, and this is a pod' : 'pods, and this is an ExternalWorkload'}: it has no effect here`,
      `Set SALLYPORT_WORKLOAD_KIND=${other} where this is one.`,
    );
    return [];
  }
  if (!selects(selector, workload.labels)) {
    const message = `the ${isPod ? 'podSelector does not select pod' : 'externalWorkloadSelector does not select'} ${workload.podName}`;
    const near = nearLabel(selector, linking);
    const hint = near ?? 'Compare it with the labels of the pod; a folder may hold Servers of other pods too.';
    linking.warn(server, ['spec', isPod ? 'podSelector' : 'externalWorkloadSelector'], 'selects-no-pod', message, hint);
    const wanted = typeof port === 'string' ? portsOfServer(workload, port) : [port];
    for (const each of wanted) miss(missed, server, { port: each, why: `${message}. ${hint}`, isNear: near !== null });
    return [];
  }
  if (port === null) return 'every port';
  // A number need not be among the pod's ports.
  if (typeof port === 'number') return [port];
  const ports = portsOfServer(workload, port);
  if (ports.length === 0) {
    const message = `pod ${workload.podName} has no port named "${port}", so this Server has no effect`;
    const hint = /^\d+$/.test(port)
      ? 'A number in quotes is a name: remove the quotes.'
      : hints.for(port, () => serverPortNames(workload)) || nameThePort(port);
    linking.warn(server, ['spec', 'port'], 'port-name-unknown', message, hint);
    miss(missed, server, { port: null, why: `${message}. ${hint}`, isNear: true });
  }
  return ports;
}

/** Servers that are kept for hints: of a folder for a whole cluster most are of other pods. */
const mostMissed = 256;

function miss(missed: MissedServer[], { name }: ServerDocument, { port, why, isNear }: MissedServer): void {
  if (missed.length < mostMissed) missed.push({ port, why: `Server ${name} does not apply: ${why}`, isNear });
}

/** Where a Pod is not at hand, nothing but the variable gives its ports names. */
export function nameThePort(port: string): string {
  return `Give the port its name, SALLYPORT_POD_PORTS=${port}=NUMBER, or let the document name a port that the pod has.`;
}

/** The one label that keeps the pod out, where it is nearly the pod's own. */
function nearLabel({ matchLabels }: Selector, { workload, hints }: Linking): string | null {
  const [differing, ...more] = matchLabels.filter(([key, value]) => workload.labels.get(key) !== value);
  if (differing === undefined || more.length > 0) return null;
  const wanted = differing.join('=');
  return hints.for(wanted, () => [...workload.labels].map((label) => label.join('='))) || null;
}
