import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { testCertificate } from '../support/certificates.ts';
import { type Finished, missing, runToEnd, startChild } from '../support/children.ts';
import { connectNamespaces, createNamespace, type Namespace, namespacesUnavailable } from '../support/namespace.ts';
import type { ProbeQuestion } from '../support/probe-client.ts';
import { type Sallyport, startSallyport } from '../support/sallyport.ts';
import { until } from '../support/until.ts';
import { startDriver, type WireDriver } from '../support/wire-driver.ts';

/*
 * Probes of every kind under the default `deny`, by real clients in another network namespace that stands for the node: each
 * reaches the app, and whatever else is tried in its place does not.
 */

const pod = '10.9.0.2';
const node = '10.9.0.1';
const outsider = '198.51.100.7';
const program = (name: string): string => fileURLToPath(new URL(`../support/${name}.ts`, import.meta.url));
const check = '/grpc.health.v1.Health/Check';

type Seen = Readonly<Record<string, unknown>>;

interface Scene {
  readonly inside: Namespace;
  readonly ports: Record<'http' | 'https' | 'grpc', number>;
  readonly seen: readonly Seen[];
  readonly driver: WireDriver;
  readonly sallyport: Sallyport;
  requests(): readonly unknown[];
  curl(url: string, ...args: string[]): Promise<string>;
  ask(...questions: ProbeQuestion[]): Promise<readonly string[]>;
}

async function setUp(t: Test): Promise<Scene> {
  const [inside, outside] = [await createNamespace(t), await createNamespace(t)];
  const sides = [`${pod}/24`, `${node}/24`] as const;
  await connectNamespaces(t, { namespace: inside, address: sides[0] }, { namespace: outside, address: sides[1] });
  await outside.addAddress(outsider);
  const run = (command: string, ...args: string[]): Promise<Finished> => {
    const [ip = '', ...rest] = outside.within;
    return runToEnd(t, ip, [...rest, command, ...args], { timeoutMs: 120_000 });
  };
  const seen: Seen[] = [];
  const ports = await startApp(t, inside, seen);
  const driver = await startDriver(t, inside.within);
  const sallyport = await startSallyport(t, {
    within: inside.within,
    health: async (path, port) => (await driver.get(port, path)).status ?? undefined,
    env: {
      SALLYPORT_INBOUND_PORTS: [
        `8080=127.0.0.1:${ports.http}`,
        `8443=127.0.0.1:${ports.https}`,
        `9000=127.0.0.1:${ports.grpc}`,
        `5432=127.0.0.1:${ports.http}`,
        `25=127.0.0.1:${ports.https}`,
      ].join(),
      SALLYPORT_ADMIN_LISTEN: '127.0.0.1:4191',
      SALLYPORT_PROBES: [
        ...['8080/healthz', 'hook:8080/prestop', 'grpc:9000', 'tcp:5432'],
        ...['https:8443/healthz', 'https:8443/large', 'https:25/healthz'],
      ].join(),
      SALLYPORT_PROBE_NETWORKS: '10.9.0.0/24',
    },
  });
  const always = ['-sk', '--max-time', '30', '-o', '/dev/null', '-w', '%{http_code}', '--path-as-is'];
  return {
    inside,
    ports,
    seen,
    driver,
    sallyport,
    requests: () => seen.flatMap((each) => each.seen ?? []),
    curl: async (url, ...args) => (await run('curl', ...always, ...args, url)).stdout,
    ask: async (...questions) => {
      const { stdout, stderr } = await run(process.execPath, program('probe-client'), JSON.stringify(questions));
      if (stdout === '') throw new Error(stderr);
      return JSON.parse(stdout);
    },
  };
}

async function startApp(
  t: Test,
  { within }: Namespace,
  seen: Seen[],
): Promise<Record<'http' | 'https' | 'grpc', number>> {
  const { certificatePem: cert, keyPem: key } = testCertificate({ dnsNames: ['app.test'] });
  const [ip = '', ...rest] = within;
  let line = '';
  await startChild(t, ip, [...rest, process.execPath, program('probed-app'), JSON.stringify({ cert, key })], {
    onStdout: (text) => {
      const lines = `${line}${text}`.split('\n');
      line = lines.pop() ?? '';
      for (const each of lines) seen.push(JSON.parse(each));
    },
  });
  await until('the app', () => seen.length > 0);
  return seen.shift()?.ports as Record<'http' | 'https' | 'grpc', number>;
}

