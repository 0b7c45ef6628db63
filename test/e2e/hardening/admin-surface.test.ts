import { once } from 'node:events';
import { connect as connectHttp2 } from 'node:http2';
import { join } from 'node:path';
import t from 'tap';
import { http1Outcome, http1Request, openRoute, route } from '../../support/attacked-routes.ts';
import { meshClient, testCertificate, workloadCertificate, workloadName } from '../../support/certificates.ts';
import { identityEnvironment, replaceFile } from '../../support/files.ts';
import { policyEnvironment } from '../../support/open-policy.ts';
import { freePort } from '../../support/ports.ts';
import { latin1, RawClient } from '../../support/raw-http.ts';
import { startSallyport } from '../../support/sallyport.ts';
import { startWitness } from '../../support/witness.ts';

/*
 * Metrics can be granted without anything else of the admin server, and what changes the proxy, or shows its policy, is
 * for 127.0.0.0/8 and ::1 whatever the policy says (CVE-2026-31838, ISTIO-SECURITY-2026-001).
 */
t.setTimeout(900_000);
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
  const client = await RawClient.open({
    port: adminPort,
    tls: meshClient(ownName, workloadCertificate('prometheus', 'shop')),
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
    client.send(latin1(http1Request(path, ['Host: localhost'])));
    const [answer] = await client.responses(['GET']);
    const text = answer?.body.toString('utf8') ?? '';
    t.equal(answer?.status, 200);
    t.ok(text.length > 10, `${path} says something`);
    t.notMatch(text, new RegExp(`${secret}|PRIVATE KEY|BEGIN CERTIFICATE`), path);
    client.destroy();
  }
  t.notMatch(sallyport.child.stdout(), new RegExp(`${secret}|PRIVATE KEY`), 'nor does the log');
});

t.test('a page in a browser on this machine reads nothing and changes nothing', async (t) => {
  const sallyport = await startSallyport(t, {
    env: {
      SALLYPORT_INBOUND_PORTS: `${await freePort()}=127.0.0.1:${await freePort()}`,
      SALLYPORT_DEFAULT_INBOUND_POLICY: 'all-unauthenticated',
    },
  });
  const { adminPort } = sallyport;
  const here = `Host: localhost:${adminPort}`;
  const admin = 'sallyport-admin: 1';
  const evil = 'Origin: http://evil.example';
  /** Method, target, version, fields. */
  const rows: readonly (readonly [method: string, target: string, version: string, fields: string[], want: string])[] =
    [
      ['GET', '/policy', '1.1', [here], '200'],
      ['GET', '/policy', '1.1', ['Host: evil.example'], '403'],
      ['GET', '/policy', '1.1', [`Host: evil.example:${adminPort}`, admin], '403'],
      ['GET', '/policy', '1.0', [], '403'],
      ['GET', '/policy', '1.0', ['Host: 127.0.0.1'], '200'],
      ['GET', 'http://localhost/policy', '1.1', [here], '200'],
      ['GET', 'http://evil.example/policy', '1.1', [here], '403'],
      ['GET', '/log-level', '1.1', ['Host: evil.example'], '403'],
      ['PUT', '/log-level', '1.1', [here, 'Content-Length: 0'], '403'],
      ['PUT', '/log-level', '1.1', ['Host: evil.example', admin, 'Content-Length: 0'], '403'],
      ['OPTIONS', '/log-level', '1.1', [here, evil, 'Access-Control-Request-Method: PUT'], '403'],
      ['POST', '/shutdown', '1.1', [here, evil, 'Content-Length: 0'], '403'],
      ['POST', '/shutdown', '1.1', [here, evil, admin, 'Content-Length: 0'], '403'],
      ['POST', '/shutdown', '1.1', [here, 'Origin: null', 'Content-Length: 0', 'Content-Type: text/plain'], '403'],
      ['POST', '/shutdown', '1.1', [here, 'Sec-Fetch-Site: cross-site', admin, 'Content-Length: 0'], '403'],
      ['POST', '/shutdown', '1.1', [here, 'Content-Length: 0'], '403'],
      ['POST', '/shutdown', '1.1', [here, `Connection: ${admin.split(':')[0]}`, admin, 'Content-Length: 0'], '403'],
      ['POST', 'http://evil.example/shutdown', '1.1', [here, admin, 'Content-Length: 0'], '403'],
      ['GET', '/live', '1.1', ['Host: evil.example'], '200'],
      ['GET', '/metrics', '1.1', ['Host: evil.example'], '200'],
    ];
  for (const [method, target, version, fields, want] of rows) {
    const bytes = `${[`${method} ${target} HTTP/${version}`, ...fields].join('\r\n')}\r\n\r\n`;
    t.equal(await http1Outcome(adminPort, bytes, method), want, bytes.replaceAll('\r\n', ' | '));
  }

  const session = connectHttp2(`http://127.0.0.1:${adminPort}`);
  t.teardown(() => session.destroy());
  const http2Rows: readonly (readonly [fields: Record<string, string>, want: number])[] = [
    [{ ':authority': `localhost:${adminPort}` }, 200],
    [{ ':authority': '[::1]' }, 200],
    [{ ':authority': 'evil.example' }, 403],
    [{ ':authority': `localhost:${adminPort}`, origin: 'https://evil.example' }, 403],
    [{ ':authority': `localhost:${adminPort}`, origin: `http://localhost:${adminPort}` }, 200],
    [{ ':authority': 'localhost', 'sec-fetch-site': 'same-site' }, 403],
    [{ ':method': 'POST', ':path': '/shutdown', ':authority': 'localhost' }, 403],
    [{ ':method': 'POST', ':path': '/shutdown', ':authority': 'evil.example', 'sallyport-admin': '1' }, 403],
  ];
  for (const [fields, want] of http2Rows) {
    const request = session.request({ ':path': '/policy', ...fields }).end();
    const [answer] = await once(request, 'response');
    t.equal(answer[':status'], want, JSON.stringify(fields));
    request.resume();
    await once(request, 'close');
  }
  t.equal(await sallyport.health('/ready'), 200, 'nobody has shut it down');

  const asked = [`POST /shutdown HTTP/1.1`, here, admin, 'Content-Length: 0'].join('\r\n');
  t.equal(await http1Outcome(adminPort, `${asked}\r\n\r\n`, 'POST'), '200', 'who may, still can');
  t.match(await sallyport.child.exited, { code: 0 });
});
