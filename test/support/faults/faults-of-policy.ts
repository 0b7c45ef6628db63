import { mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { get } from './clients.ts';
import { type Fault, type Finding, firstPolicy, node, outside, Stage } from './stage.ts';

/** One line says all of a refused reload; the metric lasts for as long as the files are so. */
async function refusedLoad(stage: Stage): Promise<readonly Finding[]> {
  return [await stage.log(/Policy not loaded/), await stage.metric('sallyport_policy_stale', {}, 1)];
}

export const policyFaults: readonly Fault[] = [
  {
    title: 'a port name that the pod does not have',
    async provoke(t) {
      const stage = await Stage.start(t, { policy: firstPolicy.replace('port: PORT', 'port: htpp') });
      await get(stage.port, '/orders/7');
      return [
        await stage.log(/port-name-unknown/, 'code', 'hint'),
        await stage.log(/Request denied/, 'server', 'reason', 'hint'),
        await stage.check(/port-name-unknown/),
      ];
    },
  },
  {
    title: 'a label that no Server selects',
    async provoke(t) {
      const stage = await Stage.start(t, { env: { SALLYPORT_POD_LABELS: 'app=wbe' } });
      await get(stage.port, '/orders/7');
      return [
        await stage.log(/selects-no-pod/),
        await stage.log(/No Server/),
        await stage.log(/Request denied/, 'server', 'reason', 'hint'),
        await stage.check(/app=wbe|selects/),
      ];
    },
  },
  {
    title: 'the namespace of the pod forgotten',
    async provoke(t) {
      const stage = await Stage.start(t, { env: { SALLYPORT_POD_NAMESPACE: '' } });
      await get(stage.port, '/orders/7');
      return [
        await stage.log(/other-namespace/),
        await stage.log(/No Server/),
        await stage.log(/Request denied/, 'server', 'reason'),
        await stage.check(/namespace/),
      ];
    },
  },
  {
    title: 'NAT: clients come from the address of the node',
    async provoke(t) {
      const policy = `${firstPolicy.replace(/requiredAuthenticationRefs.*/, 'requiredAuthenticationRefs: [{ group: policy.linkerd.io, kind: NetworkAuthentication, name: pods }]')}---
apiVersion: policy.linkerd.io/v1alpha1
kind: NetworkAuthentication
metadata: { name: pods, namespace: shop }
spec: { networks: [{ cidr: 10.2.0.0/16 }] }
`;
      const stage = await Stage.start(t, { policy, env: { SALLYPORT_NODE_IPS: node } });
      await get(stage.port, '/orders/7', node);
      return [
        await stage.log(/Request denied/, 'client.ip', 'reason', 'candidates'),
        await stage.explain(/reason /, '--client', node, '--path', '/orders/7'),
        await stage.explain(/network: wanted/, '--client', node, '--path', '/orders/7'),
      ];
    },
  },
  {
    title: "a probe's path that no route has",
    async provoke(t) {
      const stage = await Stage.start(t, { env: { SALLYPORT_PROBES: 'PORT/healthz' } });
      await get(stage.port, '/healthz');
      return [
        await stage.log(/Request not routed/, 'path', 'reason'),
        await stage.log(/probe-refused/),
        await stage.check(/probe/),
        await stage.explain(/reason/, '--client', '10.1.0.1', '--path', '/healthz'),
      ];
    },
  },
  {
    title: 'a listener without a Server',
    async provoke(t) {
      const stage = await Stage.start(t, { policy: firstPolicy.replace('port: PORT', 'port: 9999') });
      await get(stage.port, '/orders/7');
      return [
        await stage.log(/No Server/),
        await stage.check(/port-without-server/),
        await stage.log(/Request denied/, 'server', 'reason'),
      ];
    },
  },
  {
    title: 'a policy file is broken',
    async provoke(t) {
      const stage = await Stage.start(t);
      stage.write('policy/web.yaml', firstPolicy.replace('spec:', 'spec'));
      return [...(await refusedLoad(stage)), await stage.check(/error/)];
    },
  },
  {
    title: 'a policy file is emptied',
    async provoke(t) {
      const stage = await Stage.start(t);
      stage.write('policy/web.yaml', '');
      return [...(await refusedLoad(stage)), await stage.check(/no-documents|error|warning/)];
    },
  },
  {
    title: 'a ConfigMap is swapped for one that is refused',
    async provoke(t) {
      const stage = await Stage.set(t);
      const folder = join(stage.folder, 'policy');
      rmSync(folder, { recursive: true });
      const swap = (name: string, text: string): void => {
        mkdirSync(join(folder, name), { recursive: true });
        writeFileSync(join(folder, name, 'web.yaml'), text.replaceAll('PORT', String(stage.port)));
        symlinkSync(name, join(folder, '..data_tmp'));
        renameSync(join(folder, '..data_tmp'), join(folder, '..data'));
      };
      swap('..1', firstPolicy);
      symlinkSync('..data/web.yaml', join(folder, 'web.yaml'));
      await stage.run();
      swap('..2', firstPolicy.replace('kind: ServiceAccount', 'kind: ServiceAcount'));
      return [...(await refusedLoad(stage)), await stage.check(/error/)];
    },
  },
  {
    title: 'a misspelt kind',
    async provoke(t) {
      const stage = await Stage.start(t, {
        policy: firstPolicy.replace('kind: AuthorizationPolicy', 'kind: AuthorisationPolicy'),
        awaitReady: false,
      });
      return [await stage.log(/nearly what is/), await stage.check(/near-miss|error/)];
    },
  },
  otherHttp('HTTP/2, as of gRPC, to a Server of HTTP/1', 'HTTP/1', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'),
  otherHttp('HTTP/1 to a Server of gRPC', 'gRPC', 'GET /orders/7 HTTP/1.1\r\nhost: web\r\n\r\n'),
];

/** A client that speaks the other HTTP than the Server declares. */
function otherHttp(title: string, declared: string, spoken: string): Fault {
  return {
    title,
    async provoke(t) {
      const server = firstPolicy.slice(0, firstPolicy.indexOf('---'));
      const stage = await Stage.start(t, { policy: `${server}  proxyProtocol: ${declared}\n` });
      const client = connect({ host: '127.0.0.1', port: stage.port, localAddress: outside });
      t.teardown(() => client.destroy());
      client.on('error', () => {}).write(spoken);
      return [await stage.log(/not the HTTP/i, 'code', 'server', 'protocol', 'spoken', 'hint', 'client.ip')];
    },
  };
}
