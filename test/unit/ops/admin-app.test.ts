import { gunzipSync } from 'node:zlib';
import t from 'tap';
import { parseIp } from '../../../lib/ip.ts';
import {
  type AdminOptions,
  type AdminRequest,
  type AdminResponse,
  acceptsGzip,
  createAdminApp,
} from '../../../lib/ops/admin-app.ts';
import { Readiness } from '../../../lib/ops/readiness.ts';

interface Fixture {
  readonly options: AdminOptions;
  readonly readiness: Readiness;
  readonly seen: string[];
}

function fixture(over: Partial<AdminOptions> = {}): Fixture {
  const readiness = new Readiness();
  const seen: string[] = [];
  let level = 'info';
  const options: AdminOptions = {
    ready: () => readiness.state(),
    live: () => true,
    metrics: async () => ({ contentType: 'text/plain; version=0.0.4', body: 'request_total 7\n' }),
    policy: () => ({ ports: [{ port: 8080 }] }),
    decisions: { version: 1, lines: null },
    log: {
      level: () => level,
      setLevel: (text) => {
        if (text !== 'debug') return false;
        level = text;
        return true;
      },
    },
    shutdown: () => seen.push('shutdown'),
    failed: (path, error) => seen.push(`${path} ${(error as Error).message}`),
    ...over,
  };
  return { options, readiness, seen };
}

interface Call {
  readonly method?: string;
  readonly path: string;
  readonly ip?: string;
  readonly host?: string;
  readonly headers?: Record<string, string[]>;
  readonly body?: string | Error;
}

const deliberate = { 'sallyport-admin': ['1'] };

function call(
  options: AdminOptions,
  { method = 'GET', path, ip = '127.0.0.1', host = 'localhost:4191', headers = deliberate, body = '' }: Call,
): Promise<AdminResponse> {
  const clientIp = parseIp(ip);
  if (clientIp === undefined) throw new Error('the row names no address');
  const request: AdminRequest = {
    method,
    path,
    query: '',
    host,
    clientIp,
    header: (name) => headers[name] ?? [],
    body: (maxBodyBytes) => {
      const bytes = Buffer.from(body instanceof Error ? '' : body);
      if (body instanceof Error || bytes.length > maxBodyBytes) return Promise.reject(new Error('too long'));
      return Promise.resolve(bytes);
    },
  };
  return createAdminApp(options).handle(request).then(readable);
}

/** What is not compressed, as text. */
function readable(response: AdminResponse): AdminResponse {
  return header(response, 'content-encoding') === undefined ? { ...response, body: String(response.body) } : response;
}

function header(response: AdminResponse, name: string): string | undefined {
  return response.headers.find(([known]) => known === name)?.[1];
}

t.test('metrics are rendered once for all who ask at once, and again for those who ask later', async (t) => {
  let count = 0;
  const { options } = fixture({
    metrics: async () => ({ contentType: 'text/plain', body: `rendered_total ${++count}` }),
  });
  const app = createAdminApp(options);
  const clientIp = parseIp('192.0.2.1');
  if (clientIp === undefined) throw new Error('no address');
  const ask = async (encoding: string): Promise<string> => {
    const body = async (): Promise<Buffer> => Buffer.alloc(0);
    const header = (name: string): string[] => (name === 'accept-encoding' ? [encoding] : []);
    const request = { method: 'GET', path: '/metrics', query: '', host: 'web', clientIp, header, body };
    const { body: answer } = readable(await app.handle(request));
    return typeof answer === 'string' ? answer : gunzipSync(answer).toString();
  };
  const encodings = Array.from({ length: 250 }, (_, i) => (i % 2 === 0 ? '' : 'gzip'));
  t.same(new Set(await Promise.all(encodings.map(ask))), new Set(['rendered_total 1']));
  t.equal(await ask(''), 'rendered_total 2');
});

