import { join } from 'node:path';
import t, { type Test } from 'tap';
import { type Child, startChild } from '../../support/children.ts';
import { replaceFile, temporaryFolder } from '../../support/files.ts';
import { openServer } from '../../support/open-policy.ts';
import {
  address,
  applyRules,
  at,
  createPodNetwork,
  curl,
  type Place,
  type PodNetwork,
  podNetworkUnavailable,
  startSidecar,
} from '../../support/pod-network.ts';
import { type PodApp, startPodApp } from '../../support/pod-programs.ts';
import type { Sallyport } from '../../support/sallyport.ts';
import { until, within } from '../../support/until.ts';

// What a rollout does to a sidecar while clients call: its rules are put in place again, it is stopped, it is killed.

const unavailable = await podNetworkUnavailable(t);

interface Scene {
  readonly net: PodNetwork;
  readonly app: PodApp;
  start(): Promise<Sallyport>;
}

/** 8080 is open to all; 8081 is to nobody. */
async function startScene(t: Test): Promise<Scene> {
  const folder = temporaryFolder(t);
  replaceFile(join(folder, 'policy', 'policy.yaml'), openServer('web', 8080));
  const net = await createPodNetwork(t);
  await applyRules(net.pod);
  const app = await startPodApp(t, net);
  return { net, app, start: () => startSidecar(t, net, { SALLYPORT_POLICY: join(folder, 'policy') }) };
}

interface Load {
  /** One line for each request so far: status and curl's exit code. */
  outcomes(): string[];
  /** Resolves when curl has met its first failure, or has been told to end. */
  readonly child: Child;
}

/** curl, asking again and again on one connection until something fails. */
async function keepAsking(t: Test, from: Place, url: string, ...args: readonly string[]): Promise<Load> {
  const [command = '', ...prefix] = from.namespace.within;
  const quiet = ['--silent', '--noproxy', '*', '--max-time', '60', '--output', '/dev/null', '--fail-early'];
  // On stderr, because curl keeps its standard output back until there is much of it.
  const shown = ['--write-out', '%{stderr}%{http_code} %{exitcode}\n'];
  // curl expands the range; the query makes each request one of its own.
  const child = await startChild(t, command, [...prefix, 'curl', ...quiet, ...shown, ...args, `${url}?n=[1-1000000]`]);
  return { child, outcomes: () => child.stderr().split('\n').slice(0, -1) };
}

function tally(outcomes: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const outcome of outcomes) counts[outcome] = (counts[outcome] ?? 0) + 1;
  return counts;
}

async function rulesAppliedAgain(t: Test): Promise<void> {
  const { net, app, start } = await startScene(t);
  const sallyport = await start();
  // A fresh connection for each request: each meets whatever rules there are at that moment.
  const fresh = ['--header', 'connection: close'];
  const loads = await Promise.all(
    [net.client, net.outsider].flatMap((from) =>
      [address.pod, address.pod6].map((host) => keepAsking(t, from, at(host, 8081), ...fresh)),
    ),
  );
  const asked = (): number => Math.min(...loads.map((load) => load.outcomes().length));
  const flags = [['--own-address'], [], ['--skip-inbound-ports', '1000-1100,2000'], ['--skip-subnets', '192.0.2.0/24']];
  for (let round = 0; round < 12; round++) {
    const before = asked();
    await applyRules(net.pod, ...(flags[round % flags.length] ?? []));
    await until('more requests under these rules', () => asked() > before + 5);
  }
  for (const { child, outcomes } of loads) {
    await child.end();
    t.same(Object.keys(tally(outcomes())), ['403 0'], `${outcomes().length} requests, each refused by policy`);
  }
  t.same(app.unguarded(), [], 'not one reached the app');
  t.match(await sallyport.stop(), { code: 0 });
}

