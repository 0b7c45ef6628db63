import { policyTest } from '../policy/documents/types.ts';
import { defaultPolicies } from '../policy/workload.ts';
import {
  anyText,
  byType,
  type Field,
  field,
  itemText,
  type JsonSchema,
  type Located,
  listOf,
  mapOf,
  oneOrMany,
  oneWord,
  type RecordOf,
  record,
  someOrNone,
  someText,
  truth,
  whole,
} from './shape.ts';

/* What a policy test may say: one table for the reader, the JSON Schema and the page. */

const portNumber = whole(1, 65_535);
const account = record(
  {
    name: field(someText, "the ServiceAccount's name"),
    namespace: field(someText, "its namespace; the pod's where absent"),
  },
  { name: 'Write name: and the name of the ServiceAccount.' },
);

/** Who asks. Several values stand for a client each. */
const clientFields = {
  client: field(oneOrMany(anyText), "the client's address"),
  identity: field(oneOrMany(anyText), 'the name in its certificate, DNS or spiffe://'),
  serviceAccount: field(
    oneOrMany(byType('NAMESPACE/NAME or { name, namespace }', { text: someText, mapping: account })),
    "NAMESPACE/NAME, NAME of the pod's namespace, or { name, namespace }, in place of an identity",
  ),
  tls: field(
    oneOrMany(oneWord(['none', 'anonymous', 'passthrough'])),
    'of a client without an identity: none (where absent), anonymous (no certificate) or passthrough (another name)',
  ),
} as const;

const askedFields = {
  port: field(
    oneOrMany(byType('a port or its name', { text: someText, count: portNumber })),
    "the port that the client connects to, by number or by the pod's name for it",
  ),
  ...clientFields,
  protocol: field(
    oneOrMany(oneWord(['http1', 'http2', 'grpc', 'tcp', 'connect'])),
    'http1 (where absent), http2, grpc, tcp (bytes, no HTTP) or connect (none: a TCP probe)',
  ),
  method: field(oneOrMany(anyText), 'GET, and POST for gRPC, where absent'),
  path: field(oneOrMany(anyText), 'with its query; / where absent'),
  host: field(oneOrMany(anyText), 'of the request'),
  headers: field(mapOf(oneOrMany(anyText)), 'by name; several values of a name are sent together'),
  carries: field(oneOrMany(oneWord(['body', 'upgrade'])), 'body or upgrade, where that comes with the request'),
} as const;

/** Fields that an answer is asked by, in the order in which lists are combined: the first changes slowest. */
export const askedNames = Object.keys(askedFields) as readonly AskedName[];
export type AskedName = keyof typeof askedFields;
export const identityNames = ['identity', 'serviceAccount', 'tls'] as const satisfies readonly AskedName[];

const from = field(
  oneOrMany(byType('everyone, a name of clients, or a client', { text: someText, mapping: record(clientFields) })),
  'whole clients: everyone, names of clients, or { client, identity, serviceAccount, tls }',
);
const named = field(someText, 'what the case is about');

const verdicts = ['permit', 'deny', 'no-route', 'redirect', 'rate-limited', 'invalid', 'refused'] as const;
const verdict = oneWord(verdicts);
// What is permitted, and what is refused over gRPC, is 200: as an expectation that would say nothing.
const status = whole(300, 599, 'Write permit where the application answers, and grpcStatus for gRPC.');
const resource = (what: string) =>
  field(someText, `${what}: its name, KIND/NAME or GROUP/KIND/NAME as explain prints it; none for none`);

const expectation = record({
  verdict: field(verdict, `${verdicts.slice(0, -1).join(', ')}; or refused, which is any but permit`),
  status: field(status, 'the HTTP status that Sallyport answers with'),
  grpcStatus: field(whole(0, 16), 'the same for gRPC'),
  tcp: field(oneWord(['forward', 'close']), 'forward or close, of a connection without requests'),
  audit: field(truth, 'true where it is let in only to be audited'),
  server: resource('the Server'),
  route: resource('the route'),
  rule: field(whole(0, 1_000_000), "the rule's place in its route, from 0"),
  authorization: resource('what admits'),
  failing: field(
    mapOf(oneWord(['identity', 'network', 'reference'])),
    'authorizations that do not admit, each with the clause that fails: identity, network or reference',
  ),
  networkPolicy: resource('a NetworkPolicy that closes the port'),
  reason: field(someText, "a part of explain's reason"),
});

const alternative = record({ name: named, ...askedFields, from });
const testCase = record(
  {
    name: named,
    ...askedFields,
    from,
    'each of': field(listOf(alternative), 'what else is asked, in turn, beside what the case says'),
    repeat: field(whole(1, 100_000), 'ask so often at one instant, as a burst does; the last answer counts'),
    expect: field(
      byType('a verdict, an HTTP status or a mapping', { text: verdict, count: status, mapping: expectation }),
      'the answer: a verdict, an HTTP status, or both and more',
    ),
  },
  { expect: `Write expect: and one of ${verdicts.join(', ')}, or an HTTP status.` },
);

