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
  readonly headers?: Record<string, string[]>;
  readonly body?: string | Error;
}

function call(
  options: AdminOptions,
  { method = 'GET', path, ip = '127.0.0.1', headers = {}, body = '' }: Call,
): Promise<AdminResponse> {
  const clientIp = parseIp(ip);
  if (clientIp === undefined) throw new Error('the row names no address');
  const request: AdminRequest = {
    method,
    path,
    query: '',
    clientIp,
    header: (name) => headers[name] ?? [],
    body: (maxBodyBytes) => {
      const bytes = Buffer.from(body instanceof Error ? '' : body);
      if (body instanceof Error || bytes.length > maxBodyBytes) return Promise.reject(new Error('too long'));
      return Promise.resolve(bytes);
    },
  };
  return createAdminApp(options).handle(request);
}

function header(response: AdminResponse, name: string): string | undefined {
  return response.headers.find(([known]) => known === name)?.[1];
}

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
    ['GET', '/policy', '127.9.9.9', 200, null],
    ['GET', '/policy', '::1', 200, null],
    ['GET', '/policy', '::ffff:127.0.0.1', 200, null],
    ['GET', '/policy', remote, 403, localhostOnly],
    ['GET', '/policy', '::2', 403, localhostOnly],
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

t.test('framing is left to whoever carries the response', async (t) => {
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

t.test('metrics are compressed for whoever accepts it', async (t) => {
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
  readiness.up('listeners');
  t.equal(await ready(), '200 ready');
  readiness.down('listeners');
  t.equal(await ready(), '503 not ready: listeners');
  readiness.up('listeners');
  readiness.drain();
  t.equal(await ready(), '503 not ready: draining');
});
