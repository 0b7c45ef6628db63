import type { AddressInfo, Socket } from 'node:net';
import type { Config } from './config/config.ts';
import type { Host } from './config/host.ts';
import type { InboundPort, ListenAddress } from './config/values.ts';
import { parseIp } from './ip.ts';
import { createAdminApp } from './ops/admin-app.ts';
import { createHealthServer } from './ops/health-server.ts';
import { Readiness } from './ops/readiness.ts';
import { Soundness } from './ops/soundness.ts';
import { createAuthorizer } from './policy/authorizer.ts';
import type { PolicyIndex } from './policy/compile/compile.ts';
import { effectivePolicy } from './policy/effective.ts';
import type { Problem } from './problem.ts';
import { BufferBudget } from './proxy/buffer-budget.ts';
import { type Arrival, type ConnectionServices, serveConnection } from './proxy/connection.ts';
import { guarded, internalFault, onInternalFault, requestFault } from './proxy/guard.ts';
import { FastLane } from './proxy/http1/fast-lane.ts';
import { LibraryLane } from './proxy/http1/library-lane.ts';
import { UpgradeForwarder } from './proxy/http1/upgrade.ts';
import { Http2Lane } from './proxy/http2/lane.ts';
import { limitsOfFaults } from './proxy/limits.ts';
import { type Listener, listen } from './proxy/listener.ts';
import { LiveConnections } from './proxy/live-connections.ts';
import { appEndpoint, isLoopback, loadOriginalDestination } from './proxy/original-destination.ts';
import { type Destination, type HttpConnection, RequestPipeline } from './proxy/request-pipeline.ts';
import type { TlsTermination } from './proxy/tls-termination.ts';
import { isWantOfDescriptors, Upstreams } from './proxy/upstream.ts';
import type { CredentialSource } from './reload/credential-source.ts';
import { createPodFacts } from './reload/pod-facts.ts';
import { createPolicySource } from './reload/policy-source.ts';
import { createAccessLog } from './telemetry/access-log.ts';
import type { Log } from './telemetry/log.ts';
import { type Build, createTelemetry } from './telemetry/metrics.ts';
import { droppedLines } from './telemetry/output.ts';

export interface AppOptions {
  readonly config: Config;
  /** For what is re-read while running: labels file, manifest. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly host: Host;
  readonly log: Log;
  readonly build: Build;
}

export interface App {
  /** Where it really listens, once started; null for what is switched off. */
  readonly addresses: {
    readonly inbound: AddressInfo | null;
    readonly ports: ReadonlyMap<number, AddressInfo>;
    readonly admin: AddressInfo | null;
    readonly health: AddressInfo | null;
  };
  /** Resolves when a stop, begun by `stop` or by the admin server, is over: true when everything drained in time. */
  readonly stopped: Promise<boolean>;
  /** Not ready, no new connections, finish what is in flight, then close. Later calls join the first. */
  stop(): Promise<boolean>;
}

/** Kinds of warnings about redirected connections. */
const mostWarnings = 256;

/** Milliseconds in which a stop still takes requests on connections that are open. */
const lullMs = 1000;

