/**
 * Everything at once for a while: clients of every kind, faults of clients and apps, policies and certificates that change.
 * Each answer must be the one that the policy in force wants, and belong to its own request; at the end nothing is left.
 * SALLYPORT_SOAK is the number of minutes (half a one in CI); SALLYPORT_SOAK_ONLY names one kind of client.
 */
import { join } from 'node:path';
import t from 'tap';
import { testCertificate, workloadName } from '../support/certificates.ts';
import { identityEnvironment, replaceFile, temporaryFolder } from '../support/files.ts';
import { startStreamService } from '../support/grpc-shop.ts';
import { inspectorEnvironment, probeHeap } from '../support/heap.ts';
import { growth, scrape } from '../support/metrics.ts';
import { openAdmin, openServer, policyEnvironment } from '../support/open-policy.ts';
import { freePorts } from '../support/ports.ts';
import { startSallyport } from '../support/sallyport.ts';
import { startSniffingApp } from '../support/sniffing-app.ts';
import { until } from '../support/until.ts';
import { startFaultyApp, startWebSocketApp } from './apps.ts';
import { clients as allClients, type Ports, Soak } from './clients.ts';
import { soakPolicy } from './policy.ts';

const minutes = Number(process.env.SALLYPORT_SOAK ?? '0.5');
/** One kind, to look at alone. */
const only = process.env.SALLYPORT_SOAK_ONLY;
const clients = allClients.filter(({ name }) => only === undefined || name === only);
const swapEveryMs = 400;
const swapsPerRotation = 5;
const mebibyte = 2 ** 20;
const ownName = workloadName('web', 'shop');

t.setTimeout(minutes * 60_000 + 600_000);

