import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import net from 'node:net';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { workloadCertificate, workloadName } from '../../support/certificates.ts';
import { startChild } from '../../support/children.ts';
import { identityEnvironment, temporaryFolder } from '../../support/files.ts';
import { freePort } from '../../support/ports.ts';
import { bareEnvironment, runSallyport, sallyportCommand, startSallyport } from '../../support/sallyport.ts';

/** Questions as people have them: names in capitals, port names, networks, lines of our own logs. */

const documents = `apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: { name: web, namespace: shop }
spec: { podSelector: {}, port: http }
---
apiVersion: policy.linkerd.io/v1beta3
kind: HTTPRoute
metadata: { name: orders, namespace: shop }
spec:
  parentRefs: [{ group: policy.linkerd.io, kind: Server, name: web }]
  rules: [{ matches: [{ path: { value: /orders } }] }]
---
apiVersion: policy.linkerd.io/v1alpha1
kind: AuthorizationPolicy
metadata: { name: checkout, namespace: shop }
spec:
  targetRef: { group: policy.linkerd.io, kind: HTTPRoute, name: orders }
  requiredAuthenticationRefs: [{ kind: ServiceAccount, name: checkout }]
`;
const identity = workloadName('checkout', 'shop');

function policyFile(t: Test): string {
  const file = join(temporaryFolder(t), 'policy.yaml');
  writeFileSync(file, documents);
  return file;
}