t.test('resources, methods, and who may ask', async (t) => {
  const local = '127.0.0.1';
  const remote = '10.1.2.3';
  const localhostOnly = 'Requests are only permitted from localhost.\n';
  const rows: [string, string, string, number, string | null][] = [
    ['GET', '/live', remote, 200, 'live\n'],
    ['HEAD', '/live', remote, 200, 'live\n'],
    ['POST', '/live', remote, 405, null],
    ['GET', '/ready', remote, 503, 'not ready: policy, identity, listeners\n'],
    ['GET', '/metrics', remote, 200, 'request_total 7\n'],
    ['HEAD', '/metrics', remote, 200, 'request_total 7\n'],
    ['PUT', '/metrics', local, 405, null],
    ['GET', '/policy', local, 200, '{\n  "ports": [\n    {\n      "port": 8080\n    }\n  ]\n}\n'],
    ['GET', '/policy', '127.9.9.9', 403, localhostOnly],
    ['GET', '/policy', '::1', 200, null],
    ['GET', '/policy', '::ffff:127.0.0.1', 200, null],
    ['GET', '/policy', remote, 403, localhostOnly],
    ['GET', '/policy', '::2', 403, localhostOnly],
    ['GET', '/decisions', local, 404, 'no decisions are recorded: SALLYPORT_DECISIONS is off\n'],
    ['GET', '/decisions', remote, 403, localhostOnly],
    ['PUT', '/decisions', local, 405, null],
    ['GET', '/log-level', local, 200, 'info\n'],
    ['GET', '/log-level', remote, 403, localhostOnly],
    ['PUT', '/log-level', remote, 403, localhostOnly],
    ['DELETE', '/log-level', local, 405, null],
    ['GET', '/shutdown', local, 405, null],
    ['POST', '/shutdown', remote, 403, localhostOnly],
    ['DELETE', '/shutdown', remote, 403, localhostOnly],
    ['GET', '/', local, 404, null],
    ['GET', '/live/', local, 404, null],
    ['GET', '/LIVE', local, 404, null],
    ['GET', '/env.json', local, 404, null],
    ['GET', '/proxy-log-level', local, 404, null],
    ['GET', '__proto__', local, 404, null],
    ['GET', 'constructor', local, 404, null],
  ];
  for (const [method, path, ip, status, body] of rows) {
    const { options, seen } = fixture();
    const response = await call(options, { method, path, ip });
    const what = `${method} ${path} from ${ip}`;
    t.equal(response.status, status, what);
    if (body !== null) t.equal(response.body, body, what);
    t.same(seen, [], `${what} has no effect`);
  }
});

const page = { host: 'localhost:4191', origin: [], site: [], admin: ['1'] };
const evil = 'http://evil.example';

interface CallerRow {
  readonly host?: string;
  readonly hostFields?: string[];
  readonly origin?: string[];
  readonly site?: string[];
  readonly admin?: string[];
  /** Status of: GET /policy, GET /log-level, PUT /log-level, POST /shutdown. */
  readonly want: readonly [number, number, number, number];
}

const fine = [200, 200, 204, 200] as const;
const refused = [403, 403, 403, 403] as const;
const noChange = [200, 200, 403, 403] as const;

t.test('what the machine keeps to itself: hosts, origins, sites, and the header for changes', async (t) => {
  const rows: readonly CallerRow[] = [
    { want: fine },
    ...[
      'localhost',
      'LOCALHOST:1',
      '127.0.0.1',
      '127.0.0.1:4191',
      '10.1.2.3:80',
      '[::1]',
      '[::1]:4191',
      '[::ffff:127.0.0.1]',
    ].map((host) => ({ host, want: fine })),
    ...[
      ...[
        '',
        'evil.example',
        'evil.example:4191',
        'localhost.evil.example',
        'localhost.',
        'xlocalhost',
        'localhost:',
        ':4191',
      ],
      ...[
        '127.0.0.1.evil.example',
        '127.0.0.1.',
        '127.1',
        '0x7f.0.0.1',
        '2130706433',
        '256.0.0.1',
        '::1',
        '[::1',
        '[::1%25lo]',
      ],
      ...[
        'localhost@evil.example',
        'evil@localhost',
        'localhost, evil.example',
        ' localhost',
        'localhost:123456',
        '[evil]',
      ],
    ].map((host) => ({ host, want: refused })),
    { hostFields: ['localhost:4191'], want: fine },
    { hostFields: ['evil.example'], want: refused },
    { hostFields: ['localhost', 'evil.example'], want: refused },
    { origin: ['http://localhost:4191'], want: fine },
    { origin: ['https://LOCALHOST:4191'], want: fine },
    { host: 'localhost', origin: ['http://localhost'], want: fine },
    { host: 'localhost', origin: ['http://localhost:80'], want: fine },
    { host: 'localhost:443', origin: ['https://localhost'], want: fine },
    ...[
      evil,
      `${evil}:4191`,
      'http://localhost',
      'http://localhost:3000',
      'http://127.0.0.1:4191',
      'null',
      '',
      'localhost:4191',
    ].map((origin) => ({ origin: [origin], want: refused })),
    ...[
      'file://',
      'http://localhost:4191/',
      'http://evil@localhost:4191',
      'ftp://localhost:4191',
      'moz-extension://x',
    ].map((origin) => ({
      origin: [origin],
      want: refused,
    })),
    { origin: ['http://localhost:4191', evil], want: refused },
    { site: ['same-origin'], want: fine },
    { site: ['none'], want: fine },
    ...['cross-site', 'same-site', '', 'None', 'same-origin, none', 'new-word'].map((site) => ({
      site: [site],
      want: refused,
    })),
    { site: ['none', 'cross-site'], want: refused },
    { admin: [], want: noChange },
    ...['', '0', 'true', '1, 1', ' 1'].map((value) => ({ admin: [value], want: noChange })),
    { admin: ['1', '1'], want: noChange },
  ];
  for (const row of rows) {
    const { host, origin, site, admin } = { ...page, ...row };
    const headers = { host: row.hostFields ?? [], origin, 'sec-fetch-site': site, 'sallyport-admin': admin };
    const statuses: number[] = [];
    const { options, seen } = fixture();
    for (const [method, path] of [
      ['GET', '/policy'],
      ['GET', '/log-level'],
      ['PUT', '/log-level'],
      ['POST', '/shutdown'],
    ] as const) {
      statuses.push((await call(options, { method, path, host, headers, body: 'debug' })).status);
    }
    const { want, ...shown } = row;
    t.same(statuses, want, JSON.stringify(shown));
    t.equal(options.log.level(), want[2] === 204 ? 'debug' : 'info', 'the level');
    t.same(seen, want[3] === 200 ? ['shutdown'] : [], 'the drain');
    // What Prometheus and kubelets ask for they may ask for by any name.
    t.equal((await call(options, { path: '/live', host, headers })).status, 200, 'everybody may ask whether it lives');
    t.equal((await call(options, { path: '/metrics', host, headers, ip: '10.1.2.3' })).status, 200, 'and for metrics');
  }
});

