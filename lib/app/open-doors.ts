import type { AddressInfo } from 'node:net';
import { networkInterfaces } from 'node:os';
import type { Config } from '../config/config.ts';
import type { ListenAddress } from '../config/values.ts';
import type { CodedLog } from '../errors/complaint.ts';
import type { AdminApp } from '../ops/admin-app.ts';
import type { HealthServer } from '../ops/health-server.ts';
import type { PolicyAuthorizer } from '../policy/authorizer.ts';
import { type Arrive, adminArrivals, explicitArrivals, redirectedArrivals } from '../proxy/accept/arrivals.ts';
import type { Doors, OtherWorkers } from '../proxy/accept/doors.ts';
import type { Listener } from '../proxy/accept/listener.ts';
import { LocalAddresses } from '../proxy/accept/local-addresses.ts';
import type { OwnEndpoints } from '../proxy/accept/own-endpoints.ts';
import type { Destination } from '../proxy/http/request-pipeline.ts';
import type { Recorder } from '../proxy/recorder.ts';
import { loadSocketCalls, redirectedFrom, tryLoadSocketCalls } from '../proxy/socket-calls.ts';
import type { PodFactsSource } from '../reload/pod-facts.ts';
import { systemAnswer } from '../system-answer.ts';

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

/** The policy in force, and the pod for which it is compiled. */
export interface PolicyInForce {
  readonly authorizer: Pick<PolicyAuthorizer, 'port'>;
  readonly podFacts: Pick<PodFactsSource, 'current'>;
}

interface DoorParts {
  readonly config: Config;
  readonly own: OwnEndpoints;
  readonly policy: PolicyInForce;
  readonly admin: AdminApp;
  readonly warn: CodedLog['warn'];
  readonly recorder: Pick<Recorder, 'strayed'>;
}

/** A listener for the app's clients. */
export interface ClientDoor {
  readonly variable: 'SALLYPORT_INBOUND_PORTS' | 'SALLYPORT_INBOUND_LISTEN';
  readonly listen: ListenAddress;
  readonly arrive: Arrive;
}

/** In the order in which they are of use, the one that is redirected to last. */
export function clientDoors({ config, own, policy, admin, warn, recorder }: DoorParts): readonly ClientDoor[] {
  tryLoadSocketCalls();
  const explicit = config.inboundPorts.map(({ listen, policyPort, app }): ClientDoor => {
    return { variable: 'SALLYPORT_INBOUND_PORTS', listen, arrive: explicitArrivals(listen.host, policyPort, app) };
  });
  const { adminListen, inboundListen } = config;
  if (inboundListen === null) return explicit;
  loadSocketCalls();
  const local = new LocalAddresses(interfaceAddresses);
  const arrive = redirectedArrivals({
    originalDestination: (connected, client) => redirectedFrom(connected, client.ip.family),
    appHost: config.appHost,
    admin: adminListen === null ? null : { port: adminListen.port, destination: destinationOf(admin) },
    pod: () => policy.podFacts.current(),
    isLocal: (ip) => local.has(ip),
    isDeclared: (port) => isDeclared(port, config, policy),
    own,
    warn,
    strayed: (reason) => recorder.strayed(reason),
  });
  return [...explicit, { variable: 'SALLYPORT_INBOUND_LISTEN', listen: inboundListen, arrive }];
}

export interface OpenDoors {
  readonly addresses: Omit<Addresses, 'health'>;
  /** As `clientDoors` has them. */
  readonly listeners: readonly Listener[];
}

/** The admin server's first. */
export async function openDoors(parts: DoorParts, doors: Doors, others: OtherWorkers | null): Promise<OpenDoors> {
  const { config, admin } = parts;
  const { adminListen, inboundListen, inboundPorts } = config;
  const listeners: Listener[] = [];
  const atAdmin =
    adminListen === null
      ? null
      : await doors.open(
          'SALLYPORT_ADMIN_LISTEN',
          adminListen,
          adminArrivals(adminListen.host, adminListen.port, destinationOf(admin)),
        );
  for (const [number, { variable, listen, arrive }] of clientDoors(parts).entries()) {
    listeners.push(await doors.open(variable, listen, arrive, others === null ? null : { number, others }));
  }
  const addresses = listeners.map(({ address }) => address);
  return {
    addresses: {
      inbound: inboundListen === null ? null : (addresses.at(-1) ?? null),
      ports: new Map(inboundPorts.flatMap(({ policyPort }, at) => pairOf(policyPort, addresses[at]))),
      admin: atAdmin?.address ?? null,
    },
    listeners,
  };
}

function pairOf(port: number, address: AddressInfo | undefined): (readonly [number, AddressInfo])[] {
  return address === undefined ? [] : [[port, address]];
}

function destinationOf(admin: AdminApp): Destination {
  return { kind: 'in-process', application: admin };
}

function interfaceAddresses(): readonly string[] | null {
  const found = systemAnswer(networkInterfaces);
  return found && Object.values(found).flatMap((each) => each?.map(({ address }) => address) ?? []);
}

/** The Pod declares the port or has it probed, a Server selects it, or it is listed. */
function isDeclared(port: number, { loopbackPorts }: Config, { podFacts, authorizer }: PolicyInForce): boolean {
  const { containerPorts, namedPorts, probes } = podFacts.current();
  return (
    containerPorts.has(port) ||
    probes.has(port) ||
    loopbackPorts.has(port) ||
    authorizer.port(port).server.kind !== 'default' ||
    [...namedPorts.values()].some((ports) => ports.includes(port))
  );
}
