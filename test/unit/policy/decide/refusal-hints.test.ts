import t from 'tap';
import type { Client } from '../../../../lib/client.ts';
import type { Workload } from '../../../../lib/policy/workload.ts';
import { account, httpProbes, ip, load, plainFacts, policy, server } from '../../../support/policy-fixtures.ts';

/* What a refusal says is likely to be wrong with the policy: to whoever reads its line, and deciding nothing. */

const mesh = (name: string): Client['tls'] => ({ kind: 'mesh', identity: { form: 'dns', name: account(name) } });
const plain: Client['tls'] = { kind: 'none', reason: 'no_tls_from_remote' };

interface Row {
  readonly title: string;
  readonly documents: string;
  readonly workload?: Partial<Workload>;
  readonly tls?: Client['tls'];
  readonly path?: string;
  readonly port?: number;
  /** Undefined: nothing is said. */
  readonly hint: RegExp | undefined;
}

const checkout = policy('checkout-only', 'kind: Server, name: web', '{kind: ServiceAccount, name: checkuot}');
const others = ['a', 'b', 'c']
  .map((name) =>
    server()
      .replace('name: web', `name: ${name}`)
      .replace('matchLabels: {app: web}', `matchLabels: {app: shop-${name}, x: y}`),
  )
  .join('');

const rows: readonly Row[] = [
  {
    title: 'a pod label misspelt',
    documents: server().replace('{matchLabels: {app: web}}', '{matchLabels: {app: wbe}}'),
    hint: /^Server web does not apply: the podSelector does not select pod web-0\. Did you mean "app=web"\?$/,
  },
  {
    title: 'another label alone: it may be of this pod',
    documents: server().replace('{matchLabels: {app: web}}', '{matchLabels: {team: billing, zone: a}}'),
    hint: /^Server web does not apply: .*Compare it with the labels of the pod/,
  },
  {
    title: 'a port name misspelt',
    documents: server().replace('port: 8080', 'port: htpp'),
    hint: /^Server web does not apply: pod web-0 has no port named "htpp".*Did you mean "http"\?$/,
  },
  { title: 'Servers of other pods', documents: others, hint: undefined },
  {
    title: 'one misspelt among those of other pods',
    documents: others + server().replace('{matchLabels: {app: web}}', '{matchLabels: {app: wbe}}'),
    hint: /^Server web does not apply: [^:]*Did you mean "app=web"\?$/,
  },
  {
    title: 'a Server for another port',
    documents: server().replace('{matchLabels: {app: web}}', '{matchLabels: {app: wbe}}'),
    port: 9090,
    hint: undefined,
  },
  { title: 'no Server at all', documents: '', hint: undefined },
  {
    title: 'a ServiceAccount misspelt',
    documents: server() + checkout,
    tls: mesh('checkout'),
    hint: /^checkout-only names checkuot\.shop\..*, which is nearly checkout\.shop\.[^:]*: correct the one that is misspelt\.$/,
  },
  { title: 'another ServiceAccount', documents: server() + checkout, tls: mesh('billing'), hint: undefined },
  { title: 'a client without TLS', documents: server() + checkout, tls: plain, hint: undefined },
  {
    title: "a probe's path",
    documents: server(),
    workload: { probes: new Map([[8080, httpProbes('/healthz')]]) },
    path: '/health',
    hint: /^The probe of this port is declared for \/healthz: /,
  },
];

t.test('each mistake is named, and nothing else', async (t) => {
  for (const { title, documents, workload, tls = plain, path = '/', port = 8080, hint } of rows) {
    const { authorizer } = load(documents, { probes: new Map(), ...workload });
    const of = authorizer.port(port);
    const client = { ip: ip('10.20.0.5'), tls };
    const facts = { ...plainFacts, path };
    const decision = authorizer.request(of, client, facts);
    t.equal(decision.kind, 'deny', title);
    const reasons = authorizer.requestReasons(of, client, facts, decision);
    if (hint === undefined) t.notOk('hint' in reasons, `${title}: ${reasons.hint}`);
    else t.match(reasons.hint, hint, title);
    if (path === '/') t.equal(authorizer.connectionReasons(of, client).hint, reasons.hint, `${title}: of a connection`);
  }
});

t.test('a thousand names and Servers make no hint dear', async (t) => {
  const many = Array.from({ length: 1000 }, (_, i) =>
    server().replace('name: web', `name: s${i}`).replace('app: web', 'app: wbe'),
  );
  const { authorizer } = load(many.join(''), { probes: new Map() });
  const client = { ip: ip('10.20.0.5'), tls: plain };
  const of = authorizer.port(8080);
  const decision = authorizer.request(of, client, plainFacts);
  const { hint = '' } = authorizer.requestReasons(of, client, plainFacts, decision);
  t.ok(hint.length < 500, hint);
});