t.test('405 names what is allowed', async (t) => {
  const rows: [string, string][] = [
    ['/live', 'GET, HEAD'],
    ['/log-level', 'GET, HEAD, PUT'],
    ['/shutdown', 'POST'],
  ];
  for (const [path, allow] of rows) {
    const response = await call(fixture().options, { method: 'PATCH', path });
    t.equal(response.status, 405);
    t.equal(header(response, 'allow'), allow, path);
  }
});

t.test('framing is left to the lane that carries the response', async (t) => {
  const { options } = fixture();
  for (const path of ['/live', '/metrics', '/policy', '/nowhere']) {
    const get = await call(options, { path });
    t.same(
      await call(options, { method: 'HEAD', path }),
      get,
      `${path}: HEAD is GET, so that the length can be declared`,
    );
    t.equal(header(get, 'content-length'), undefined, path);
  }
});

t.test('metrics are compressed for a client that accepts it', async (t) => {
  const { options } = fixture();
  const zipped = await call(options, { path: '/metrics', headers: { 'accept-encoding': ['gzip, deflate'] } });
  t.equal(header(zipped, 'content-encoding'), 'gzip');
  t.equal(gunzipSync(zipped.body as Buffer).toString(), 'request_total 7\n');
  const plain = await call(options, { path: '/metrics' });
  t.equal(header(plain, 'content-encoding'), undefined);
  t.equal(header(plain, 'content-type'), 'text/plain; version=0.0.4');
  const rows: [string[], boolean][] = [
    [[], false],
    [[''], false],
    [['gzip'], true],
    [['GZIP;q=0.5'], true],
    [['deflate', 'gzip'], true],
    [['gzip;q=0'], false],
    [['gzip; q=0.0, *'], false],
    [['*'], true],
    [['*;q=0'], false],
    [['identity'], false],
    [['gzipped'], false],
  ];
  for (const [values, want] of rows) t.equal(acceptsGzip(values), want, JSON.stringify(values));
});

t.test('the log level', async (t) => {
  const { options } = fixture();
  const put = (body: string | Error) => call(options, { method: 'PUT', path: '/log-level', body });
  t.equal((await put('loud')).status, 400);
  t.equal((await put('')).status, 400);
  t.equal((await put('x'.repeat(5000))).status, 413);
  t.equal(options.log.level(), 'info', 'unchanged so far');
  const done = await put(' debug\n');
  t.equal(done.status, 204);
  t.same(done.headers, [], 'no length where no body can be (RFC 9110 section 8.6)');
  t.equal(options.log.level(), 'debug');
});

t.test('shutdown begins the drain', async (t) => {
  const { options, seen } = fixture();
  const response = await call(options, { method: 'POST', path: '/shutdown', ip: '::1' });
  t.match(response, { status: 200, body: 'shutdown\n' });
  t.same(seen, ['shutdown']);
});

t.test('a failure tells the log and not the client', async (t) => {
  const { options, seen } = fixture({ metrics: () => Promise.reject(new Error('secret')) });
  const response = await call(options, { path: '/metrics' });
  t.match(response, { status: 500, body: 'internal error\n' });
  t.same(seen, ['/metrics secret']);
});

t.test('readiness', async (t) => {
  const { options, readiness } = fixture();
  const ready = async () => {
    const { status, body } = await call(options, { path: '/ready' });
    return `${status} ${body}`.trim();
  };
  readiness.up('policy');
  t.equal(await ready(), '503 not ready: identity, listeners');
  readiness.up('identity');
  t.equal(await ready(), '503 not ready: listeners');
  readiness.up('listeners');
  t.equal(await ready(), '200 ready');
  readiness.drain();
  t.equal(await ready(), '503 not ready: draining');
});
