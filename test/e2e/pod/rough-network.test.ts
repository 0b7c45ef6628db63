import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { testCertificate, workloadCertificate, workloadName } from '../../support/certificates.ts';
import { startChild } from '../../support/children.ts';
import { identityEnvironment, replaceFile, temporaryFolder } from '../../support/files.ts';
import { parseExposition } from '../../support/metrics.ts';
import { openServer } from '../../support/open-policy.ts';
import { blob, sha256 } from '../../support/pod-blob.ts';
import {
  address,
  applyRules,
  at,
  createPodNetwork,
  curl,
  mustRun,
  nodePodDevice,
  type Place,
  type PodNetwork,
  podDevice,
  podNetworkUnavailable,
  startSidecar,
} from '../../support/pod-network.ts';
import { callEmojis, type PodApp, startPodApp } from '../../support/pod-programs.ts';
import type { Sallyport } from '../../support/sallyport.ts';
import { patience, until } from '../../support/until.ts';

// Lost packets, a thin pipe and a long wire: what is allowed arrives whole, what is refused stays refused, and nothing is
// left behind in the proxy.

const unavailable = await podNetworkUnavailable(t, 'tc', 'openssl');

const ownName = workloadName('web', 'shop');
const uploadBytes = 300_000;
const downloadBytes = 400_000;

interface Scene {
  readonly net: PodNetwork;
  readonly app: PodApp;
  readonly sallyport: Sallyport;
  readonly folder: string;
}

async function startScene(t: Test): Promise<Scene> {
  const folder = temporaryFolder(t);
  const net = await createPodNetwork(t);
  const app = await startPodApp(t, net);
  const documents = [openServer('web', 8080), openServer('echo', 7000, 'opaque'), openServer('emoji', app.grpcPort)];
  replaceFile(join(folder, 'policy', 'policy.yaml'), documents.join(''));
  replaceFile(join(folder, 'upload.bin'), blob(uploadBytes).toString('latin1'));
  const { certificatePem, keyPem, trustAnchorsPem } = workloadCertificate('orders', 'shop');
  replaceFile(join(folder, 'ca.crt'), trustAnchorsPem);
  replaceFile(join(folder, 'orders.crt'), certificatePem);
  replaceFile(join(folder, 'orders.key'), keyPem);
  await applyRules(net.pod);
  // Packets as a wire would have them: otherwise one lost "packet" here is up to 64 kB, and there are hardly any.
  for (const one of [net.pod, net.client]) {
    await mustRun(one, 'ip', 'link', 'set', 'dev', 'eth0', 'gso_max_segs', '1');
  }
  const sallyport = await startSidecar(t, net, {
    SALLYPORT_POLICY: join(folder, 'policy'),
    ...identityEnvironment(join(folder, 'identity'), testCertificate({ dnsNames: [ownName] })),
  });
  return { net, app, sallyport, folder };
}

/** Everything that must come through whole, and what must not come through, from `from` to `host` at these ports. */
async function traffic(t: Test, { net, app, folder }: Scene, from: Place, host: string, http: number): Promise<void> {
  const upload = join(folder, 'upload.bin');
  const long = ['--max-time', `${15 * patience()}`];
  const [sent, received, meshed, refused] = await Promise.all([
    curl(from, at(host, http, '/upload'), ...long, '--data-binary', `@${upload}`, '--header', 'expect:'),
    curl(from, at(host, http, `/blob?bytes=${downloadBytes}`), ...long, '--output', join(folder, 'received.bin')),
    curl(
      from,
      `https://${ownName}:${http}/upload`,
      ...[...long, '--data-binary', `@${upload}`, '--resolve', `${ownName}:${http}:${host}`],
      ...[
        '--cacert',
        join(folder, 'ca.crt'),
        '--cert',
        join(folder, 'orders.crt'),
        '--key',
        join(folder, 'orders.key'),
      ],
    ),
    curl(net.outsider, at(address.pod, 8081), ...long),
  ]);
  const { stdout: digests } = await from.run('sha256sum', upload, join(folder, 'received.bin'));
  const [sentDigest, receivedDigest] = digests.split('\n').map((line) => line.slice(0, 64));
  const { size } = statSync(upload);
  t.match(sent, { code: 0, status: 200 }, `the upload: ${sent.stderr}`);
  t.match(JSON.parse(sent.body || '{}'), { bytes: size, sha256: sentDigest }, 'the app has it whole');
  t.match(received, { code: 0, status: 200 }, `the download: ${received.stderr}`);
  t.equal(receivedDigest, sha256(blob(downloadBytes)), 'the client has it whole');
  t.match(meshed, { code: 0, status: 200 }, `the upload over TLS: ${meshed.stderr}`);
  t.match(JSON.parse(meshed.body || '{}'), { bytes: size, sha256: sentDigest }, 'the app has it whole');
  t.match(refused, { status: 403, body: '' }, 'refused is refused');
  t.same(app.unguarded(), []);
}