await t.test('soak', { timeout: minutes * 60_000 + 590_000 }, async (t) => {
  const folder = temporaryFolder(t);
  const certificate = () => testCertificate({ dnsNames: [ownName] });
  const passed = testCertificate({ dnsNames: ['db.example'] });
  const app = await startSniffingApp(t, { tls: { cert: passed.certificatePem, key: passed.keyPem } });
  const sockets = await startWebSocketApp(t);
  const grpc = await startStreamService(t);
  const faulty = await startFaultyApp(t);
  const [web = 0, tunnel = 0, secret = 0, chat = 0, calls = 0, broken = 0] = await freePorts(6);
  const ports: Ports = { web, tunnel, secret, chat, calls, broken };
  const fixed = [
    openServer('tunnel', tunnel, 'opaque'),
    openServer('secret', secret),
    openServer('chat', chat, 'HTTP/1'),
    openServer('calls', calls, 'gRPC'),
    openServer('broken', broken),
  ].join('');
  const documents = (swap: number): string => soakPolicy(web, swap) + fixed;
  const inspector = await inspectorEnvironment();
  const at = (port: number, target: number): string => `${port}=127.0.0.1:${target}`;
  const sallyport = await startSallyport(t, {
    env: {
      ...inspector.env,
      ...policyEnvironment(folder, documents(0)),
      // A request that is ended in its midst has no answer to check; that it is, test/e2e/hardening/revoked-underway.test.ts tells.
      SALLYPORT_POLICY_CHANGE_ENDS: 'tunnels',
      SALLYPORT_INBOUND_PORTS: [
        at(web, app.port),
        at(tunnel, app.port),
        at(secret, app.port),
        at(chat, sockets),
        at(calls, grpc),
        at(broken, faulty.port),
      ].join(','),
      SALLYPORT_LOG: 'warn',
      ...identityEnvironment(join(folder, 'identity'), certificate()),
    },
  });
  const heap = await probeHeap(t, sallyport, inspector.port);
  const metrics = () => scrape(sallyport.adminPort);
  /**
   * Of clients that have ended their side, and of nothing else, the proxy learns only from the app that they are gone; and
   * from it not at once, since a request whose connection broke before any response may be sent once more.
   */
  const abandonedAreOver = async (): Promise<void> => {
    await until(
      'requests of clients that have gone to be over',
      async () => {
        await faulty.restart();
        const labels = { direction: 'inbound', peer: 'src', srv_name: 'broken' };
        return (await metrics()).sum('tcp_open_connections', labels) === 0;
      },
      { everyMs: 50 },
    );
  };
  const soak = new Soak(t, ports, ownName);

  // Once each before anything is measured: what is loaded or made by the first of a kind stays.
  for (const client of clients) await soak.once(client);
  await abandonedAreOver();
  const before = await metrics();
  const startHeap = await heap.usedAfterCollection();
  soak.forget();

  const running = soak.run(clients);
  const end = performance.now() + minutes * 60_000;
  let generation = before.sum('sallyport_policy_generation');
  let [swap, rotations, restarts] = [0, 0, 0];
  while (performance.now() < end && soak.faults.length === 0) {
    swap++;
    soak.changing();
    replaceFile(join(folder, 'policy', 'policy.yaml'), documents(swap) + openAdmin);
    generation = await until(
      `swap ${swap}`,
      async () => {
        const now = (await metrics()).sum('sallyport_policy_generation');
        return now > generation && now;
      },
      { everyMs: 20 },
    );
    soak.changed(swap);
    if (swap % swapsPerRotation === 0) {
      identityEnvironment(join(folder, 'identity'), certificate());
      rotations++;
    }
    if (swap % 4 === 0) {
      await faulty.restart();
      restarts++;
    }
    await new Promise((resolve) => setTimeout(resolve, swapEveryMs));
  }
  soak.stop();
  await running;
  await abandonedAreOver();

  t.same(soak.faults, [], 'every answer was right');
  for (const { name } of clients) {
    const count = soak.counts.get(name) ?? 0;
    t.ok(count > 5, `${name}: ${count}`);
  }
  t.comment(`${swap} policies, ${rotations} certificates, ${restarts} restarts`);

  const open = (now: Awaited<ReturnType<typeof metrics>>): number =>
    now.sum('tcp_open_connections', { direction: 'inbound', peer: 'src' });
  let left = before;
  // Our own scrape is one of these.
  await until(
    'all connections to be over',
    async () => {
      left = await metrics();
      return open(left) <= open(before) && left.sum('process_open_fds') <= before.sum('process_open_fds') + 16;
    },
    {
      timeoutMs: 30_000,
      everyMs: 250,
      lastSeen: () =>
        `${open(left)} of ${open(before)} connections, ${left.sum('process_open_fds')} of ${before.sum('process_open_fds')} descriptors`,
    },
  );
  t.equal(left.sum('sallyport_internal_errors_total'), 0, 'no fault of ours');
  t.equal(left.sum('sallyport_policy_load_errors_total'), 0);
  const counted = (name: string): number => growth(before, left, name, { srv_name: 'web' });
  // What was permitted, waited, and was refused by the next policy before it could leave counts as both.
  const late = counted('inbound_http_authz_allow_total') - soak.answered.permitted;
  t.ok(late >= 0 && late <= 2 * swap, `as many permitted as clients saw, and ${late} refused late in ${swap} swaps`);
  t.equal(counted('inbound_http_authz_deny_total'), soak.answered.denied, 'as many denied');
  t.equal(counted('sallyport_http_authz_terminate_total'), 0, 'none ended in its midst');
  t.equal(counted('inbound_http_route_not_found_total'), soak.answered.noRoute, 'as many without a route');
  let used = 0;
  await until(
    'the heap to be as small as before',
    async () => {
      used = await heap.usedAfterCollection();
      return used < startHeap + 6 * mebibyte;
    },
    { timeoutMs: 20_000, everyMs: 1000, lastSeen: () => `${used} after ${startHeap}` },
  );
  t.pass(`the heap holds ${used} after ${startHeap}`);
  heap.detach();
  t.match(await sallyport.stop(), { code: 0 });
});