async function asKubelet(t: Test, { curl, ask, requests, seen, driver }: Scene): Promise<void> {
  t.equal(await curl(`http://${pod}:8080/healthz`, '-A', 'kube-probe/1.36'), '200', 'httpGet');
  t.equal(await curl(`http://${pod}:8080/prestop`), '200', 'a hook');
  t.equal(await curl(`https://${pod}:8443/healthz?full=1`, '-H', 'x-token: secret', '--http2'), '200', 'HTTPS');
  t.equal(await curl('https://app.test:8443/healthz', '--resolve', `app.test:8443:${pod}`), '200', 'HTTPS by a name');
  t.equal(await curl(`https://${pod}:25/healthz`), '200', 'HTTPS on an opaque port');
  t.equal(await curl(`https://${pod}:8443/large`), '200', 'a long answer');
  const call = { kind: 'grpc', host: pod, port: 9000, path: check } as const;
  const answers = await ask(
    { ...call, message: '' },
    { ...call, message: '0a0473686f70' },
    { kind: 'bytes', host: pod, port: 5432, from: node, text: '' },
  );
  t.same(answers, ['ok 0801', 'ok 0801', 'closed'], 'gRPC, gRPC of a service, TCP');
  t.same(requests(), [
    'http GET /healthz',
    'http GET /prestop',
    'https GET /healthz?full=1',
    'https GET /healthz',
    'https GET /healthz',
    'https GET /large',
    'grpc Check ',
    'grpc Check 0a0473686f70',
  ]);
  t.ok(
    seen.some(({ token }) => token === 'secret'),
    'fields of an HTTPS probe go on',
  );
  const counted = async (probe: string, srv_port: string): Promise<number> =>
    (await driver.scrape(4191)).sum('sallyport_probes_admitted_total', { probe, srv_port });
  await until('the TCP probe to be counted', async () => (await counted('tcp', '5432')) === 1);
  const rows = [
    ['http', '8080', 1],
    ['hook', '8080', 1],
    ['https', '8443', 3],
    ['https', '25', 1],
    ['grpc', '9000', 2],
  ] as const;
  for (const [kind, port, count] of rows) t.equal(await counted(kind, port), count, `counted: ${kind} ${port}`);
}

const get = (target: string, ...fields: string[]): string =>
  `${[`GET ${target} HTTP/1.1`, 'Host: web', ...fields].join('\r\n')}\r\n\r\n`;

type Row = readonly [title: string, text: string, status: string];
const inPlaceOfHttp: readonly Row[] = [
  ['another path', get('/admin'), '403'],
  ['a longer segment', get('/healthzX'), '403'],
  ['a segment more', get('/healthz/x'), '403'],
  ['dot segments', get('/healthz/../admin'), '403'],
  ['an escaped slash', get('/healthz%2f..%2fadmin'), '403'],
  ['a path that is read otherwise', get('/x/../healthz'), '400'],
  ['an absolute target elsewhere', get('http://web/admin'), '403'],
  ['POST', get('/healthz').replace('GET', 'POST'), '403'],
  ['HEAD', get('/healthz').replace('GET', 'HEAD'), '403'],
  ['CONNECT', 'CONNECT web:80 HTTP/1.1\r\nHost: web:80\r\n\r\n', '403'],
  ['content', `${get('/healthz', 'Content-Length: 5')}hello`, '403'],
  ['chunks', `${get('/healthz', 'Transfer-Encoding: chunked')}0\r\n\r\n`, '403'],
  ['an upgrade', get('/healthz', 'Connection: Upgrade', 'Upgrade: websocket'), '403'],
  ['a field that names the path', get('/admin', 'X-Original-URL: /healthz'), '403'],
];

