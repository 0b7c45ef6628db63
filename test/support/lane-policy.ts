import { ParameterNames } from '../../lib/policy/decide/asked-parameters.ts';
import type {
  Authorizer,
  ConnectionDecision,
  HeaderChanges,
  PortPolicy,
  PortProtocol,
  RequestDecision,
  RequestFacts,
} from '../../lib/policy/decision.ts';
import { patience } from './until.ts';

const resource = { group: 'policy.linkerd.io', kind: 'server', name: 'web' };

/** Decides by the path alone, and refuses those of `/DENIED`; everything else about a decision is fixed. */
export function lanePolicy(
  protocol: PortProtocol,
  headerChanges: HeaderChanges | null,
  onFacts: (facts: RequestFacts, when: 'at first' | 'again') => void = () => {},
  detectTimeoutMs = 1000 * patience(),
): { readonly authorizer: Authorizer; change(refuses: (path: string) => boolean): void } {
  let policy: PortPolicy = {
    port: 8080,
    server: resource,
    protocol,
    detectTimeoutMs,
    hasRequestRules: true,
    decisionsLast: true,
    rateLimit: null,
    asks: { headers: [], query: new ParameterNames([]), spells: () => false },
  };
  let generation = 1;
  let refuses = (_path: string): boolean => false;
  const permit = {
    kind: 'permit',
    server: resource,
    route: resource,
    authz: resource,
    audit: false,
    probe: null,
    headerChanges,
  };
  const deny = { kind: 'deny', server: resource, route: resource };
  // Only policy makes permits; a test must forge them.
  const decide = (facts: RequestFacts, when: 'at first' | 'again'): RequestDecision => {
    onFacts(facts, when);
    const isDenied = facts.path.startsWith('/DENIED') || refuses(facts.path);
    return (isDenied ? deny : permit) as unknown as RequestDecision;
  };
  const reasons = () => ({ reason: '', candidates: [], rule: null });
  const authorizer: Authorizer = {
    get generation() {
      return generation;
    },
    admits: () => ({ kind: 'admitted' }),
    admissionReasons: reasons,
    port: () => policy,
    // Bytes without requests go on where they are declared as such.
    connection: () => (protocol === 'opaque' ? permit : deny) as unknown as ConnectionDecision,
    probes: () => ({ silence: false, tls: false }),
    request: (_policy, _client, facts) => decide(facts, 'at first'),
    requestAgain: (_policy, _client, facts) => decide(facts, 'again'),
    connectionReasons: reasons,
    requestReasons: reasons,
    onChange: () => () => {},
  };
  const change = (other: (path: string) => boolean): void => {
    refuses = other;
    // As one with a rate limit: nobody keeps its decisions.
    policy = { ...policy, decisionsLast: false };
    generation += 1;
  };
  return { authorizer, change };
}
