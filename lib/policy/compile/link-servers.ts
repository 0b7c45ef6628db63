import type { ServerDocument } from '../documents/types.ts';
import { type Selector, selects } from '../selectors.ts';
import { portsOfServer, serverPortNames, type Workload } from '../workload.ts';
import { byAge, inSlices, type Linking } from './linking.ts';

export interface LinkedServers {
  readonly byPort: ReadonlyMap<number, ServerDocument>;
  /** Has every other port: a Server that cannot be read, so that nobody knows which it was to have. */
  readonly elsewhere: ServerDocument | null;
}

/** Which Server has which port of the pod: of several the oldest, then the first by name. */
export function* linkServers(linking: Linking): Generator<void, LinkedServers, void> {
  const byPort = new Map<number, ServerDocument>();
  let elsewhere: ServerDocument | null = null;
  const servers = [...linking.index.servers.values()].sort(byAge);
  yield* inSlices(servers, (server) => {
    const ports = selectedPorts(server, linking);
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
  return { byPort, elsewhere };
}

/** Null where the Server is for workloads of the other kind. */
export function selectorFor({ spec }: ServerDocument, { kind = 'pod' }: Workload): Selector | null {
  return kind === 'pod' ? spec.podSelector : spec.externalWorkloadSelector;
}

/** Empty where the Server is not for this pod; such a port then has the default policy. */
function selectedPorts(server: ServerDocument, linking: Linking): readonly number[] | 'every port' {
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
    linking.warn(
      server,
      ['spec', isPod ? 'podSelector' : 'externalWorkloadSelector'],
      'selects-no-pod',
      `the ${isPod ? 'podSelector does not select pod' : 'externalWorkloadSelector does not select'} ${workload.podName}`,
      nearLabel(selector, linking) ??
        'Compare it with the labels of the pod; a folder may hold Servers of other pods too.',
    );
    return [];
  }
  if (port === null) return 'every port';
  // A number need not be among the pod's ports.
  if (typeof port === 'number') return [port];
  const ports = portsOfServer(workload, port);
  if (ports.length === 0) {
    linking.warn(
      server,
      ['spec', 'port'],
      'port-name-unknown',
      `pod ${workload.podName} has no port named "${port}", so this Server has no effect`,
      /^\d+$/.test(port)
        ? 'A number in quotes is a name: remove the quotes.'
        : hints.for(port, () => serverPortNames(workload)) || nameThePort(port),
    );
  }
  return ports;
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
