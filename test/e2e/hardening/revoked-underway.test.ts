import { join } from 'node:path';
import type { ConnectionOptions } from 'node:tls';
import t, { type Test } from 'tap';
import { lanes } from '../../support/attacked-routes.ts';
import { documentsOf, type GuardedPort } from '../../support/candidate-documents.ts';
import { meshClient, testCertificate, workloadCertificate, workloadName } from '../../support/certificates.ts';
import { identityEnvironment, replaceFile } from '../../support/files.ts';
import { type Fields, headersFrame, requestFields } from '../../support/http2-frames.ts';
import { type FramePeer, openClient } from '../../support/http2-peers.ts';
import { type LastingApp, startLastingApp } from '../../support/lasting-app.ts';
import { scrape } from '../../support/metrics.ts';
import { openAdmin, policyEnvironment } from '../../support/open-policy.ts';
import { freePorts } from '../../support/ports.ts';
import { latin1, RawClient } from '../../support/raw-http.ts';
import { type Sallyport, startSallyport } from '../../support/sallyport.ts';
import { until } from '../../support/until.ts';

/*
 * What is under way when policy changes is decided again: whoever is still let in notices nothing, and what is refused by now
 * ends, on both sides. SALLYPORT_TEST_WORKERS=2 runs all of it with two workers.
 */
t.setTimeout(900_000);

const ownName = workloadName('web', 'shop');
const identified = meshClient(ownName, workloadCertificate('orders', 'shop'));
const anonymous = {
  servername: ownName,
  ...(({ ca, checkServerIdentity }) => ({ ca, checkServerIdentity }))(identified),
};

/** Something that lasts, as its client sees it. */
interface Underway {
  /** In a word: `open`, or how it has ended. */
  state(): string;
  /** Bytes that have come of it. */
  came(): number;
  /** More of what the client sends; null where it has nothing more to say. */
  readonly say: (() => void) | null;
  /** It is on its way: what is asked of the client's side before policy changes. */
  hasBegun(): boolean;
}

interface Kind {
  readonly name: string;
  readonly isTunnel?: boolean;
  /** Its state when it has been ended. */
  readonly ended: string;
  open(t: Test, port: number, name: string, tls: ConnectionOptions | null): Promise<Underway>;
}

const webSocket = 'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==';
/** A field that the fast lane does not take. */
const odd = 'Proxy-Connection: close';

function http1(name: string, line: string, fields: string, ended: string, more: Partial<Kind> = {}): Kind {
  return {
    name,
    ended,
    ...more,
    async open(t, port, id, tls) {
      const client = await RawClient.open({ port, ...(tls === null ? {} : { tls }) });
      t.teardown(() => client.destroy());
      client.send(
        latin1(`${line.replace('NAME', id)} HTTP/1.1\r\nHost: web\r\n${fields}${fields === '' ? '' : '\r\n'}\r\n`),
      );
      const text = (): string => client.received.toString('latin1');
      const isUpload = line.startsWith('POST');
      // The library lane sends a head with the first of its content.
      if (isUpload) client.send(latin1('5\r\nhello\r\n'));
      const status = (): string => /^HTTP\/1\.1 (\d+)/.exec(text())?.[1] ?? '';
      const isRefused = (): boolean => /^[^123]/.test(status());
      const isWhole = (): boolean => text().includes('\r\n0\r\n\r\n');
      return {
        state: () => {
          if (isRefused()) return status();
          if (isWhole()) return 'whole';
          return client.ended ? 'broken off' : 'open';
        },
        came: () => client.receivedLength,
        say: isUpload
          ? () => client.send(latin1('5\r\nhello\r\n'))
          : more.isTunnel === true
            ? () => client.send(latin1('hello'))
            : null,
        hasBegun: () => ended !== 'broken off' || status() !== '',
      };
    },
  };
}

const grpc: Fields = [['content-type', 'application/grpc']];
const toHttp1: Fields = [['l5d-orig-proto', 'HTTP/1.1']];

function http2(name: string, method: string, path: string, fields: Fields, ended: string): Kind {
  return {
    name,
    ended,
    async open(t, port, id, tls) {
      const peer: FramePeer = await openClient(t, port, tls === null ? {} : { tls: { ...tls, ALPNProtocols: ['h2'] } });
      peer.send(headersFrame(1, requestFields(path.replace('NAME', id), fields, method), method === 'GET'));
      const message = peer.message(1);
      const trailer = (): string => {
        const status = message.blocks.at(-1)?.find(([field]) => field === 'grpc-status')?.[1];
        return status === undefined ? '' : ` grpc-status ${status}`;
      };
      const outcome = (): string => {
        if (message.reset === null && !message.ended) return peer.ended ? 'connection ended' : 'open';
        return peer.outcome(1) + trailer();
      };
      return {
        state: outcome,
        came: () => message.bytes,
        say: method === 'POST' ? () => peer.data(1, latin1('hello')) : null,
        hasBegun: () => (!path.startsWith('/download') && !path.startsWith('/call') ? true : peer.status(1) === 200),
      };
    },
  };
}

