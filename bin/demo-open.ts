import { shellWord } from './shell-word.ts';

/*
 * `demo --open`: a pod that nobody has written a policy for yet, so that everybody gets in, and all that is needed to find
 * one: it records what it decides, and decides a candidate beside that.
 */

const openPolicy = `# Nothing is said of port http here: the default policy of this demo lets everybody in.
apiVersion: v1
kind: Namespace
metadata: { name: demo }
`;
const noCandidate = `# The candidate, which is decided beside policy.yaml and changes nothing. Until something else stands here, both say the same.
${openPolicy.slice(openPolicy.indexOf('api'))}`;

/** Of the policy that `suggest` makes of what the clients do. */
const candidateTest = `# What the policy is meant to say, written before it: sallyport test asks it.
apiVersion: sallyport.dev/v1alpha1
kind: PolicyTest
pod:
  name: web-0
  namespace: demo
  labels: { app: web }
  ports: { http: PORT }
  ips: 127.0.0.1
  authorizeLocalhost: false
policy: suggested.yaml
clients:
  orders: { serviceAccount: demo/orders }
defaults: { port: http, client: 10.1.2.3 }
cases:
  - name: orders may read any order
    from: orders
    path: /orders/4711
    expect: permit
  - name: and make one
    from: orders
    path: /orders
    method: POST
    expect: permit
  - name: nobody else may
    from: [everyone]
    path: /orders/4711
    expect: refused
  - name: nobody deletes orders
    from: [everyone, orders]
    path: /orders/4711
    method: DELETE
    expect: refused
`;

export interface OpenDemo {
  readonly proxyPort: number;
  readonly curl: string;
  /** What curl needs to come as the ServiceAccount `orders`, and the address that it then asks. */
  readonly asOrders: string;
  readonly origin: string;
}

/** Files of the folder besides certificates, by name. */
export function openFiles({ proxyPort, curl, asOrders, origin }: OpenDemo): ReadonlyMap<string, string> {
  const status = `${curl} -s -o /dev/null -w '%{http_code} %{method} %{url}\\n'`;
  return new Map([
    ['policy.yaml', openPolicy],
    ['candidate.yaml', noCandidate],
    ['policy-test.yaml', candidateTest.replace('PORT', String(proxyPort))],
    [
      'pod.env',
      `export SALLYPORT_POD_NAMESPACE=demo SALLYPORT_POD_LABELS=app=web SALLYPORT_POD_PORTS=http=${proxyPort}
export SALLYPORT_POD_IPS=127.0.0.1 SALLYPORT_AUTHORIZE_LOCALHOST=false SALLYPORT_DEFAULT_INBOUND_POLICY=all-unauthenticated
`,
    ],
    [
      'clients.sh',
      `# What the clients of the app do all day.
${status} http://127.0.0.1:${proxyPort}/public/hello
for order in 1 2 3; do ${status} ${asOrders} ${origin}/orders/$order; done
${status} ${asOrders} -d amount=1 ${origin}/orders
`,
    ],
  ]);
}

/** Settings besides those of every demo. */
export function openSettings(file: (name: string) => string): Readonly<Record<string, string>> {
  return {
    SALLYPORT_DEFAULT_INBOUND_POLICY: 'all-unauthenticated',
    SALLYPORT_DECISIONS: 'all',
    SALLYPORT_DECISIONS_FILE: file('decisions.jsonl'),
    SALLYPORT_CANDIDATE_POLICY: file('candidate.yaml'),
  };
}

export function openInstructions(folder: string, adminPort: number, curl: string): string {
  return `Everybody gets in. In another terminal, from what the clients do to a policy for them:

  cd ${shellWord(folder)} && . ./pod.env
  sh clients.sh
  sallyport suggest decisions.jsonl > suggested.yaml
  sallyport test policy-test.yaml
  sallyport diff policy.yaml suggested.yaml
  cp suggested.yaml candidate.yaml
  ${curl} -s 'http://127.0.0.1:${adminPort}/candidate?format=text'

The candidate is decided beside the policy and changes nothing; what it would refuse is on that page.
Copied to policy.yaml, it is in force. Ctrl-C ends the demo.
`;
}
