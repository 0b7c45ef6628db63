import { type RecordedCheck, type RecordedWorld, recordedDecision } from './linkerd-cases.ts';
import { isSame, load } from './linkerd-worlds.ts';
import type { PolicyCase, PolicyCases, SingleCheck, SingleExpectation } from './policy-cases.ts';

/** Recorded worlds as cases that run on the wire; what is decided otherwise on purpose is left out. */
export function wireCases(worlds: readonly RecordedWorld[], checksEach: number): PolicyCases {
  const cases = worlds.map((world) => wireCase(world, checksEach)).filter(({ checks }) => checks.length > 0);
  const [{ settings, pod } = worlds[0] as RecordedWorld] = worlds;
  return { defaults: { settings: { ...settings, detectTimeout: '10s' }, pod }, cases };
}

/** What any HTTP/2 client says first: RFC 9113 section 3.4, with empty SETTINGS. */
const preface = 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\u0000\u0000\u0000\u0004\u0000\u0000\u0000\u0000\u0000';

function wireCase(world: RecordedWorld, checksEach: number): PolicyCase {
  const { ask } = load(world);
  const checks = world.checks.flatMap((check): SingleCheck[] => {
    const wanted = recordedDecision(check);
    const answer = check.request.dst_ip === undefined ? ask(check) : null;
    if (answer === null || !isSame(wanted, answer)) return [];
    const expect = expectation(check, answer.authz?.name);
    const { id } = check;
    // The name is one of the app's; the recording client's payload was its handshake.
    const passthrough = check.client.tls === 'passthrough';
    const client = passthrough ? { ...check.client, sni: 'db.example.com' } : check.client;
    const request = passthrough ? { ...check.request, payload: 'ping' } : check.request;
    if (expect === null) return [];
    // Of a session that ends before its first request, node:http2 does not always tell the request.
    const silent = expect.wire === 'closed' && (request.proto === 'http/2' || request.proto === 'grpc');
    return [{ id, client, request: silent ? { ...request, proto: 'tcp', payload: preface } : request, expect }];
  });
  const stride = Math.max(1, Math.floor(checks.length / checksEach));
  const { annotations = {} } = world.pod.metadata as { readonly annotations?: Readonly<Record<string, string>> };
  return {
    id: world.id,
    title: world.title ?? '',
    tags: [],
    settings: world.settings,
    pod: world.pod,
    podAnnotations: annotations,
    resources: world.resources,
    rejected: world.refused.map(({ doc }) => doc),
    checks: checks.filter((_, i) => i % stride === 0),
  };
}

/** Null for what this side of the wire cannot reproduce: clients that failed themselves, answers that are the app's own. */
function expectation({ linkerd, request }: RecordedCheck, credited: string | undefined): SingleExpectation | null {
  const [counted] = linkerd.counters;
  if (counted === undefined || !(request.path ?? '/').startsWith('/')) return null;
  const { metric, labels } = counted;
  const own = Object.entries(labels).filter(([label]) => /^(?:srv|route|authz)_/.test(label));
  const about = Object.entries(labels).filter(([label]) => !/^(?:srv|route|authz)_/.test(label));
  const common = {
    metric,
    labels: {
      ...Object.fromEntries(own),
      srv_port: String(request.port),
      // Linkerd credits any one of those that cover the client.
      ...(labels.authz_name === undefined || credited === undefined ? {} : { authz_name: credited }),
    },
    tls: Object.fromEntries(about),
  };
  switch (linkerd.outcome) {
    case 'tcp':
      return { ...common, decision: 'allow', wire: 'tcp' };
    case 'closed':
      return metric === 'inbound_tcp_authz_deny_total' ? { ...common, decision: 'deny', wire: 'closed' } : null;
    case 'http 200 app':
      return { ...common, decision: 'allow', wire: 'http', status: 200 };
    case 'http 200 grpc=0 app':
      return { ...common, decision: 'allow', wire: 'grpc', status: 200, grpc_status: 0 };
    case 'http 403':
      return { ...common, decision: 'deny', wire: 'http', status: 403 };
    case 'http 200 grpc=7':
      return { ...common, decision: 'deny', wire: 'grpc', status: 200, grpc_status: 7 };
    case 'http 404':
      return { ...common, decision: 'not-found', wire: 'http', status: 404 };
    case 'http 200 grpc=5':
      return { ...common, decision: 'not-found', wire: 'grpc', status: 200, grpc_status: 5 };
    default:
      return null;
  }
}