const upload = 'Transfer-Encoding: chunked';
const kinds: readonly Kind[] = [
  http1('WebSocket', 'GET /socket/NAME', webSocket, 'broken off', { isTunnel: true }),
  http1('WebSocket, odd', 'GET /socket/NAME', `${webSocket}\r\n${odd}`, 'broken off', { isTunnel: true }),
  http1('WebSocket before its agreement', 'GET /pending/NAME', webSocket, '403', { isTunnel: true }),
  http1('an upgrade', 'GET /socket/NAME', 'Connection: Upgrade\r\nUpgrade: chat/1', 'broken off', { isTunnel: true }),
  http1('an upgrade before its agreement', 'GET /pending/NAME', 'Connection: Upgrade\r\nUpgrade: chat/1', '403', {
    isTunnel: true,
  }),
  http1('CONNECT', 'CONNECT NAME.example:443', '', 'broken off', { isTunnel: true }),
  http1('no response', 'GET /hang/NAME', '', '403'),
  http1('an upload', 'POST /upload/NAME', upload, '403'),
  http1('an upload, odd', 'POST /upload/NAME', `${upload}\r\n${odd}`, '403'),
  http1('a download', 'GET /download/NAME', '', 'broken off'),
  http1('a download, odd', 'GET /download/NAME', odd, 'broken off'),
  http1('events', 'GET /events/NAME', 'Accept: text/event-stream', 'broken off'),
  http1('both ways', 'POST /download/NAME', upload, 'broken off'),
  http2('HTTP/2, no response', 'GET', '/hang/NAME', [], '403'),
  http2('HTTP/2, an upload', 'POST', '/upload/NAME', [], '403'),
  http2('HTTP/2, a download', 'GET', '/download/NAME', [], '200 INTERNAL_ERROR'),
  http2('HTTP/2, both ways', 'POST', '/download/NAME', [], '200 INTERNAL_ERROR'),
  http2('HTTP/2 to HTTP/1, no response', 'GET', '/hang/NAME', toHttp1, '403'),
  http2('HTTP/2 to HTTP/1, an upload', 'POST', '/upload/NAME', toHttp1, '403'),
  http2('HTTP/2 to HTTP/1, a download', 'GET', '/download/NAME', toHttp1, '200 INTERNAL_ERROR'),
  http2('gRPC, no response', 'POST', '/hang/NAME', grpc, '200 grpc-status 7'),
  http2('gRPC, both ways', 'POST', '/call/NAME', grpc, '200 grpc-status 7'),
];

interface Opened {
  readonly kind: Kind;
  readonly who: string;
  readonly name: string;
  readonly underway: Underway;
}

/** All kinds, of clients with and without an identity. */
async function openAll(t: Test, port: number, app: LastingApp): Promise<Opened[]> {
  const clients = [
    ['anybody', null],
    ['anybody over TLS', anonymous],
    ['orders', identified],
  ] as const;
  const opened: Opened[] = [];
  for (const [who, tls] of clients) {
    const all = kinds.map(async (kind, at) => {
      const name = `${who.replaceAll(' ', '-').toLowerCase()}-${at}`;
      return { kind, who, name, underway: await kind.open(t, port, name, tls) };
    });
    opened.push(...(await Promise.all(all)));
  }
  const late = (): string[] =>
    opened
      .filter(({ name, underway }) => !app.requests.has(name) || !underway.hasBegun())
      .map(({ name, kind }) => `${kind.name} ${name}`);
  await until('all to be under way', () => late().length === 0, { lastSeen: () => late().join() });
  t.same(
    opened.filter(({ underway }) => underway.state() !== 'open').map(({ kind }) => kind.name),
    [],
  );
  return opened;
}