async function inItsPlace(t: Test, { ask, requests, seen, curl }: Scene): Promise<void> {
  const before = { requests: requests().length, seen: seen.length };
  type Attack = readonly [title: string, question: ProbeQuestion, outcome: string];
  type More = { readonly tls?: { readonly servername?: string }; readonly from?: string };
  const bytes = (port: number, text: string, more: More = {}): ProbeQuestion => {
    return { kind: 'bytes', host: pod, port, from: node, text, ...more };
  };
  const call = (path: string, port = 9000, from = node): ProbeQuestion => ({
    kind: 'call',
    host: pod,
    port,
    path,
    from,
  });
  const noRequest = `${'\x01\x02\x03'.repeat(20)}\r\n\r\n`;
  const attacks: readonly Attack[] = [
    ...inPlaceOfHttp.flatMap(([title, text, status]): Attack[] => [
      [title, bytes(8080, text), status],
      [`in TLS: ${title}`, bytes(8443, text, { tls: {} }), status],
    ]),
    ['no request', bytes(8080, noRequest), '400'],
    ['in TLS: no request', bytes(8443, noRequest, { tls: {} }), '400'],
    ['from outside', bytes(8080, get('/healthz'), { from: outsider }), '403'],
    ['a hook from outside', bytes(8080, get('/prestop'), { from: outsider }), '403'],
    ['TLS from outside', bytes(8443, get('/healthz'), { tls: {}, from: outsider }), 'closed'],
    [
      'TLS by a name from outside',
      bytes(8443, get('/healthz'), { tls: { servername: 'app.test' }, from: outsider }),
      'closed',
    ],
    ['an HTTPS probe without TLS', bytes(8443, get('/healthz')), '403'],
    ['an HTTP probe in TLS', bytes(8080, get('/healthz'), { tls: {} }), 'closed'],
    ['on an opaque port, without TLS', bytes(25, get('/healthz')), 'closed'],
    ['on an opaque port, TLS from outside', bytes(25, get('/healthz'), { tls: {}, from: outsider }), 'closed'],
    ['on an opaque port, another path', bytes(25, get('/admin'), { tls: {} }), '403'],
    ['bytes after a TCP probe', bytes(5432, get('/healthz')), 'closed'],
    ['TLS after a TCP probe', bytes(5432, get('/healthz'), { tls: {} }), 'closed'],
    ['another method', call('/grpc.health.v1.Health/List'), 'status 7'],
    ['another service', call('/shop.v1.Admin/Check'), 'status 7'],
    ['a call with a segment more', call(`${check}/x`), 'status 7'],
    ['a call from outside', call(check, 9000, outsider), 'status 7'],
    ['a call on another port', call(check, 8080), 'status 7'],
  ];
  const outcomes = await ask(...attacks.map(([, question]) => question));
  for (const [i, [title, , outcome]] of attacks.entries()) {
    const answer = outcomes[i] ?? '';
    t.equal(/^HTTP\/1\.1 (\d+)/.exec(answer)?.[1] ?? answer, outcome, title);
  }
  const plainPost = await curl(`http://${pod}:9000${check}`, '--http2-prior-knowledge', '-d', 'x');
  t.equal(plainPost, '403', 'POST to the call without gRPC');
  t.equal(seen.length, before.seen, 'the app saw nothing of all that, not even a connection');
  const twice = { ...bytes(8443, get('/healthz') + get('/admin'), { tls: {} }), answers: 2 } as ProbeQuestion;
  const [both = ''] = await ask(twice);
  t.same(both.match(/HTTP\/1\.1 \d+/g), ['HTTP/1.1 200', 'HTTP/1.1 403'], 'two requests on one connection in TLS');
  t.same(requests().slice(before.requests), ['https GET /healthz']);
}

/** With the networks that `inject` leaves as they are, and the node's address beside which the gateway counts. */
async function asInjected(t: Test, { inside, ports, driver, curl, requests }: Scene): Promise<void> {
  const sallyport = await startSallyport(t, {
    within: inside.within,
    health: async (path, port) => (await driver.get(port, path)).status ?? undefined,
    env: {
      SALLYPORT_INBOUND_PORTS: `18080=127.0.0.1:${ports.http},18443=127.0.0.1:${ports.https}`,
      SALLYPORT_ADMIN_LISTEN: 'off',
      SALLYPORT_PROBES: '18080/healthz,hook:18080/prestop,https:18443/healthz,https-hook:18443/prestop',
      SALLYPORT_NODE_IPS: '203.0.113.1',
    },
  });
  const before = requests().length;
  const from = ['--interface', outsider];
  t.equal(await curl(`http://${pod}:18080/prestop`), '200', 'a hook, from the gateway');
  t.equal(await curl(`https://${pod}:18443/prestop`), '200', 'a hook in TLS, from the gateway');
  t.equal(await curl(`http://${pod}:18080/prestop`, ...from), '403', 'a hook, from elsewhere');
  t.equal(await curl(`https://${pod}:18443/prestop`, ...from), '403', 'a hook in TLS, from elsewhere');
  t.equal(await curl(`http://${pod}:18080/healthz`, ...from), '200', 'httpGet, from elsewhere');
  t.equal(await curl(`https://${pod}:18443/healthz`, ...from), '200', 'HTTPS, from elsewhere');
  t.equal(await curl(`https://${pod}:18443/admin`, ...from), '403', 'another path in TLS');
  t.same(requests().slice(before), [
    'http GET /prestop',
    'https GET /prestop',
    'http GET /healthz',
    'https GET /healthz',
  ]);
  t.match(await sallyport.stop(), { code: 0 });
}

async function everyKind(t: Test): Promise<void> {
  const scene = await setUp(t);
  await t.test('as the kubelet', (t) => asKubelet(t, scene));
  await t.test('in its place', (t) => inItsPlace(t, scene));
  await t.test('as injected', (t) => asInjected(t, scene));
  t.match(await scene.sallyport.stop(), { code: 0 });
  const denied = scene.sallyport.logs().filter(({ msg }) => msg === 'Connection denied');
  t.ok(
    denied.length > 0 && denied.every(({ reason }) => /nothing is authorized|no authorization/.test(String(reason))),
  );
}

const unavailable = namespacesUnavailable() ?? (await missing(t, 'curl'));
if (unavailable) t.plan(0, unavailable);
else await t.test('probes of every kind', { timeout: 840_000 }, everyKind);
