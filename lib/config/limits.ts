import type { Host } from './host.ts';
import type { ConfigFault, VariableReader } from './variables.ts';

/** Descriptors that the proxy needs for itself: listeners, files, its threads, the admin and health servers. */
const ownDescriptors = 64;

/** Below this nothing could be served at all. */
const leastConnections = 8;

/** Shaped as the data plane wants it (lib/proxy/limits.ts). Times in milliseconds, Infinity where off. */
export function readLimits(reader: VariableReader, host: Pick<Host, 'descriptors' | 'memoryBytes'>) {
  const get = reader.get.bind(reader);
  // Every client may need one more towards the app.
  const half = Math.floor((host.descriptors() - ownDescriptors) / 2);
  const maxConnections = get('SALLYPORT_MAX_CONNECTIONS') ?? Math.max(leastConnections, half);
  const quarterOfMemory = Math.floor(host.memoryBytes() / 4);
  const limits = Object.freeze({
    maxConnections,
    maxConnectionsPerClient:
      get('SALLYPORT_MAX_CONNECTIONS_PER_CLIENT') ?? Math.max(leastConnections, Math.floor(maxConnections / 2)),
    maxDetecting: get('SALLYPORT_MAX_DETECTING'),
    maxHandshakes: get('SALLYPORT_MAX_HANDSHAKES'),
    maxPendingConnects: get('SALLYPORT_MAX_PENDING_CONNECTS'),
    maxInFlight: get('SALLYPORT_MAX_IN_FLIGHT'),
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
    maxBufferedBytes:
      get('SALLYPORT_MAX_BUFFERED_BYTES') ?? Math.min(256 * 1024 * 1024, Math.max(8 * 1024 * 1024, quarterOfMemory)),
  });
  return { limits, warnings: beyondMachine(limits, host) };
}

/** What was asked for, and is reached by no means: the machine gives out before. */
function beyondMachine(
  { maxConnections, maxBufferedBytes }: { readonly maxConnections: number; readonly maxBufferedBytes: number },
  host: Pick<Host, 'descriptors' | 'memoryBytes'>,
): readonly ConfigFault[] {
  const warnings: ConfigFault[] = [];
  const code = 'beyond-machine';
  const [descriptors, memory] = [host.descriptors(), host.memoryBytes()];
  if (maxConnections > Math.max(leastConnections, descriptors - ownDescriptors)) {
    const message = `${maxConnections} connections are more than ${descriptors} file descriptors allow, of which ${ownDescriptors} are kept`;
    const hint = 'raise their limit (ulimit -n), or ask for fewer; without descriptors no probe is answered';
    warnings.push({ variable: 'SALLYPORT_MAX_CONNECTIONS', code, message, hint });
  }
  if (maxBufferedBytes > memory) {
    const message = `${maxBufferedBytes} bytes are more than the memory, of ${memory}`;
    warnings.push({ variable: 'SALLYPORT_MAX_BUFFERED_BYTES', code, message, hint: 'ask for a part of the memory' });
  }
  return warnings;
}