/** What goes on goes on both ways. */
async function goOn(t: Test, app: LastingApp, opened: readonly Opened[], why: string): Promise<void> {
  const before = opened.map(({ name, underway }) => ({
    came: underway.came(),
    bytes: app.requests.get(name)?.bytes ?? 0,
  }));
  for (const { underway } of opened) underway.say?.();
  const still = (): string[] =>
    opened
      .filter(({ kind, name, underway }, at) => {
        const { came = 0, bytes = 0 } = before[at] ?? {};
        const isAnswered = kind.ended !== '403' && kind.ended !== '200 grpc-status 7';
        if (isAnswered && underway.came() <= came) return true;
        // What waits for the agreement waits.
        const isHeard = underway.say === null || kind.name.includes('agreement');
        return !isHeard && (app.requests.get(name)?.bytes ?? 0) <= bytes;
      })
      .map(({ kind, who, underway }) => `${kind.name} of ${who}: ${underway.state()}`);
  await until(why, () => still().length === 0, { lastSeen: () => still().join('; ') });
  const over = opened.filter(
    ({ name, underway }) => underway.state() !== 'open' || app.requests.get(name)?.over === true,
  );
  t.same(
    over.map(({ kind, who }) => `${kind.name} of ${who}`),
    [],
    why,
  );
}

async function generation({ adminPort }: Sallyport): Promise<number> {
  return (await scrape(adminPort)).sum('sallyport_policy_generation');
}

for (const { name: lane, env } of lanes) {
  for (const ends of ['all', 'tunnels'] as const) {
    t.test(`${lane}, ${ends}`, async (t) => {
      const folder = t.testdir();
      const app = await startLastingApp(t);
      const [web = 0, other = 0] = await freePorts(2);
      const everybody: GuardedPort = { from: ['127.0.0.0/8'] };
      const orders: GuardedPort = { who: [workloadName('orders', 'shop')], limit: 1 };
      const sallyport = await startSallyport(t, {
        env: {
          ...policyEnvironment(folder, documentsOf(web, everybody)),
          ...identityEnvironment(join(folder, 'identity'), testCertificate({ dnsNames: [ownName] })),
          SALLYPORT_INBOUND_PORTS: `${web}=127.0.0.1:${app.port}`,
          SALLYPORT_POLICY_CHANGE_ENDS: ends,
          SALLYPORT_SHUTDOWN_GRACE_PERIOD: '0s',
          ...env,
        },
      });
      const change = async (documents: string): Promise<void> => {
        const before = await generation(sallyport);
        replaceFile(join(folder, 'policy', 'policy.yaml'), documents + openAdmin);
        await until('the policy', async () => (await generation(sallyport)) > before);
      };
      const opened = await openAll(t, web, app);
      await goOn(t, app, opened, 'it goes on');
      await change(documentsOf(web, everybody) + documentsOf(other, everybody));
      await goOn(t, app, opened, 'another port changes: all goes on');
      await change(documentsOf(web, { ...everybody, ...{ limit: 1 } }));
      await goOn(t, app, opened, 'a rate limit is for what begins: all goes on');

      await change(documentsOf(web, orders));
      const isEnded = ({ who, kind }: Opened): boolean =>
        who !== 'orders' && (ends === 'all' || kind.isTunnel === true);
      const gone = opened.filter(isEnded);
      const wrong = (): string[] =>
        gone
          .filter(
            ({ kind, name, underway }) => underway.state() !== kind.ended || app.requests.get(name)?.over !== true,
          )
          .map(
            ({ kind, who, name, underway }) =>
              `${kind.name} of ${who}: ${underway.state()} ${app.requests.get(name)?.over}`,
          );
      await until('what is refused to end, on both sides', () => wrong().length === 0, {
        timeoutMs: 2_000,
        lastSeen: () => wrong().join('; '),
      });
      await goOn(
        t,
        app,
        opened.filter((each) => !isEnded(each)),
        'who is still let in goes on',
      );
      const figures = await scrape(sallyport.adminPort);
      t.equal(figures.sum('sallyport_http_authz_terminate_total'), gone.length, 'each is counted once');
      t.equal(figures.sum('sallyport_internal_errors_total'), 0);
      const message = 'Request terminated due to policy change';
      const lines = await until('a line', () => {
        const found = sallyport.logs().filter(({ msg }) => msg === message);
        return found.length > 0 ? found : undefined;
      });
      const told = lines.map(({ client, path, host }) => JSON.stringify([client, path, host]));
      t.equal(new Set(told).size, told.length, 'and none is told twice');
      t.match(lines[0], {
        verdict: 'deny',
        server: { name: `s${web}` },
        reason: /./,
        candidates: [{ failed: 'identity' }],
      });
      // Nothing is left of those that it ended.
      await change(documentsOf(web, everybody));
      await change(documentsOf(web, { ...orders, limit: 2 }));
      await goOn(
        t,
        app,
        opened.filter(({ who }) => who === 'orders'),
        'changes follow each other',
      );
      t.equal((await scrape(sallyport.adminPort)).sum('sallyport_http_authz_terminate_total'), gone.length);
    });
  }
}