/**
 * The composition root: everything is made, joined and started here, and nowhere else.
 *
 * @throws with a message for the user when a port cannot be bound or the first identity cannot be loaded; what had
 *   been started is stopped again.
 */
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: doors and the stop sequence are to be parts of their own.
export async function startApp(options: AppOptions): Promise<App> {
  const { config, log, build } = options;
  const { logger } = log;
  const soundness = new Soundness();
  const readiness = new Readiness(soundness);

  const telemetry = createTelemetry({
    log: logger,
    accessLog: config.accessLog === 'off' ? null : createAccessLog({ format: config.accessLog }),
    build,
    processStart: Date.now() / 1000 - process.uptime(),
    droppedLogLines: droppedLines,
  });
  const { recorder } = telemetry;
  const ignoreFaults = onInternalFault((fault) => {
    soundness.fault(fault.ended);
    recorder.internalFault(fault);
  });

  // Policy: files → index → authorizer.
  const authorizer = createAuthorizer({ nowMs: () => performance.now() });
  const podFacts = createPodFacts({
    env: options.env,
    initial: config.workload,
    host: options.host,
    onChange: () => void policySource.workloadChanged(),
    onRefused: (refused) => telemetry.podFactsRefused(refused),
    log: logger,
  });
  let index: PolicyIndex | null = null;
  const policySource = createPolicySource({
    path: config.policyPath,
    workload: () => podFacts.current(),
    swap: (next) => {
      index = next;
      authorizer.swap(next);
    },
    onProblems: (problems) => {
      for (const problem of problems) logProblem(problem);
    },
    onLoaded: ({ documents, changed }) => {
      readiness.up('policy');
      telemetry.policyLoaded(authorizer.generation, Date.now() / 1000);
      if (changed) logger.info({ documents, generation: authorizer.generation }, 'Policy loaded');
    },
    onFailed: (reason) => {
      telemetry.policyLoadFailed();
      const kept = authorizer.generation === 0 ? 'nothing is authorized' : 'the last good policy stays in force';
      logger.error({ reason }, `Policy not loaded; ${kept}`);
    },
    onRemoved: (removal) => logger.warn(removal, 'Policy documents removed'),
    onOverdue: (waitingFor) => {
      telemetry.policyOverdue(waitingFor !== null);
      if (waitingFor !== null) logger.error({ waitingFor }, 'Policy load overdue: it has not ended for 15 s');
      else logger.info({}, 'Policy load ended after all');
    },
    log: logger,
  });
  const logProblem = (problem: Problem): void => {
    const { severity, message, ...where } = problem;
    logger[severity === 'error' ? 'error' : 'warn'](where, `Policy: ${message}`);
  };

  // Identity: files → TLS termination.
  let termination: TlsTermination | null = null;
  let anchorIds: readonly string[] = [];
  let anchorsRemoved = 0;
  let credentials: CredentialSource | null = null;
  if (config.identity === null) {
    readiness.up('identity');
  } else {
    // Loaded here alone: what reads certificates takes 3 MB of memory, and many sidecars have none.
    const { TlsTermination } = await import('./proxy/tls-termination.ts');
    const { createCredentialSource } = await import('./reload/credential-source.ts');
    credentials = createCredentialSource({
      ...config.identity,
      names: config.identity.names ?? undefined,
      onLoaded: (loaded) => {
        // One more anchor leaves all sessions as sound as they were; one less puts all in doubt.
        if (anchorIds.some((id) => !loaded.anchorIds.includes(id))) anchorsRemoved++;
        anchorIds = loaded.anchorIds;
        termination = new TlsTermination({
          names: new Set(loaded.names),
          options: loaded.secureContextOptions,
          anchors: { generation: anchorsRemoved, verifies: loaded.verifies },
        });
        telemetry.identityLoaded({ expiresAt: loaded.notAfter, refreshedAt: new Date() });
        readiness.up('identity');
        logger.info({ names: loaded.names, notAfter: loaded.notAfter.toISOString() }, 'Identity loaded');
      },
      onFailed: (faults) => {
        telemetry.identityLoadFailed();
        for (const fault of faults) logger.error(fault, 'Identity not reloaded; the last good one stays in use');
      },
      log: logger,
    });
  }

  // Data plane.
  const ownPorts = new Set<number>();
  const budget = new BufferBudget(config.limits, recorder);
  const live = new LiveConnections(config.limits, recorder);
  const upstreams = new Upstreams({
    connectTimeoutMs: config.connectTimeoutMs,
    limits: config.limits,
    recorder,
    isOwn: (endpoint) => ownPorts.has(endpoint.port) && isThisHost(endpoint.host, podFacts.current().ips),
  });
  const pipeline = new RequestPipeline({ authorizer, upstreams, recorder, limits: config.limits, budget });
  const onBadRequest = (connection: HttpConnection, reason: string): void => {
    const limit = limitsOfFaults.get(reason);
    if (limit !== undefined) pipeline.limitReached(limit, connection);
    connection.scope.badRequest(authorizer.port(connection.policyPort), reason);
  };
  // Nothing follows a message that could not be read.
  const onBrokenHttp1 = (connection: HttpConnection, reason: string): void => {
    onBadRequest(connection, reason);
    connection.scope.brokenProtocol();
  };
  const upgrades = new UpgradeForwarder(pipeline, upstreams);
  const library = new LibraryLane({ pipeline, upgrades, onBadRequest: onBrokenHttp1 });
  const http1 = config.fastLane ? new FastLane({ pipeline, upstreams, library, onBadRequest: onBrokenHttp1 }) : library;
  const http2 = new Http2Lane({ pipeline, upstreams, onBadRequest });
  const services: ConnectionServices = {
    authorizer,
    recorder,
    http1,
    http2,
    upstreams,
    live,
    tls: () => termination,
    watch: {
      budget,
      limits: config.limits,
      limitReached: recorder.limitReached,
      anchors: () => termination?.anchors ?? null,
    },
    detectTimeoutMs: config.detectTimeoutMs,
  };
  authorizer.onChange(guarded('a change of policy', null, () => live.recheckAll()));

  // Doors: each listener knows what stands behind it.
  const admin = createAdminApp({
    ready: () => readiness.state(),
    live: () => soundness.live,
    metrics: () => telemetry.exposition(),
    policy: () => (index === null ? null : effectivePolicy(index, podFacts.current())),
    log,
    shutdown: () => void stop(),
    failed: (path, error) => requestFault(`the admin server, ${path}`, error),
  });
  const adminDestination: Destination = { kind: 'in-process', application: admin };
  const health = createHealthServer({ ready: () => readiness.state(), live: () => soundness.live });
  const listeners: Listener[] = [];
  const open = async (
    variable: string,
    address: ListenAddress,
    arrive: (socket: Socket) => Arrival | null,
  ): Promise<AddressInfo> => {
    const listener = await bound(variable, address, () =>
      listen({
        host: address.host ?? undefined,
        port: address.port,
        onConnection: (socket) => {
          try {
            const arrival = arrive(socket);
            if (arrival === null) socket.destroy();
            else serveConnection(services, socket, arrival);
          } catch (error) {
            internalFault('a new connection', socket, error);
          }
        },
        onError: (error) => {
          // Node has closed what it could not accept, and goes on listening; the next ones find room if there is any.
          if (isWantOfDescriptors(error)) live.outOfDescriptors();
          else logger.error({ error: error.message }, `Accepting on ${variable} failed`);
        },
      }),
    );
    listeners.push(listener);
    ownPorts.add(listener.address.port);
    return listener.address;
  };
  const openExplicit = ({ listen: address, policyPort, app }: InboundPort): Promise<AddressInfo> => {
    const destination: Destination = { kind: 'app', endpoint: app };
    const at = (ip: string | undefined): Arrival => ({
      targetIp: parseIp(ip ?? '')?.text ?? '',
      policyPort,
      destination,
    });
    // Bound to one address, every connection arrives there, and the kernel need not be asked each time.
    const one = parseIp(address.host ?? '')?.text;
    const fixed = one === undefined || one === '0.0.0.0' || one === '::' ? null : at(one);
    return open('SALLYPORT_INBOUND_PORTS', address, (socket) => fixed ?? at(socket.localAddress));
  };
  const told = new Set<string>();
  /** Once for each; a client cannot make us write a line for each connection. */
  const warnOnce = (fields: { readonly port?: number; readonly ip?: string }, message: string): void => {
    const key = `${fields.port} ${fields.ip} ${message}`;
    if (told.has(key) || told.size >= mostWarnings) return;
    told.add(key);
    logger.warn(fields, message);
  };
  /** The Pod declares the port or has it probed, a Server selects it, or it is listed. */
  const isDeclared = (port: number): boolean => {
    const { containerPorts, namedPorts, probes } = podFacts.current();
    return (
      containerPorts.has(port) ||
      probes.has(port) ||
      config.loopbackPorts.has(port) ||
      authorizer.port(port).server.kind !== 'default' ||
      [...namedPorts.values()].some((ports) => ports.includes(port))
    );
  };
  const openRedirected = (address: ListenAddress): Promise<AddressInfo> => {
    const originalDestination = loadOriginalDestination();
    return open('SALLYPORT_INBOUND_LISTEN', address, (socket) => {
      const target = originalDestination(socket);
      // Not redirected, or meant for this port itself: forwarding would come back here.
      if (target === null || target.port === socket.localPort) return null;
      if (target.port === config.adminListen?.port) {
        return { targetIp: target.ip.text, policyPort: target.port, destination: adminDestination };
      }
      const { ips, ipsStated } = podFacts.current();
      const { ip, port } = target;
      if (ipsStated && !isLoopback(ip.text) && !ips.some(({ text }) => text === ip.text)) {
        warnOnce(
          { ip: ip.text },
          'Connections meant for an address that is not of the pod are closed (SALLYPORT_POD_IPS)',
        );
        return null;
      }
      // The app would be this proxy. Whatever listens there should have been left out of the redirection.
      if (ownPorts.has(port) && isThisHost(appEndpoint(config.appHost, target, () => true).host, [ip, ...ips])) {
        warnOnce({ port }, 'Connections to a port on which this proxy itself listens are redirected; they are closed');
        return null;
      }
      const endpoint = appEndpoint(config.appHost, target, () => {
        if (isDeclared(port)) return true;
        warnOnce(
          { port },
          'Nothing declares this port: what listens there on loopback alone is not reached (SALLYPORT_LOOPBACK_PORTS)',
        );
        return false;
      });
      return { targetIp: ip.text, policyPort: port, destination: { kind: 'app', endpoint } };
    });
  };

  const closeEverything = async (): Promise<void> => {
    await Promise.allSettled([
      policySource.stop(),
      podFacts.stop(),
      credentials?.stop(),
      upstreams.close(),
      health.close(),
    ]);
    http1.close();
    http2.close();
    budget.close();
    live.close();
    ignoreFaults();
  };

  let stopping: Promise<boolean> | null = null;
  let settleStopped: (drained: boolean) => void = () => {};
  const stopped = new Promise<boolean>((resolve) => {
    settleStopped = resolve;
  });
  const stop = (): Promise<boolean> => {
    stopping ??= (async () => {
      readiness.drain();
      logger.info({ connections: live.size }, 'Draining');
      const closed = listeners.map((listener) => listener.close());
      // Clients that are about to send get served, and told to go elsewhere; only then are idle connections closed.
      // Closing them at once would lose the requests that are on their way.
      const startedAt = performance.now();
      http1.drain();
      live.announceDrain();
      await live.empty(Math.min(lullMs, config.shutdownGracePeriodMs / 2));
      http1.closeIdle();
      const left = config.shutdownGracePeriodMs - (performance.now() - startedAt);
      const drained = await live.drain(Math.max(0, left));
      if (!drained) logger.warn({ connections: live.size }, 'Grace period over; remaining connections were cut');
      await Promise.allSettled(closed);
      await closeEverything();
      logger.info({ drained }, 'Stopped');
      settleStopped(drained);
      return drained;
    })();
    return stopping;
  };

  try {
    const healthListen = config.healthListen;
    const healthAddress =
      healthListen === null
        ? null
        : await bound('SALLYPORT_HEALTH_LISTEN', healthListen, () =>
            health.listen(healthListen.host ?? '::', healthListen.port),
          );
    if (healthAddress !== null) ownPorts.add(healthAddress.port);
    await credentials?.start();
    await policySource.start();
    podFacts.start();
    const ports = new Map<number, AddressInfo>();
    for (const port of config.inboundPorts) ports.set(port.policyPort, await openExplicit(port));
    const adminListen = config.adminListen;
    const adminAddress =
      adminListen === null
        ? null
        : await open('SALLYPORT_ADMIN_LISTEN', adminListen, () => ({
            targetIp: adminListen.host ?? '0.0.0.0',
            policyPort: adminListen.port,
            destination: adminDestination,
          }));
    const inboundAddress = config.inboundListen === null ? null : await openRedirected(config.inboundListen);
    readiness.up('listeners');
    return {
      addresses: { inbound: inboundAddress, ports, admin: adminAddress, health: healthAddress },
      stopped,
      stop,
    };
  } catch (error) {
    await Promise.allSettled(listeners.map((listener) => listener.close()));
    await closeEverything();
    throw error;
  }
}

/** Names the variable and the remedy when an address cannot be bound. */
async function bound<T>(variable: string, address: ListenAddress, bind: () => Promise<T>): Promise<T> {
  try {
    return await bind();
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? '';
    const where = `${address.host ?? '*'}:${address.port}`;
    const why =
      code === 'EADDRINUSE'
        ? 'something else listens there; stop it or choose another port'
        : code === 'EACCES'
          ? 'ports below 1024 need CAP_NET_BIND_SERVICE; choose a higher one'
          : (error as Error).message;
    throw new Error(`${variable}: cannot listen on ${where}: ${why}`, { cause: error });
  }
}

/** Whether an endpoint's host is this machine: loopback, unspecified, or one of the pod's addresses. */
function isThisHost(host: string, own: readonly { readonly text: string }[]): boolean {
  if (isLoopback(host)) return true;
  const text = parseIp(host)?.text;
  return own.some((ip) => ip.text === text);
}
