import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { replaceFile, temporaryFolder } from '../support/files.ts';
import { freePorts } from '../support/ports.ts';
import { startSallyport } from '../support/sallyport.ts';
import { until } from '../support/until.ts';

/*
 * Of each listener the log says at the start, and whenever it changes, which Server has it or what holds without one.
 */

const server = (name: string, port: number | string, app = 'web'): string => `---
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: { name: ${name}, namespace: shop }
spec: { podSelector: { matchLabels: { app: ${app} } }, port: ${port} }
`;

t.test('explicit listeners', async (t) => {
  const folder = temporaryFolder(t);
  const [first = 0, second = 0] = await freePorts(2);
  const file = join(folder, 'policy', 'web.yaml');
  const labels = join(folder, 'labels');
  replaceFile(file, server('web', first));
  writeFileSync(labels, 'app="web"\n');
  const sallyport = await startSallyport(t, {
    env: {
      SALLYPORT_POLICY: join(folder, 'policy'),
      SALLYPORT_POD_NAMESPACE: 'shop',
      SALLYPORT_POD_LABELS_FILE: labels,
      SALLYPORT_INBOUND_PORTS: `${first}=127.0.0.1:1,${second}=127.0.0.1:2`,
      SALLYPORT_ADMIN_LISTEN: 'off',
    },
  });
  await sallyport.waitForLog('the start', ({ msg }) => msg === 'Listening');
  const without = 'No Server: default policy deny holds';
  const said = () =>
    sallyport
      .logs()
      .filter(({ listener }) => listener !== undefined)
      .map(({ port, msg, server }) => [port, msg, (server as Record<string, unknown>).name]);
  const inForce = (port: number, name: string) => [port, 'Server in force', name];
  t.same(said(), [inForce(first, 'web'), [second, without, 'deny']], 'at the start');
  t.match(
    sallyport.logs().find(({ port }) => port === first),
    {
      level: /info/i,
      listener: 'SALLYPORT_INBOUND_PORTS',
      protocol: 'detect',
      server: { namespace: 'shop', file, line: 2 },
    },
  );

  replaceFile(file, server('web', first) + server('api', second));
  await until('the second Server', () => said().length > 2);
  t.same(said().slice(2), [inForce(second, 'api')], 'what has changed, and no more');

  replaceFile(labels, 'app="other"\n');
  await until('the other labels', () => said().length > 4);
  t.same(
    said().slice(3),
    [
      [first, without, 'deny'],
      [second, without, 'deny'],
    ],
    'after a change of the pod',
  );
  t.ok(
    sallyport.logs().some(({ code }) => code === 'selects-no-pod'),
    'and why',
  );
  t.match(await sallyport.stop(), { code: 0 });
});

t.test('through the redirect, the ports that somebody names, up to a bound', async (t) => {
  const folder = temporaryFolder(t);
  replaceFile(join(folder, 'policy', 'web.yaml'), server('web', 'p7') + server('high', 9999));
  const [inbound = 0, admin = 0] = await freePorts(2);
  const names = Array.from({ length: 60 }, (_, i) => `p${i}=${1000 + i}`);
  const sallyport = await startSallyport(t, {
    env: {
      SALLYPORT_POLICY: join(folder, 'policy'),
      SALLYPORT_POD_NAMESPACE: 'shop',
      SALLYPORT_POD_LABELS: 'app=web',
      SALLYPORT_POD_PORTS: names.join(),
      SALLYPORT_INBOUND_LISTEN: `127.0.0.1:${inbound}`,
      SALLYPORT_ADMIN_LISTEN: `127.0.0.1:${admin}`,
    },
  });
  await sallyport.waitForLog('the start', ({ msg }) => msg === 'Listening');
  const lines = sallyport.logs().filter(({ listener }) => listener !== undefined);
  t.equal(lines.length, 32);
  t.match(
    lines.find(({ port }) => port === 1007),
    { msg: 'Server in force', server: { name: 'web', namespace: 'shop' }, listener: 'SALLYPORT_INBOUND_LISTEN' },
  );
  t.match(
    sallyport.logs().find(({ ports }) => ports !== undefined),
    { ports: 30 },
    'with the Server of a port that the pod does not name, and the admin port',
  );
  t.match(await sallyport.stop(), { code: 0 });
});
