/**
 * The walks of a request in lib/README.md, held to what runs: a request is sent through the whole program, and every file
 * whose functions ran must be named in its walk, or stand behind one of the doors that have walks of their own.
 */
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import http from 'node:http';
import http2 from 'node:http2';
import { Session } from 'node:inspector/promises';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join, relative, resolve } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { startApp } from '../../lib/app.ts';
import { readConfig } from '../../lib/config/config.ts';
import { hostFor } from '../../lib/config/host.ts';
import { createLog } from '../../lib/telemetry/log.ts';
import { freePort } from '../support/ports.ts';

const root = resolve(import.meta.dirname, '../..');
const page = readFileSync(join(root, 'lib/README.md'), 'utf8');

/** What stands behind a door, or is everybody's: not part of the data plane's walk. */
const behindDoors = /^lib\/(policy|telemetry)\/|^lib\/proxy\/(guard|limits)\.ts$|^lib\/[\w-]+\.ts$/;

/** The files that a section names, in its numbered steps and in all of it. */
function walk(title: string): { readonly steps: readonly string[]; readonly named: ReadonlySet<string> } {
  const section = page.split(/^## /m).find((part) => part.startsWith(`${title}\n`)) ?? '';
  const linked = (markdown: string): string[] =>
    [...markdown.matchAll(/\]\((?!#)([^)]+\.ts)\)/g)].map(([, target = '']) => join('lib', target));
  const steps = section.split(/^(?=\d+\. )/m).filter((part) => /^\d/.test(part));
  return { steps: steps.map((step) => linked(step)[0] ?? step), named: new Set(linked(section)) };
}

function policyOf(port: number, protocol: string): string {
  return `
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: { name: s${port}, namespace: shop }
spec: { podSelector: {}, port: ${port}, proxyProtocol: ${protocol} }
---
apiVersion: policy.linkerd.io/v1beta3
kind: HTTPRoute
metadata: { name: r${port}, namespace: shop }
spec:
  parentRefs: [{ group: policy.linkerd.io, kind: Server, name: s${port} }]
  rules: [{ matches: [{ path: { value: /orders } }] }]
---
apiVersion: policy.linkerd.io/v1alpha1
kind: AuthorizationPolicy
metadata: { name: a${port}, namespace: shop }
spec:
  targetRef: { group: policy.linkerd.io, kind: HTTPRoute, name: r${port} }
  requiredAuthenticationRefs: [{ kind: NetworkAuthentication, group: policy.linkerd.io, name: n${port} }]
---
apiVersion: policy.linkerd.io/v1alpha1
kind: NetworkAuthentication
metadata: { name: n${port}, namespace: shop }
spec: { networks: [{ cidr: 127.0.0.0/8 }] }
`;
}

/** The whole program in this process, before an app of each version. */
async function start(): Promise<{ readonly http1: number; readonly http2: number }> {
  const http1App = http.createServer((_, response) => response.end('hello')).listen(0, '127.0.0.1');
  const http2App = http2.createServer((_, response) => response.end('hello')).listen(0, '127.0.0.1');
  const portOf = async (server: http.Server | http2.Http2Server): Promise<number> => {
    if (!server.listening) await once(server, 'listening');
    t.teardown(() => server.close());
    return (server.address() as AddressInfo).port;
  };
  const [one, two] = [await freePort(), await freePort()];
  const folder = await mkdtemp(join(tmpdir(), 'sallyport-walks-'));
  t.teardown(() => rm(folder, { recursive: true }));
  // In a folder of its own: the one above is watched, too, and in that for temporary files others are at work.
  const policy = join(folder, 'policy');
  await mkdir(policy);
  await writeFile(join(policy, 'policy.yaml'), [policyOf(one, 'HTTP/1'), policyOf(two, 'HTTP/2')].join('---\n'));
  const env = {
    SALLYPORT_POLICY: policy,
    SALLYPORT_POD_NAMESPACE: 'shop',
    SALLYPORT_INBOUND_PORTS: `${one}=127.0.0.1:${await portOf(http1App)},${two}=127.0.0.1:${await portOf(http2App)}`,
    SALLYPORT_ADMIN_LISTEN: 'off',
    SALLYPORT_HEALTH_LISTEN: 'off',
    SALLYPORT_AUTHORIZE_LOCALHOST: 'false',
  };
  const host = await hostFor(env);
  const read = readConfig(env, host);
  if (!read.ok) throw new Error(read.faults.map(({ message }) => message).join());
  const log = createLog({ level: 'error', format: 'json' });
  const app = await startApp({ config: read.config, env, host, log, build: { version: '', gitSha: '', date: '' } });
  t.teardown(() => app.stop());
  return { http1: one, http2: two };
}

/** The files of `lib` in which anything ran for one request on a connection that is open, whatever else went on. */
async function filesRun(session: Session, ask: () => Promise<string>): Promise<readonly string[]> {
  const rounds: ReadonlySet<string>[] = [];
  t.equal(await ask(), 'hello');
  for (let round = 0; round < 5; round++) {
    await session.post('Profiler.takePreciseCoverage');
    t.equal(await ask(), 'hello');
    const { result } = await session.post('Profiler.takePreciseCoverage');
    const run = result.filter(({ functions }) => functions.some(({ ranges }) => (ranges[0]?.count ?? 0) > 0));
    const ours = run.filter(({ url }) => url.startsWith('file:')).map(({ url }) => relative(root, fileURLToPath(url)));
    rounds.push(new Set(ours.filter((file) => dirname(file).split('/')[0] === 'lib')));
  }
  const [first = new Set<string>(), ...others] = rounds;
  return [...first].filter((file) => others.every((round) => round.has(file)));
}

t.test('a request crosses the files of its walk, at most twelve', async (t) => {
  const ports = await start();
  const session = new Session();
  session.connect();
  t.teardown(() => session.disconnect());
  await session.post('Profiler.enable');
  await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });

  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
  t.teardown(() => agent.destroy());
  const client = http2.connect(`http://127.0.0.1:${ports.http2}`);
  t.teardown(() => client.destroy());
  const asks: readonly (readonly [title: string, ask: () => Promise<string>])[] = [
    [
      'One request over HTTP/1',
      async () => {
        const request = http.get({ host: '127.0.0.1', port: ports.http1, path: '/orders/1', agent });
        const [response] = await once(request, 'response');
        return text(response);
      },
    ],
    ['One request over HTTP/2', () => text(client.request({ ':path': '/orders/1' }))],
  ];
  for (const [title, ask] of asks) {
    const { steps, named } = walk(title);
    const run = await filesRun(session, ask);
    t.ok(run.includes('lib/proxy/http/request-pipeline.ts'), `${title}: what runs is seen`);
    t.ok(steps.length > 5 && steps.length <= 12, `${title}: ${steps.length} steps, at most 12`);
    t.equal(new Set(steps).size, steps.length, `${title}: each file is one step`);
    for (const file of run) {
      if (behindDoors.test(file)) continue;
      t.ok(
        named.has(file),
        `${file} runs: name it in lib/README.md, "${title}", as a step or in the sentence of its step`,
      );
    }
    // A head that is known is not read again; these two are read by another request than the one that is watched.
    const once = new Set(['lib/proxy/http1/fast/plain-request.ts']);
    for (const file of steps) t.ok(run.includes(file) || once.has(file), `${title}: ${file} has a part in it`);
  }
});