/**
 * What the proxy holds open: connections of clients by its own account, and descriptors by the kernel's. Towards the app
 * it keeps one HTTP/2 connection, which is there before and after.
 */
async function held({
  net,
  sallyport,
}: Scene): Promise<{ readonly connections: number; readonly descriptors: number }> {
  const { body } = await curl(net.pod, at('127.0.0.1', 4191, '/metrics'));
  // The one connection that asks is open, too.
  const connections = parseExposition(body).sum('tcp_open_connections', { peer: 'src' }) - 1;
  return { connections, descriptors: readdirSync(`/proc/${sallyport.pid}/fd`).length };
}

async function nothingIsLeft(t: Test, scene: Scene, before: { readonly descriptors: number }): Promise<void> {
  let now = await held(scene);
  await until(
    'every connection to be closed',
    async () => {
      now = await held(scene);
      return now.connections === 0 && now.descriptors <= before.descriptors;
    },
    { timeoutMs: 20_000, everyMs: 200, lastSeen: () => JSON.stringify({ before, now }) },
  );
  t.pass('no connection and no descriptor is left');
}

function grpc({ net, app }: Scene): ReturnType<typeof callEmojis> {
  return callEmojis(net.client, { target: `${address.pod}:${app.grpcPort}` });
}

/** A rough stretch, from its making to its end. */
async function stretch(
  t: Test,
  scene: Scene,
  name: string,
  make: string[][],
  undo: string[][],
  /** Fails unless the network really was as said. */
  was: (t: Test) => Promise<void>,
): Promise<void> {
  await t.test(name, async (t) => {
    const { net } = scene;
    const all = async (commands: string[][]): Promise<void> => {
      for (const [command = '', ...args] of commands) await mustRun(net.pod, command, ...args);
    };
    const before = await held(scene);
    await all(make);
    try {
      await traffic(t, scene, net.client, address.pod, 8080);
      t.match(await grpc(scene), { status: 'OK', emojis: 2 });
      await was(t);
    } finally {
      await all(undo);
    }
    await nothingIsLeft(t, scene, before);
  });
}

const lost = (chain: string, flag: string): string[] => [
  ...['-t', 'filter', chain, flag === '-i' ? 'INPUT' : 'OUTPUT', flag, podDevice, '-p', 'tcp'],
  ...['-m', 'statistic', '--mode', 'random', '--probability', '0.05', '-j', 'DROP'],
];

async function longWire(t: Test, scene: Scene): Promise<void> {
  const { net } = scene;
  const [command = '', ...within] = net.node.namespace.within;
  const relay = fileURLToPath(new URL('../../support/pod-relay.ts', import.meta.url));
  const before = await held(scene);
  for (const [listen, piece, delay] of [
    [18_080, 1_400, 60],
    [18_081, 7, 15],
  ] as const) {
    await t.test(`${delay} ms, ${piece} bytes a piece`, async (t) => {
      const args = [relay, String(listen), address.pod, '8080', String(piece), String(delay)];
      const child = await startChild(t, command, [...within, process.execPath, ...args]);
      await until('the relay', () => child.stdout() === 'listening\n', { lastSeen: () => child.stderr() });
      await traffic(t, scene, net.client, address.node, listen);
      await child.end();
    });
  }
  await nothingIsLeft(t, scene, before);
}

/** A client that reads slowly must hold back the app, not fill the proxy; and one that leaves must leave nothing. */
async function slowReader(t: Test, scene: Scene): Promise<void> {
  const { net, sallyport } = scene;
  const before = await held(scene);
  const memory = sallyport.residentBytes();
  const url = at(address.pod, 8080, `/blob?bytes=${64 * 2 ** 20}`);
  const readers = Array.from({ length: 4 }, () =>
    curl(net.client, url, '--limit-rate', '50k', '--max-time', '4', '--output', '/dev/null'),
  );
  let most = memory;
  const sampling = setInterval(() => {
    most = Math.max(most, sallyport.residentBytes());
  }, 50);
  t.teardown(() => clearInterval(sampling));
  for (const reader of await Promise.all(readers)) t.match(reader, { code: 28, status: 200 }, 'gave up in the midst');
  clearInterval(sampling);
  const grown = Math.round((most - memory) / 2 ** 20);
  t.ok(grown < 64, `256 MB were on their way, the proxy grew by ${grown} MB`);
  await nothingIsLeft(t, scene, before);
}