/** Fields of the pod, each with the variable that it stands for. */
export const podFields = {
  manifest: ['SALLYPORT_POD_MANIFEST', field(someText, 'a Pod in YAML, beside the test; fields below win over it')],
  name: ['SALLYPORT_POD_NAME', field(someText, 'of the pod')],
  namespace: ['SALLYPORT_POD_NAMESPACE', field(someText, 'of the pod; default where absent')],
  labels: ['SALLYPORT_POD_LABELS', field(mapOf(anyText), 'by name, for podSelector')],
  ports: ['SALLYPORT_POD_PORTS', field(mapOf(oneOrMany(portNumber)), 'by name')],
  ips: ['SALLYPORT_POD_IPS', field(oneOrMany(itemText), 'what podClusterIp means')],
  nodeIps: ['SALLYPORT_NODE_IPS', field(oneOrMany(itemText), "the node's addresses")],
  probes: ['SALLYPORT_PROBES', field(oneOrMany(itemText), 'probes of the app: PORT/PATH, grpc:PORT, tcp:PORT, …')],
  adminPort: ['SALLYPORT_ADMIN_LISTEN', field(portNumber, "the proxy's own; 4191 where absent")],
  defaultPolicy: ['SALLYPORT_DEFAULT_INBOUND_POLICY', field(oneWord(defaultPolicies), 'for ports without a Server')],
  opaquePorts: [
    'SALLYPORT_OPAQUE_PORTS',
    field(
      someOrNone(byType('a port or a range', { text: itemText, count: portNumber })),
      'never inspected without a Server',
    ),
  ],
  requireIdentityPorts: [
    'SALLYPORT_REQUIRE_IDENTITY_PORTS',
    field(
      oneOrMany(byType('a port or a range', { text: itemText, count: portNumber })),
      'where default policies that admit the unauthenticated ask for an identity',
    ),
  ],
  clusterNetworks: [
    'SALLYPORT_CLUSTER_NETWORKS',
    field(someOrNone(itemText), 'what the default policies of the cluster admit, and what is inside to everyone'),
  ],
  probeNetworks: ['SALLYPORT_PROBE_NETWORKS', field(someOrNone(itemText), 'where probes may come from')],
  probesWithRoutes: ['SALLYPORT_PROBES_WITH_ROUTES', field(truth, 'probes pass where routes are attached, too')],
  authorizeLocalhost: ['SALLYPORT_AUTHORIZE_LOCALHOST', field(truth, 'the implicit localhost authorization')],
  trustDomain: ['SALLYPORT_TRUST_DOMAIN', field(someText, 'ends the identity of a ServiceAccount')],
  controlPlaneNamespace: [
    'SALLYPORT_CONTROL_PLANE_NAMESPACE',
    field(someText, 'part of the identity of a ServiceAccount'),
  ],
} as const satisfies Readonly<Record<string, readonly [variable: string, field: Field<unknown>]>>;

type PodFieldShapes = { readonly [Name in keyof typeof podFields]: (typeof podFields)[Name][1] };
const pod = record(Object.fromEntries(Object.entries(podFields).map(([name, [, of]]) => [name, of])) as PodFieldShapes);

const suite = record(
  {
    apiVersion: field(oneWord([policyTest.apiVersion]), 'needed where the test stands in a folder of policy'),
    kind: field(oneWord([policyTest.kind]), 'with apiVersion'),
    pod: field(pod, 'the pod that the policy is enforced for; no variable of the environment is read'),
    policy: field(oneOrMany(someText), 'files and folders of policy documents, from the folder of the test'),
    clients: field(mapOf(record(clientFields)), 'names for clients, to be used behind from'),
    defaults: field(record({ ...askedFields, from }), 'what cases ask where they say nothing else'),
    cases: field(listOf(testCase), 'what is asked, and the answer that is expected'),
  },
  { cases: 'Write cases: and below it a list of them.' },
);

export const suiteShape = suite;
export type SuiteFields = NonNullable<ReturnType<typeof suite.read>>;
export type PodSettings = RecordOf<PodFieldShapes>;
export type CaseFields = NonNullable<ReturnType<typeof testCase.read>>;
export type AskedFields = RecordOf<typeof askedFields>;
export type ClientFields = RecordOf<typeof clientFields>;
export type FromField = readonly Located<string | ClientFields>[];
export type ExpectationFields = NonNullable<ReturnType<typeof expectation.read>>;

/** The JSON Schema (2020-12) of one document of a test file. */
export function testSchema(): JsonSchema {
  return {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    title: 'Policy test of Sallyport',
    description: 'Questions to a policy with the answers that are expected, for sallyport test.',
    ...suite.schema,
  };
}
