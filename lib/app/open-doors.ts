import type { AddressInfo } from 'node:net';
import { networkInterfaces } from 'node:os';
import type { Config } from '../config/config.ts';
import type { ListenAddress } from '../config/values.ts';
import type { AdminApp } from '../ops/admin-app.ts';
import type { HealthServer } from '../ops/health-server.ts';
import { adminArrivals, explicitArrivals, redirectedArrivals } from '../proxy/accept/arrivals.ts';
import type { Doors } from '../proxy/accept/doors.ts';
import { LocalAddresses } from '../proxy/accept/local-addresses.ts';
import type { OwnEndpoints } from '../proxy/accept/own-endpoints.ts';
import type { Destination } from '../proxy/http/request-pipeline.ts';
import { loadSocketCalls, redirectedFrom, tryLoadSocketCalls } from '../proxy/socket-calls.ts';
import type { Log } from '../telemetry/log.ts';
import type { FollowedPolicy } from './policy.ts';

/** Where the proxy really listens; null for what is switched off. */
export interface Addresses {
  readonly inbound: AddressInfo | null;
  readonly ports: ReadonlyMap<number, AddressInfo>;
  readonly admin: AddressInfo | null;
  readonly health: AddressInfo | null;
}

export async function openHealth(
  { healthListen }: Config,
  doors: Doors,
  health: HealthServer,
): Promise<AddressInfo | null> {
  if (healthListen === null) return null;
  const { host, port } = healthListen;
  return doors.bind('SALLYPORT_HEALTH_LISTEN', healthListen, () => health.listen(host ?? '::', port));
}

interface DoorParts {
  readonly config: Config;
  readonly doors: Doors;
  readonly own: OwnEndpoints;
  readonly policy: FollowedPolicy;
  readonly admin: AdminApp;
  readonly logger: Log['logger'];
}

/** Opens them in the order in which they are of use, the one that is redirected to last. */
export async function openDoors(parts: DoorParts): Promise<Omit<Addresses, 'health'>> {
  const { config, doors, own, policy, admin, logger } = parts;
  tryLoadSocketCalls();
  const ports = new Map<number, AddressInfo>();
  for (const { listen, policyPort, app } of config.inboundPorts) {
    const arrive = explicitArrivals(listen.host, policyPort, app);
    ports.set(policyPort, await doors.open('SALLYPORT_INBOUND_PORTS', listen, arrive));
  }
  const { adminListen, inboundListen } = config;
  const destination: Destination = { kind: 'in-process', application: admin };
  const adminAddress =
    adminListen === null
      ? null
      : await doors.open(
          'SALLYPORT_ADMIN_LISTEN',
          adminListen,
          adminArrivals(adminListen.host, adminListen.port, destination),
        );
  const openRedirected = (address: ListenAddress): Promise<AddressInfo> => {
    loadSocketCalls();
    const local = new LocalAddresses(interfaceAddresses);
    const arrive = redirectedArrivals({
      originalDestination: (socket, client) => redirectedFrom(socket, client.ip.family),
      appHost: config.appHost,
      admin: adminListen === null ? null : { port: adminListen.port, destination },
      pod: () => policy.podFacts.current(),
      isLocal: (ip) => local.has(ip),
      isDeclared: (port) => isDeclared(port, config, policy),
      own,
      warn: (fields, message) => logger.warn(fields, message),
    });
    return doors.open('SALLYPORT_INBOUND_LISTEN', address, arrive);
  };
  return { inbound: inboundListen === null ? null : await openRedirected(inboundListen), ports, admin: adminAddress };
}

function interfaceAddresses(): string[] {
  return Object.values(networkInterfaces()).flatMap((each) => each?.map(({ address }) => address) ?? []);
}

/** The Pod declares the port or has it probed, a Server selects it, or it is listed. */
function isDeclared(port: number, { loopbackPorts }: Config, { podFacts, authorizer }: FollowedPolicy): boolean {
  const { containerPorts, namedPorts, probes } = podFacts.current();
  return (
    containerPorts.has(port) ||
    probes.has(port) ||
    loopbackPorts.has(port) ||
    authorizer.port(port).server.kind !== 'default' ||
    [...namedPorts.values()].some((ports) => ports.includes(port))
  );
}