/** The wire is cut in the midst of an exchange, and mended. */
async function cutWire(t: Test, scene: Scene): Promise<void> {
  const { net, folder } = scene;
  // More than fits into the buffers on the way, so that much of it is still to come.
  const bytes = 40 * 2 ** 20;
  const file = join(folder, 'large.bin');
  let finished = false;
  const download = curl(
    net.client,
    at(address.pod, 8080, `/blob?bytes=${bytes}`),
    ...['--limit-rate', '16M', '--max-time', `${15 * patience()}`, '--output', file],
  ).finally(() => {
    finished = true;
  });
  await until('the download to be under way', () => existsSync(file) && statSync(file).size > 2 ** 20);
  await mustRun(net.node, 'ip', 'link', 'set', nodePodDevice, 'down');
  t.match(await curl(net.client, at(address.pod, 8080), '--max-time', '1'), { status: 0 }, 'cut');
  t.notOk(finished, 'in the midst of the download');
  await mustRun(net.node, 'ip', 'link', 'set', nodePodDevice, 'up');
  t.match(await download, { code: 0, status: 200 }, 'which goes on when the wire is mended');
  t.equal(sha256(readFileSync(file)), sha256(blob(bytes)), 'and arrives whole');
  t.match(await curl(net.client, at(address.pod, 8080)), { status: 200 });
  t.match(await curl(net.outsider, at(address.pod, 8081)), { status: 403 });
}

if (unavailable) {
  t.plan(0, unavailable);
} else {
  t.setTimeout(1_800_000);
  await t.test('a rough network', { timeout: 1_770_000 }, async (t) => {
    const scene = await startScene(t);
    // What grows once has grown: pools, threads, descriptors.
    await t.test('a smooth one, to begin with', async (t) => {
      await traffic(t, scene, scene.net.client, address.pod, 8080);
      t.match(await grpc(scene), { status: 'OK', emojis: 2 });
    });
    let before = await held(scene);
    await until(
      'idle connections to the app to end',
      async () => {
        const now = await held(scene);
        const settled = now.connections === 0 && now.descriptors === before.descriptors;
        before = now;
        return settled;
      },
      { everyMs: 3_500 },
    );
    await stretch(
      t,
      scene,
      'five packets in a hundred lost, either way',
      [
        ['iptables', '-w', ...lost('-A', '-i')],
        ['iptables', '-w', ...lost('-A', '-o')],
      ],
      [
        ['iptables', '-w', ...lost('-D', '-i')],
        ['iptables', '-w', ...lost('-D', '-o')],
      ],
      async (t) => {
        const { stdout } = await scene.net.pod.run('iptables-save', '--counters', '--table', 'filter');
        const drops = [...stdout.matchAll(/^\[(\d+):\d+\] -A .* -j DROP$/gm)].map(([, packets]) => Number(packets));
        t.equal(drops.length, 2);
        for (const packets of drops) t.ok(packets > 5, `${packets} packets were lost`);
      },
    );
    const tbf = ['tbf', 'rate', '4mbit', 'burst', '16kb', 'latency', '50ms'];
    await stretch(
      t,
      scene,
      'a thin pipe: 4 Mbit/s and a short queue',
      [['tc', 'qdisc', 'add', 'dev', podDevice, 'root', ...tbf]],
      [['tc', 'qdisc', 'del', 'dev', podDevice, 'root']],
      async (t) => {
        const { stdout } = await scene.net.pod.run('tc', '-s', 'qdisc', 'show', 'dev', podDevice);
        t.match(stdout, /qdisc tbf .*rate 4Mbit/);
        t.match(stdout, /overlimits [1-9]/, 'the pipe was full');
      },
    );
    await t.test('a long wire', (t) => longWire(t, scene));
    await t.test('readers slower than the app', (t) => slowReader(t, scene));
    await t.test('a wire that is cut and mended', (t) => cutWire(t, scene));
    t.match(await scene.sallyport.stop(), { code: 0 });
  });
}
