import type { ServerDocument } from './document-types.ts';
import { byAge, inSlices, type Linking } from './linking.ts';
import { selects } from './selectors.ts';
import { portsOfServer, serverPortNames } from './workload.ts';

/** Which Server has which port of the pod: of several the oldest, then the first by name. */
export function* linkServers(linking: Linking): Generator<void, ReadonlyMap<number, ServerDocument>, void> {
  const byPort = new Map<number, ServerDocument>();
  const servers = [...linking.index.servers.values()].sort(byAge);
  yield* inSlices(servers, (server) => {
    for (const port of selectedPorts(server, linking)) {
      const winner = byPort.get(port);
      if (winner === undefined) byPort.set(port, server);
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
  return byPort;
}

/** Empty where the Server is not for this pod; such a port then has the default policy. */
function selectedPorts(server: ServerDocument, linking: Linking): readonly number[] {
  const { workload, hints } = linking;
  const { podSelector, port } = server.spec;
  if (podSelector === null) return [];
  if (!selects(podSelector, workload.labels)) {
    linking.warn(
      server,
      ['spec', 'podSelector'],
      'selects-no-pod',
      `the podSelector does not select pod ${workload.podName}`,
      'Compare it with the labels of the pod; a folder may hold Servers of other pods too.',
    );
    return [];
  }
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
        : hints.for(port, () => serverPortNames(workload)),
    );
  }
  return ports;
}