async function stopped(t: Test): Promise<void> {
  const { net, app, start } = await startScene(t);
  const sallyport = await start();
  const held = [
    curl(net.client, at(address.pod, 8080, '/hold')),
    curl(net.outsider, at(address.pod6, 8080, '/hold'), '--data', 'x'),
  ];
  const loads = await Promise.all([
    keepAsking(t, net.client, at(address.pod, 8080)),
    keepAsking(t, net.outsider, at(address.pod6, 8080)),
  ]);
  await until('every client to have been served', () => loads.every((load) => load.outcomes().length > 50));
  // Held requests keep a connection each; the load, which is served at once, needs one more at the least.
  await until('the held requests to reach the app', () => app.connections().length >= 3);

  sallyport.child.process.kill('SIGTERM');
  const ready = async (): Promise<number> => (await curl(net.node, at(address.pod, 4192, '/ready'))).status;
  await until('/ready to turn 503, as the kubelet sees it', async () => (await ready()) === 503);
  t.equal((await curl(net.node, at(address.pod, 4192, '/live'))).status, 200, '/live goes on');

  for (const { child, outcomes } of loads) {
    await within('the load to be turned away', 10_000, child.exited);
    const counts = tally(outcomes());
    // curl 7: could not connect. Any other failure would be an answer that was cut.
    t.same(Object.keys(counts).sort(), ['000 7', '200 0'], `${counts['200 0']} answers, none cut, then refused`);
  }
  t.equal(sallyport.child.process.exitCode, null, 'it waits for what is in flight');
  t.match(await curl(net.client, at(address.pod, 8080)), { code: 7 }, 'and takes nothing new');
  t.match(await curl(net.pod, at('127.0.0.1', 8080, '/release')), { status: 200 });
  for (const answer of await Promise.all(held)) {
    t.match(answer, { code: 0, status: 200, body: 'held and released' }, 'what was held is answered whole');
  }
  t.match(await within('the exit', 10_000, sallyport.child.exited), { code: 0, signal: null });

  const seen = app.connections().length;
  for (const host of [address.pod, address.pod6]) {
    for (const port of [8080, 8081, 9090, 7000]) {
      t.match(await curl(net.client, at(host, port)), { code: 7, status: 0 }, `stopped: ${host}:${port} is closed`);
    }
  }
  t.equal(app.connections().length, seen, 'not open');
  t.match(await (await start()).stop(), { code: 0 });
}

async function killed(t: Test): Promise<void> {
  const { net, app, start } = await startScene(t);
  const sallyport = await start();
  const fresh = ['--header', 'connection: close', '--no-fail-early'];
  const [open, shut] = await Promise.all([
    keepAsking(t, net.client, at(address.pod, 8080), ...fresh),
    keepAsking(t, net.outsider, at(address.pod6, 8081), ...fresh),
  ]);
  await until('both to have been answered', () => open.outcomes().length > 20 && shut.outcomes().length > 20);
  t.match(await sallyport.child.end('SIGKILL'), { signal: 'SIGKILL' });
  const refused = (load: Load): number => tally(load.outcomes())['000 7'] ?? 0;
  await until('both to be turned away', () => refused(open) > 20 && refused(shut) > 20);
  const again = await start();
  const before = tally(open.outcomes())['200 0'] ?? 0;
  await until('service to be resumed', () => (tally(open.outcomes())['200 0'] ?? 0) > before + 20);
  await Promise.all([open.child.end(), shut.child.end()]);
  // 52 and 56: the connection ended without an answer, or in the midst of one, when the process died.
  const unlike = (load: Load, served: RegExp): string[] =>
    Object.keys(tally(load.outcomes())).filter((one) => !served.test(one));
  t.same(unlike(open, /^(200 0|000 7|000 52|000 56|200 56)$/), [], JSON.stringify(tally(open.outcomes())));
  t.same(unlike(shut, /^(403 0|000 7|000 52|000 56)$/), [], JSON.stringify(tally(shut.outcomes())));
  t.same(app.unguarded(), [], 'at no time has anybody reached the app directly');
  t.match(await again.stop(), { code: 0 });
}

if (unavailable) {
  t.plan(0, unavailable);
} else {
  t.setTimeout(900_000);
  await t.test('rules applied again, under load', { timeout: 840_000 }, rulesAppliedAgain);
  await t.test('stopped under load', { timeout: 840_000 }, stopped);
  await t.test('killed under load', { timeout: 840_000 }, killed);
}
