import t from 'tap';
import { closedServer, http1Outcome, http1Request, lanes, openRoute, route } from '../../support/attacked-routes.ts';
import { http2Outcome, requestFields } from '../../support/http2-frames.ts';
import { policyEnvironment } from '../../support/open-policy.ts';
import { freePorts } from '../../support/ports.ts';
import { latin1, RawClient } from '../../support/raw-http.ts';
import { startSallyport } from '../../support/sallyport.ts';
import { startWitness } from '../../support/witness.ts';

/*
 * Who calls is told by the connection alone. No header moves the address that policy compares (CVE-2026-40575 trusted a
 * forwarding header by default, and CVE-2026-76835 an empty list of proxies), and none makes a request a probe
 * (CVE-2026-34457: by its User-Agent).
 */
const trusted = '10.9.9.9';

/** Every client here calls from 127.0.0.1; only this address may use /private. */
const documents = (port: number): string => `${closedServer('web', port)}
${route('open', 'web', '/open')}${openRoute('open')}${route('private', 'web', '/private')}---
apiVersion: policy.linkerd.io/v1alpha1
kind: AuthorizationPolicy
metadata: {name: private, namespace: shop}
spec:
  targetRef: {group: policy.linkerd.io, kind: HTTPRoute, name: private}
  requiredAuthenticationRefs: [{group: policy.linkerd.io, kind: NetworkAuthentication, name: trusted}]
---
apiVersion: policy.linkerd.io/v1alpha1
kind: NetworkAuthentication
metadata: {name: trusted, namespace: shop}
spec: {networks: [{cidr: ${trusted}/32}]}
`;

const forwarding: readonly (readonly [string, string])[] = [
  ['X-Forwarded-For', trusted],
  ['X-Forwarded-For', `${trusted}, 127.0.0.1`],
  ['X-Real-IP', trusted],
  ['Forwarded', `for=${trusted};proto=https;by=127.0.0.1`],
  ['True-Client-IP', trusted],
  ['CF-Connecting-IP', trusted],
  ['X-Client-IP', trusted],
  ['X-Envoy-External-Address', trusted],
  ['X-Forwarded-Client-Cert', 'By=spiffe://x/a;Subject="CN=admin"'],
  ['l5d-remote-ip', trusted],
  ['l5d-dst-canonical', 'admin.shop.svc.cluster.local'],
  ['Via', '1.1 trusted'],
];

/** Sent before the request: what load balancers prepend. A client that is no load balancer gets nowhere with it. */
const prefixes: readonly (readonly [string, Buffer])[] = [
  ['PROXY protocol 1', latin1(`PROXY TCP4 ${trusted} 10.0.0.1 4000 80\r\n`)],
  [
    'PROXY protocol 2',
    Buffer.concat([
      latin1('\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c'),
      Buffer.of(...trusted.split('.').map(Number), 10, 0, 0, 1),
      Buffer.of(0x0f, 0xa0, 0, 80),
    ]),
  ],
];

t.setTimeout(900_000);

for (const { name, env } of lanes) {
  t.test(name, async (t) => {
    const [port = 0, probed = 0] = await freePorts(2);
    const app = await startWitness(t);
    await startSallyport(t, {
      env: {
        ...policyEnvironment(t.testdir(), documents(port)),
        SALLYPORT_INBOUND_PORTS: `${port}=127.0.0.1:${app.port},${probed}=127.0.0.1:${app.port}`,
        SALLYPORT_PROBES: `${probed}/healthz`,
        ...env,
      },
    });
    for (const [field, value] of forwarding) {
      const line = `${field}: ${value}`;
      t.equal(await http1Outcome(port, http1Request('/private', [line])), '403', `HTTP/1 with ${line}`);
      const pair = [field.toLowerCase(), value] as const;
      t.equal(await http2Outcome(port, requestFields('/private', [pair])), '403', `HTTP/2 with ${line}`);
    }
    for (const [title, prefix] of prefixes) {
      const client = await RawClient.open({ port });
      client.send(Buffer.concat([prefix, latin1(http1Request('/private'))]));
      t.ok(await client.ends(5_000), `${title} before the request ends the connection`);
      t.notMatch(client.received.toString('latin1'), / 200 /, title);
      client.destroy();
    }

    // A probe is a method, a path and a network.
    const agent = 'User-Agent: kube-probe/1.36';
    t.equal(await http1Outcome(probed, http1Request('/healthz')), '200', 'the probe itself');
    for (const [title, bytes] of [
      ['by its User-Agent (CVE-2026-34457)', http1Request('/private', [agent])],
      ['by another method', http1Request('/healthz', [agent], 'DELETE')],
      ['by HEAD', http1Request('/healthz', [agent], 'HEAD')],
      ['by a longer path', http1Request('/healthz/x', [agent])],
      ['by a method override', http1Request('/private', [agent, 'X-HTTP-Method-Override: GET'], 'POST')],
      ['by a path override', http1Request('/private', [agent, 'X-Original-URL: /healthz', 'X-Rewrite-URL: /healthz'])],
    ] as const) {
      t.equal(await http1Outcome(probed, bytes), '403', `no probe ${title}`);
    }
    t.equal(await http1Outcome(probed, http1Request('/healthz/../private', [agent])), '403', 'nor by a way around');
    t.same(
      app.requests.map(({ target }) => target),
      ['/healthz'],
      'the app saw the probe and nothing else',
    );

    // Neither added nor touched: the app gets exactly the fields that the client sent, in order, Host included.
    const sent: [string, string][] = [
      ['Host', 'web'],
      ...forwarding.map(([field, value]): [string, string] => [field, value]),
    ];
    const lines = sent.map(([field, value]) => `${field}: ${value}`);
    t.equal(await http1Outcome(port, http1Request('/open', lines)), '200');
    const received = app.requests.at(-1)?.headers ?? [];
    // The library lane's client says that it keeps the connection; that is between it and the app.
    const endToEnd = received.filter(([field]) => field.toLowerCase() !== 'connection');
    t.same(
      endToEnd.map(([field, value]) => [field.toLowerCase(), value]),
      sent.map(([field, value]) => [field.toLowerCase(), value]),
      'forwarding headers pass as they came',
    );
    const lower = forwarding.map(([field, value]) => [field.toLowerCase(), value] as const);
    t.equal(await http2Outcome(port, requestFields('/open', lower)), '200');
    t.same(
      app.requests.at(-1)?.headers.filter(([field]) => !field.startsWith(':')),
      lower,
      'on HTTP/2 as well',
    );
    t.same(app.raw, [], 'nothing reached it as opaque bytes');
    t.same(app.malformed, []);
  });
}