t.test('what is decided, and what is said of the question', async (t) => {
  const file = policyFile(t);
  const base = ['explain', '--policy', file, '--namespace', 'shop', '--pod-port', 'http=8080', '--json'];
  const spiffe = 'spiffe://other.org/ns/shop/sa/checkout';
  interface Row {
    readonly args: readonly string[];
    readonly env?: Record<string, string>;
    readonly verdict: string;
    /** Each with what its message holds. */
    readonly notes?: readonly (readonly [code: string, message: RegExp])[];
  }
  const as = (name: string, ip = '10.1.2.3'): string[] => [
    ...['--port', 'http', '--client', ip, '--path', '/orders', '--identity', name],
  ];
  const rows: readonly Row[] = [
    { args: as(identity), verdict: 'permit' },
    {
      args: as(identity.toUpperCase()),
      verdict: 'permit',
      notes: [['identity-spelling', new RegExp(`decided for ${identity}$`)]],
    },
    {
      args: as('foo bar'),
      verdict: 'deny',
      notes: [['no-identity-name', /no certificate gives the identity "foo bar"/]],
    },
    { args: as('*.shop'), verdict: 'deny', notes: [['no-identity-name', /"\*\.shop"/]] },
    { args: as('10.1.2.3'), verdict: 'deny', notes: [['no-identity-name', /"10\.1\.2\.3"/]] },
    { args: as('SPIFFE://td/a'), verdict: 'deny', notes: [['no-identity-name', /"SPIFFE:/]] },
    { args: as('https://td/a'), verdict: 'deny', notes: [['no-identity-name', /"https:/]] },
    {
      args: as(workloadName('checkout', 'shop').replace('cluster.local', 'other.org')),
      verdict: 'deny',
      notes: [['other-trust-domain', /of the trust domain other\.org, and this proxy is of cluster\.local/]],
    },
    {
      args: as(identity.replace('.linkerd.', '.mesh.')),
      verdict: 'deny',
      notes: [['other-trust-domain', /of the control plane mesh, and this proxy is of linkerd/]],
    },
    { args: as(spiffe), verdict: 'deny', notes: [['other-trust-domain', /of the trust domain other\.org/]] },
    { args: as(spiffe), env: { SALLYPORT_TRUST_DOMAIN: 'other.org' }, verdict: 'deny' },
    { args: as('prometheus.example'), verdict: 'deny' },
    {
      args: as(identity, '10.1.2.3/8'),
      verdict: 'permit',
      notes: [
        ['client-network', /10\.1\.2\.3\/8 has host bits, and is the network 10\.0\.0\.0\/8: .* 10\.1\.2\.3 alone/],
      ],
    },
    {
      args: as(identity, '10.0.0.0/8'),
      verdict: 'permit',
      notes: [['client-network', /10\.0\.0\.0\/8 is a network:/]],
    },
    { args: as(identity, '10.1.2.3/32'), verdict: 'permit' },
    {
      args: as(identity, 'fd00::1/8'),
      verdict: 'permit',
      notes: [
        ['client-network', /fd00::1\/8 has host bits, and is the network fd00::\/8/],
        ['other-family', /fd00::1 cannot reach .* SALLYPORT_INBOUND_LISTEN listens on 0\.0\.0\.0:4143, .* IPv4 alone/],
      ],
    },
    { args: as(identity, 'fd00::1'), env: { SALLYPORT_INBOUND_LISTEN: '[::]:4143' }, verdict: 'permit' },
    { args: as(identity, 'fd00::1'), env: { SALLYPORT_INBOUND_PORTS: '8080=127.0.0.1:1' }, verdict: 'permit' },
    {
      args: as(identity, '10.1.2.3'),
      env: { SALLYPORT_INBOUND_PORTS: '[::1]:8080=127.0.0.1:1' },
      verdict: 'permit',
      notes: [['other-family', /SALLYPORT_INBOUND_PORTS listens on \[::1\]:8080, which takes IPv6 alone/]],
    },
    {
      args: as(identity),
      env: { SALLYPORT_INBOUND_PORTS: '8081=127.0.0.1:1' },
      verdict: 'permit',
      notes: [['no-listener', /nothing listens for port 8080/]],
    },
    { args: ['--port', 'linkerd-admin', '--client', '10.1.2.3'], verdict: 'deny' },
  ];
  for (const { args, env = {}, verdict, notes = [] } of rows) {
    const run = await runSallyport(t, [...base, ...args], env);
    const title = `${args.join(' ')} ${JSON.stringify(env)}`;
    const answer = JSON.parse(run.stdout);
    t.equal(answer.verdict, verdict, title);
    t.equal(run.code, verdict === 'permit' ? 0 : 1, title);
    const given: { code: string; message: string }[] = answer.notes ?? [];
    t.same(
      given.map(({ code }) => code),
      notes.map(([code]) => code),
      title,
    );
    for (const [i, [, message]] of notes.entries()) t.match(given[i]?.message, message, title);
  }
  const text = await runSallyport(t, [...base.filter((arg) => arg !== '--json'), ...as('foo bar')]);
  t.match(
    text.stdout,
    /\n {2}note {5}no certificate gives .* \(write a DNS name, or a SPIFFE ID\) \[no-identity-name\]\n/,
  );
  for (const account of ['shop/checkout', 'system:serviceaccount:shop:checkout']) {
    const { stdout } = await runSallyport(t, [...base.filter((arg) => arg !== '--json'), ...as(account)]);
    t.match(stdout, '(of a ServiceAccount write --service-account NS/NAME, in JSON and in tests serviceAccount)');
  }
});

t.test('a ServiceAccount in place of its identity', async (t) => {
  const file = policyFile(t);
  const base = ['explain', '--policy', file, '--namespace', 'shop', '--pod-port', 'http=8080'];
  const asked = ['--port', 'http', '--client', '10.1.2.3', '--path', '/orders'];
  const rows: readonly (readonly [args: readonly string[], code: number, said: RegExp])[] = [
    [['--service-account', 'shop/checkout'], 0, /^permit\n/],
    [['--service-account', 'checkout'], 0, /^permit\n/],
    [
      ['--service-account', 'bank/checkout'],
      1,
      /was checkout\.bank\.serviceaccount\.identity\.linkerd\.cluster\.local/,
    ],
    [
      ['--service-account', 'shop.bank/checkout'],
      64,
      /--service-account: "shop\.bank\/checkout" is not NAMESPACE\/NAME/,
    ],
    [['--service-account', 'shop/'], 64, /--service-account: "shop\/" is not NAMESPACE\/NAME/],
    [['--service-account', 'a', '--identity', identity], 64, /--service-account: is given together with identity/],
    [['--service-account', 'a', '--tls', 'none'], 64, /--service-account: is given together with tls/],
  ];
  for (const [args, code, said] of rows) {
    const run = await runSallyport(t, [...base, ...asked, ...args]);
    t.equal(run.code, code, args.join(' '));
    t.match(run.stdout + run.stderr, said, args.join(' '));
  }
  const requests = join(temporaryFolder(t), 'requests.jsonl');
  const lines = ['shop/checkout', { name: 'checkout' }, { name: 'checkout', namespace: 'bank' }, 7, []].map(
    (serviceAccount) => `${JSON.stringify({ port: 'http', client: '10.1.2.3', path: '/orders', serviceAccount })}\n`,
  );
  writeFileSync(requests, lines.join(''));
  const { stdout } = await runSallyport(t, [...base, '--requests', requests]);
  const answers = stdout
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
  t.same(
    answers.map(({ verdict, error }) => verdict ?? error),
    [
      ...['permit', 'permit', 'deny', 'line 4: "serviceAccount" 7 is not NAMESPACE/NAME'],
      'line 5: "serviceAccount" a list is not NAMESPACE/NAME',
    ],
  );
});

t.test('port names that the pod does not have', async (t) => {
  const base = ['explain', '--policy', policyFile(t), '--client', '10.1.2.3', '--port'];
  const rows: readonly (readonly [args: readonly string[], said: RegExp])[] = [
    [['htpp', '--pod-port', 'http=80'], /"htpp" is no port of the pod; did you mean http\?/],
    [['grpc'], /"grpc" is no port of the pod; name it with --pod-port grpc=N/],
    [['web', '--pod-port', 'web=80', '--pod-port', 'web=81'], /"web" names several ports: 80, 81/],
    [['80a'], /"80a" is not a port/],
    [['70000'], /"70000" is not a port/],
    [[''], /"" is not a port/],
  ];
  for (const [args, said] of rows) {
    const run = await runSallyport(t, [...base, ...args]);
    t.match(run, { code: 64, stdout: '', stderr: said }, args.join(' '));
  }
});

interface Written {
  readonly log: string;
  readonly access: string;
  readonly port: number;
}

/** Four requests and a connection to a proxy, and what it wrote about them. */
async function traffic(t: Test, format: 'json' | 'plain', access: 'json' | 'apache'): Promise<Written> {
  const own = workloadCertificate('web', 'shop');
  const app = http.createServer((_, response) => response.end('ok')).listen(0, '127.0.0.1');
  await new Promise((resolve) => app.once('listening', resolve));
  t.teardown(() => app.close());
  const port = await freePort();
  const opaque = await freePort();
  const appAt = `127.0.0.1:${(app.address() as net.AddressInfo).port}`;
  const proxy = await startSallyport(t, {
    env: {
      ...identityEnvironment(temporaryFolder(t), own),
      SALLYPORT_POLICY: policyFile(t),
      SALLYPORT_POD_NAMESPACE: 'shop',
      SALLYPORT_POD_PORTS: `http=${port}`,
      SALLYPORT_INBOUND_PORTS: `[127.0.0.1]:${port}=${appAt},[127.0.0.1]:${opaque}=${appAt}`,
      SALLYPORT_OPAQUE_PORTS: String(opaque),
      SALLYPORT_AUTHORIZE_LOCALHOST: 'false',
      SALLYPORT_LOG: 'debug',
      SALLYPORT_LOG_FORMAT: format,
      SALLYPORT_ACCESS_LOG: access,
    },
  });
  const { certificatePem: cert, keyPem: key, trustAnchorsPem: ca } = workloadCertificate('checkout', 'shop');
  const common = { host: '127.0.0.1', port, agent: false };
  const meshed = { ...common, cert, key, ca, servername: workloadName('web', 'shop') };
  const requests = [
    () => http.get({ ...common, path: '/orders/1?a=b' }),
    () => http.get({ ...common, path: '/else%20where' }),
    () => https.get({ ...meshed, path: '/orders/1' }),
    () => https.get({ ...meshed, path: '/else' }),
  ];
  for (const request of requests) {
    const [response] = await once(request(), 'response');
    await once(response.resume(), 'end');
  }
  await once(net.connect(opaque, '127.0.0.1').resume(), 'close');
  await proxy.stop();
  return { log: proxy.child.stdout(), access: proxy.child.stderr(), port };
}

/** The verdict that a line of a log stands for. */
const verdictOf: Readonly<Record<string, string>> = {
  'Request allowed': 'permit',
  'Request denied': 'deny',
  'Request not routed': 'no-route',
  'Connection denied': 'deny',
  '200': 'permit',
  '403': 'deny',
  '404': 'no-route',
};

t.test('lines of the logs are answered as the proxy has answered', async (t) => {
  const rows: readonly (readonly ['json' | 'plain', 'json' | 'apache'])[] = [
    ['json', 'apache'],
    ['plain', 'json'],
  ];
  for (const [format, access] of rows) {
    const written = await traffic(t, format, access);
    const ask = async (text: string, more: readonly string[] = []): Promise<Record<string, string>[]> => {
      const env = {
        SALLYPORT_POLICY: policyFile(t),
        SALLYPORT_POD_NAMESPACE: 'shop',
        SALLYPORT_POD_PORTS: `http=${written.port}`,
        SALLYPORT_AUTHORIZE_LOCALHOST: 'false',
      };
      const asked = await startChild(t, sallyportCommand, ['explain', '--requests', '-', ...more], {
        env: bareEnvironment(env),
        stdin: 'pipe',
      });
      asked.process.stdin?.end(text);
      t.equal((await asked.exited).code, 0, `every line is read: ${asked.stdout()}${asked.stderr()}`);
      t.match(asked.stderr(), /^warning: \d lines are of a log, which has no header fields.*\[log-lines\]\n$/);
      return asked
        .stdout()
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line));
    };
    const decisions = await ask(written.log);
    t.same(
      decisions.map(({ logged }) => logged),
      ['Request denied', 'Request not routed', 'Request allowed', 'Request not routed', 'Connection denied'],
      `${format}: all decisions are found`,
    );
    // The access log names no port, and its lines stand among nothing else.
    const accesses = await ask(written.access, ['--port', 'http']);
    t.same(
      accesses.map(({ logged }) => logged),
      ['403', '404', '200', '404'],
      access,
    );
    for (const { logged = '', verdict, reason } of [...decisions, ...accesses]) {
      t.equal(verdict, verdictOf[logged], `${format}, ${access}: ${logged}: ${reason}`);
    }
  }
});

t.test('lines that are none of these, or not whole', async (t) => {
  const time = '2026-11-20T14:00:00.000Z';
  const denied = `${time} INFO Request denied client.ip=10.1.2.3`;
  const rows: readonly (readonly [line: string, said: string | null])[] = [
    ['hello', 'is neither JSON nor a line of the log'],
    ['{"port":', 'is not JSON'],
    [`${time} INFO Policy loaded documents=3`, null],
    [`${time} WARN`, 'is neither JSON nor a line of the log'],
    ['{"level":"info","msg":"Listening","inbound":null}', null],
    [`${denied} target.port=80 method=GET path="/a`, 'is a line of the log that is not whole'],
    [`${denied} target.port=80 method=GET path="${'a'.repeat(9)}…"`, '"path" was cut by the log'],
    [`${denied} target.port=80 method=GET path=/a tls=true client.id="a…"`, '"identity" was cut by the log'],
    ['10.1.2.3:5 - - [t] "GET / HTTP/1.1" 200', '"port" is missing'],
    ['10.1.2.3:5 - - [t] "" 400', 'is a line of the access log without a request'],
    ['10.1.2.3:5 - - [t] "GET \\q HTTP/1.1" 400', 'is a line of the log that is not whole'],
    [
      `{"level":"info","msg":"Request denied","client":${'{"a":'.repeat(2000)}1${'}'.repeat(2000)}}`,
      'is nested deeper than any line of a log',
    ],
  ];
  const file = join(temporaryFolder(t), 'lines');
  writeFileSync(file, rows.map(([line]) => `${line}\n`).join(''));
  const run = await runSallyport(t, ['explain', '--policy', policyFile(t), '--requests', file]);
  const expected = rows.flatMap(([, said], i) => (said === null ? [] : [`line ${i + 1}: ${said}`]));
  const errors = run.stdout
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line).error);
  t.same(errors, expected);
  t.equal(run.code, 64);
  t.match(run.stderr, '2 are about no request and were passed over');
});
