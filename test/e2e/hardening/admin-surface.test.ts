import { join } from 'node:path';
import t from 'tap';
import { testCertificate, workloadCertificate, workloadName } from '../../support/certificates.ts';
import { identityEnvironment, replaceFile } from '../../support/files.ts';
import { policyEnvironment } from '../../support/open-policy.ts';
import { freePort } from '../../support/ports.ts';
import { latin1, RawClient } from '../../support/raw-http.ts';
import { startSallyport } from '../../support/sallyport.ts';
import { http1Outcome, http1Request, openRoute, route } from './stage.ts';
import { startWitness } from './witness.ts';

/*
 * Metrics can be granted without anything else of the admin server, and what changes the proxy, or shows its policy, is
 * for 127.0.0.0/8 and ::1 whatever the policy says (CVE-2026-31838, ISTIO-SECURITY-2026-001).
 */
t.setTimeout(60_000);
const ownName = workloadName('web', 'shop');

t.test('metrics alone', async (t) => {
  const folder = t.testdir();
  const admin = `---
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: {name: proxy-admin, namespace: shop}
spec: {podSelector: {}, port: linkerd-admin, proxyProtocol: HTTP/1}
`;
  const app = await startWitness(t);
  const port = await freePort();
  const environment = policyEnvironment(folder, '');
  replaceFile(
    join(folder, 'policy', 'policy.yaml'),
    admin + route('metrics', 'proxy-admin', '/metrics', 'Exact') + openRoute('metrics'),
  );
  const sallyport = await startSallyport(t, {
    env: {
      ...environment,
      SALLYPORT_INBOUND_PORTS: `${port}=127.0.0.1:${app.port}`,
      ...identityEnvironment(join(folder, 'identity'), testCertificate({ dnsNames: [ownName] })),
    },
  });
  const { adminPort } = sallyport;
  const rows: readonly (readonly [method: string, target: string, outcome: string])[] = [
    ['GET', '/metrics', '200'],
    ['GET', '/metrics?x=/policy', '200'],
    ['GET', '/policy', '404'],
    ['PUT', '/log-level', '404'],
    ['POST', '/shutdown', '404'],
    ['POST', '/metrics/../shutdown', '404'],
    ['POST', '/metrics/%2e%2e/shutdown', '404'],
    ['POST', '//shutdown', '404'],
    ['POST', '/shutdown;/metrics', '404'],
    ['GET', '/live', '404'],
    ['POST', '/metrics', '405'],
  ];
  for (const [method, target, outcome] of rows) {
    t.equal(
      await http1Outcome(adminPort, http1Request(target, ['Content-Length: 0'], method), method),
      outcome,
      `${method} ${target}`,
    );
  }
  const caller = workloadCertificate('prometheus', 'shop');
  const client = await RawClient.open({
    port: adminPort,
    tls: {
      servername: ownName,
      cert: caller.certificatePem,
      key: caller.keyPem,
      ca: caller.trustAnchorsPem,
      checkServerIdentity: () => undefined,
    },
  });
  client.send(latin1(http1Request('/shutdown', ['Content-Length: 0'], 'POST')));
  const [answer] = await client.responses(['POST']);
  t.equal(answer?.status, 404, 'an identity is granted no more than the route says');
  client.destroy();
  t.equal(await sallyport.health('/ready'), 200, 'nobody has shut it down');
  t.match(await sallyport.stop(), { code: 0 });
});

t.test('the policy shown holds policy, and nothing of the environment', async (t) => {
  const folder = t.testdir();
  const app = await startWitness(t);
  const port = await freePort();
  const own = testCertificate({ dnsNames: [ownName] });
  const secret = 'a-secret-of-the-environment';
  const sallyport = await startSallyport(t, {
    env: {
      ...policyEnvironment(folder, ''),
      SALLYPORT_INBOUND_PORTS: `${port}=127.0.0.1:${app.port}`,
      ...identityEnvironment(join(folder, 'identity'), own),
      DATABASE_PASSWORD: secret,
    },
  });
  for (const path of ['/policy', '/metrics']) {
    const client = await RawClient.open({ port: sallyport.adminPort });
    client.send(latin1(http1Request(path)));
    const [answer] = await client.responses(['GET']);
    const text = answer?.body.toString('utf8') ?? '';
    t.equal(answer?.status, 200);
    t.ok(text.length > 10, `${path} says something`);
    t.notMatch(text, new RegExp(`${secret}|PRIVATE KEY|BEGIN CERTIFICATE`), path);
    client.destroy();
  }
  t.notMatch(sallyport.child.stdout(), new RegExp(`${secret}|PRIVATE KEY`), 'nor does the log');
});
