import { connectionCosts, type MemoryPlan, memoryPlan, requestCost } from '../memory-plan.ts';
import type { Host } from './host.ts';
import type { ConfigFault, VariableReader } from './variables.ts';

/** Descriptors that the proxy needs for itself: listeners, files, its threads, the admin and health servers. */
const ownDescriptors = 64;

/** Below this nothing could be served at all. */
const leastConnections = 8;

/** Shaped as the data plane wants it (lib/proxy/limits.ts). Times in milliseconds, Infinity where off. */
export function readLimits(reader: VariableReader, host: LimitingHost, workers: number) {
  const get = reader.get.bind(reader);
  const plan = memoryPlan(host.memoryBytes(), host.heapBytes(), workers);
  const maxConnectionBytes = get('SALLYPORT_MAX_CONNECTION_BYTES') ?? plan.connections;
  // Every client may need one more descriptor towards the app.
  const half = Math.floor((host.descriptors() - ownDescriptors) / 2);
  const roomFor = (bytes: number, cost: number): number => Math.max(leastConnections, Math.floor(bytes / cost));
  const maxConnections =
    get('SALLYPORT_MAX_CONNECTIONS') ??
    Math.max(leastConnections, Math.min(half, roomFor(maxConnectionBytes, connectionCosts.plain)));
  const requests = roomFor(plan.requests, requestCost);
  const limits = Object.freeze({
    maxConnections,
    maxConnectionBytes,
    maxConnectionsPerClient:
      get('SALLYPORT_MAX_CONNECTIONS_PER_CLIENT') ?? Math.max(leastConnections, Math.floor(maxConnections / 2)),
    maxDetecting:
      get('SALLYPORT_MAX_DETECTING') ?? Math.min(10_000, roomFor(maxConnectionBytes, connectionCosts.plain)),
    maxHandshakes:
      get('SALLYPORT_MAX_HANDSHAKES') ?? Math.min(5000, roomFor(maxConnectionBytes / 2, connectionCosts.handshake)),
    maxPendingConnects: get('SALLYPORT_MAX_PENDING_CONNECTS') ?? Math.min(10_000, requests),
    maxInFlight: get('SALLYPORT_MAX_IN_FLIGHT') ?? Math.min(100_000, requests),
    maxHeaderBytes: get('SALLYPORT_MAX_HEADER_BYTES'),
    maxHeaderFields: get('SALLYPORT_MAX_HEADER_FIELDS'),
    headerTimeoutMs: get('SALLYPORT_HEADER_TIMEOUT'),
    requestTimeoutMs: get('SALLYPORT_REQUEST_TIMEOUT'),
    stallTimeoutMs: get('SALLYPORT_STALL_TIMEOUT'),
    http1IdleTimeoutMs: get('SALLYPORT_HTTP1_IDLE_TIMEOUT'),
    http2IdleTimeoutMs: get('SALLYPORT_HTTP2_IDLE_TIMEOUT'),
    tunnelIdleTimeoutMs: get('SALLYPORT_TUNNEL_IDLE_TIMEOUT'),
    maxConnectionAgeMs: get('SALLYPORT_MAX_CONNECTION_AGE'),
    maxStreams: get('SALLYPORT_MAX_STREAMS'),
    maxResets: get('SALLYPORT_MAX_RESETS'),
    maxBufferedBytes: get('SALLYPORT_MAX_BUFFERED_BYTES') ?? plan.waiting,
  });
  return { limits, warnings: [...beyondMachine(limits, host), ...shortMemory(plan, host)] };
}

type LimitingHost = Pick<Host, 'descriptors' | 'memoryBytes' | 'heapBytes'>;

/** The program takes most of what there is. */
function shortMemory({ kind, program }: MemoryPlan, host: LimitingHost): readonly ConfigFault[] {
  if (kind === 'ample') return [];
  const message = `${host.memoryBytes()} bytes of memory are too few: the program alone takes ${program}`;
  const hint = 'allow it 128Mi, and 36Mi for each further worker; with less few clients are served at a time';
  return [{ variable: 'SALLYPORT_MAX_CONNECTION_BYTES', code: 'short-memory', message, hint }];
}

/** What was asked for, and is reached by no means: the machine gives out before. */
function beyondMachine(
  { maxConnections, ...bytes }: Readonly<Record<'maxConnections' | 'maxConnectionBytes' | 'maxBufferedBytes', number>>,
  host: LimitingHost,
): readonly ConfigFault[] {
  const warnings: ConfigFault[] = [];
  const code = 'beyond-machine';
  const [descriptors, memory] = [host.descriptors(), host.memoryBytes()];
  if (maxConnections > Math.max(leastConnections, descriptors - ownDescriptors)) {
    const message = `${maxConnections} connections are more than ${descriptors} file descriptors allow, of which ${ownDescriptors} are kept`;
    const hint = 'raise their limit (ulimit -n), or ask for fewer; without descriptors no probe is answered';
    warnings.push({ variable: 'SALLYPORT_MAX_CONNECTIONS', code, message, hint });
  }
  for (const [variable, asked] of [
    ['SALLYPORT_MAX_CONNECTION_BYTES', bytes.maxConnectionBytes],
    ['SALLYPORT_MAX_BUFFERED_BYTES', bytes.maxBufferedBytes],
  ] as const) {
    if (asked <= memory) continue;
    const message = `${asked} bytes are more than the memory, of ${memory}`;
    warnings.push({ variable, code, message, hint: 'ask for a part of the memory' });
  }
  return warnings;
}
