/**
 * The walks of a request in lib/README.md, held to what runs: a request is sent through the whole program, and every file
 * whose functions ran must be named in its walk, or stand behind one of the doors that have walks of their own. Its steps
 * are few, and the request comes back to none of them more than twice.
 */
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import http from 'node:http';
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
import { dataFrame, headersFrame, requestFields } from '../support/http2-frames.ts';
import { okFields, openClient, startFrameApp } from '../support/http2-peers.ts';
import { freePort } from '../support/ports.ts';
import { type Call, callsDuring, classesOf, visitsOf, type WalkRules } from '../support/visits.ts';

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
  // A head, and content that ends the stream: two frames, whatever Node makes of it.
  const http2App = await startFrameApp(t, {
    onEnd: ({ connection, id }) =>
      connection.send(Buffer.concat([headersFrame(id, okFields, false), dataFrame(id, 'hello', true)])),
  });
  if (!http1App.listening) await once(http1App, 'listening');
  t.teardown(() => http1App.close());
  const http1Port = (http1App.address() as AddressInfo).port;
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
    SALLYPORT_INBOUND_PORTS: `${one}=127.0.0.1:${http1Port},${two}=127.0.0.1:${http2App.port}`,
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

interface Ask {
  readonly title: string;
  readonly ask: () => Promise<string>;
  /** What begins anew within one event, as in a stack trace: the next frame. */
  readonly anew: string;
}

const ports = await start();
const session = new Session();
session.connect();
t.teardown(() => session.disconnect());
await session.post('Profiler.enable');
await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });

const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
t.teardown(() => agent.destroy());
// Nothing but requests: it gives no room back.
const client = await openClient(t, ports.http2, { consumes: false });
let stream = -1;

const asks: readonly Ask[] = [
  {
    title: 'One request over HTTP/1',
    anew: 'none',
    ask: async () => {
      const request = http.get({ host: '127.0.0.1', port: ports.http1, path: '/orders/1', agent });
      const [response] = await once(request, 'response');
      return text(response);
    },
  },
  {
    title: 'One request over HTTP/2',
    anew: 'FrameHandler.frame',
    ask: async () => {
      stream += 2;
      client.send(headersFrame(stream, requestFields('/orders/1')));
      t.equal(await client.over(stream), '200');
      return Buffer.concat(client.message(stream).parts).toString();
    },
  },
];

t.test('a request crosses the files of its walk, at most twelve', async (t) => {
  for (const { title, ask } of asks) {
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
    for (const file of steps) t.ok(run.includes(file), `${title}: ${file} has a part in it`);
  }
});

const rules: WalkRules = {
  steps: new Map([
    ['a', []],
    ['b', ['B']],
    ['c', []],
  ]),
  anew: 'next',
  isDoor: (file) => file === 'door',
};

/** Each call as `file:function`, innermost first. */
const madeUp: readonly (readonly [name: string, calls: readonly string[], times: object, links: readonly string[]])[] =
  [
    ['a call', ['a:f', 'b:g a:f'], { a: 1, b: 1 }, []],
    ['several of one visit', ['a:f', 'b:g a:f', 'b:h a:f', 'b:h b:g a:i a:f'], { a: 1, b: 1 }, []],
    ['there and back', ['a:f', 'b:g a:f', 'a:h b:g a:f'], { a: 2, b: 1 }, []],
    ['by two ways', ['a:f', 'b:g a:f', 'c:h a:f', 'b:g c:h a:f'], { a: 1, b: 2, c: 1 }, []],
    ['two events', ['a:f', 'b:g a:f', 'a:f', 'b:g a:f'], { a: 2, b: 2 }, []],
    [
      'two frames in one event',
      ['a:f', 'b:next a:f', 'c:g b:next a:f', 'b:next a:f', 'c:g b:next a:f'],
      { a: 1, b: 2, c: 2 },
      [],
    ],
    ['a getter', ['a:f', 'b:get_x a:f'], { a: 1 }, []],
    ['what is inherited', ['a:f', 'base:B.g a:f', 'c:h base:B.g a:f'], { a: 1, b: 1, c: 1 }, []],
    ['by way of a table', ['a:f', 't:g a:f', 'a:h t:g a:f'], { a: 1 }, []],
    ['by way of what is no step', ['a:f', 't:g a:f', 'b:h t:g a:f'], { a: 1, b: 1 }, ['a → t → b']],
    ['by way of a door', ['a:f', 'door:g a:f', 'b:h door:g a:f'], { a: 1, b: 1 }, []],
  ];

t.test('visits are counted as the page says', async (t) => {
  for (const [name, calls, times, links] of madeUp) {
    const stacks = calls.map(
      (call): Call =>
        call.split(' ').map((frame) => {
          const [file = '', of = ''] = frame.split(':');
          return { file, name: of.replace('_', ' ') };
        }),
    );
    const visits = visitsOf(stacks, rules);
    t.same(Object.fromEntries(visits.times), times, name);
    t.same([...visits.links], links, name);
  }
});

t.test('a request comes back to no step of its walk more than twice', async (t) => {
  for (const { title, ask, anew } of asks) {
    const { steps } = walk(title);
    // A look at idle connections may come in between, and adds to what is seen.
    const rounds = [];
    for (let round = 0; round < 4; round++) {
      const calls = await callsDuring(session, root, ask);
      const isDoor = (file: string): boolean => behindDoors.test(file);
      rounds.push(visitsOf(calls, { steps: classesOf(root, steps), anew, isDoor }));
    }
    for (const step of steps) {
      const least = Math.min(...rounds.map(({ times }) => times.get(step) ?? 0));
      t.ok(least <= 3, `${title}: ${step} is entered ${least} times, at most once and twice again`);
    }
    const [first, ...others] = rounds;
    const links = [...(first?.links ?? [])].filter((link) => others.every((round) => round.links.has(link)));
    t.same(links, [], `${title}: what is between two steps is one`);
  }
});
