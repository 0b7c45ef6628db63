import { chmodSync, copyFileSync, existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { homedir } from 'node:os';
import { basename, join } from 'node:path';
import { type Child, runToEnd, startChild, type Teardown } from './children.ts';
import { temporaryFolder } from './files.ts';
import { freePort } from './ports.ts';
import { latin1 } from './raw-http.ts';
import { until } from './until.ts';

/*
 * Servers that are not ours, as an app may use them: what they take for a request, and which resource they
 * serve for it. Each answers every request with `taken ` and JSON, so the response alone tells; nothing is read from logs.
 */

/** A request as a server's handler was told of it. */
export interface Taken {
  readonly method: string;
  /** As the server hands it on; some normalize it themselves. */
  readonly target: string;
  /** The resource, as an app of that server would ordinarily look it up: decoded, without a query. */
  readonly path: string;
  /** Names in lower case, as the handler sees them; CGI's, WSGI's and Rack's have `_` for `-`. */
  readonly headers: readonly (readonly [string, string])[];
}

export interface RunningServer {
  readonly name: string;
  readonly port: number;
}

export interface ServerKind {
  readonly name: string;
  /** The programs without which it cannot run; the first file or command of each row that is there is taken. */
  readonly needs: readonly (readonly string[])[];
  start(t: Teardown, port: number): Promise<Child>;
}

const sources = new URL('./http-servers/', import.meta.url).pathname;

/** Outside the checkout: what is compiled once serves every later run. */
const cache = join(process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'sallyport-tests');

/** Debian's modules are Debian's interpreter's, whichever Python comes first on the PATH. */
const python = existsSync('/usr/bin/python3') ? '/usr/bin/python3' : 'python3';

function pythonServer(kind: string, ...modules: readonly string[]): ServerKind {
  const needs = modules.map((module) => [`/usr/lib/python3/dist-packages/${module}`]);
  return {
    name: kind,
    needs: [[python], ...needs],
    start: (t, port) => startChild(t, python, [join(sources, 'servers.py'), kind, String(port)]),
  };
}

/** @param library a file that is there when the server's library is. */
function rubyServer(kind: string, library: string): ServerKind {
  return {
    name: kind,
    needs: [['/usr/bin/ruby'], [library]],
    start: (t, port) => startChild(t, '/usr/bin/ruby', [join(sources, 'rack.rb'), kind, String(port)]),
  };
}

/** Compiled into a folder named after the source's text, once; two test files may do so side by side. */
async function compiled(
  t: Teardown,
  name: string,
  files: readonly string[],
  compile: (folder: string) => readonly string[],
) {
  const text = files.map((file) => readFileSync(join(sources, file), 'utf8')).join('\0');
  const { createHash } = await import('node:crypto');
  const folder = join(cache, `${name}-${createHash('sha256').update(text).digest('hex').slice(0, 16)}`);
  if (existsSync(folder)) return folder;
  const draft = `${folder}.${process.pid}`;
  mkdirSync(draft, { recursive: true });
  for (const file of files) copyFileSync(join(sources, file), join(draft, basename(file)));
  const [command = '', ...args] = compile(draft);
  const env = { ...process.env, GOFLAGS: '-mod=mod', GO111MODULE: 'off' };
  const done = await runToEnd(t, command, args, { cwd: draft, env, timeoutMs: 240_000 });
  if (done.code !== 0) throw new Error(`${name}: ${done.stderr}`);
  try {
    renameSync(draft, folder);
  } catch (error) {
    // Another test file was faster.
    if (!existsSync(folder)) throw error;
  }
  return folder;
}

const jettyJars = ['server', 'util', 'http', 'io'].map((part) => `/usr/share/java/jetty9-${part}.jar`);
const jettyPath = [...jettyJars, '/usr/share/java/servlet-api.jar', '/usr/share/java/slf4j-api.jar'].join(':');

function jvm(kind: 'Plain' | 'Jetty', name: string, needs: ServerKind['needs']): ServerKind {
  return {
    name,
    needs: [['javac'], ['java'], ...needs],
    start: async (t, port) => {
      const classpath = kind === 'Jetty' ? jettyPath : '.';
      const files = kind === 'Jetty' ? ['Plain.java', 'Jetty.java'] : ['Plain.java'];
      const folder = await compiled(t, `java-${kind}`, files, () => ['javac', '-cp', classpath, ...files]);
      const args = ['-Xshare:auto', '-XX:TieredStopAtLevel=1', '-Xmx128m', '-cp', `${folder}:${classpath}`, kind];
      return startChild(t, 'java', [...args, String(port)]);
    },
  };
}

/** A server that is configured by one file. */
function configured(
  name: string,
  needs: ServerKind['needs'],
  command: (file: string, folder: string) => readonly string[],
  text: (port: number, folder: string) => string,
): ServerKind {
  return {
    name,
    needs,
    start: (t, port) => {
      const folder = temporaryFolder(t);
      const file = join(folder, 'server.conf');
      mkdirSync(join(folder, 'www'));
      // Servers that give up root must still find it.
      chmodSync(folder, 0o755);
      copyFileSync(join(sources, 'cgi.sh'), join(folder, 'www', 'cgi.sh'));
      writeFileSync(file, text(port, folder));
      const [program = '', ...args] = command(file, folder);
      return startChild(t, program, args, { cwd: folder });
    },
  };
}

const root = process.getuid?.() === 0;
const apacheModules = '/usr/lib/apache2/modules';

function apache(name: string, options: string): ServerKind {
  return configured(
    name,
    [['/usr/sbin/apache2'], [`${apacheModules}/mod_cgid.so`]],
    (file) => ['/usr/sbin/apache2', '-DFOREGROUND', '-f', file],
    (port, folder) => `
ServerRoot ${folder}
ServerName 127.0.0.1
Listen 127.0.0.1:${port}
LoadModule mpm_event_module ${apacheModules}/mod_mpm_event.so
${root ? 'User www-data\nGroup www-data' : ''}
LoadModule authz_core_module ${apacheModules}/mod_authz_core.so
LoadModule cgid_module ${apacheModules}/mod_cgid.so
LoadModule alias_module ${apacheModules}/mod_alias.so
ServerLimit 1
StartServers 1
ThreadsPerChild 25
MaxRequestWorkers 25
MinSpareThreads 1
MaxSpareThreads 25
PidFile ${folder}/pid
ErrorLog ${folder}/error.log
ScriptSock ${folder}/cgi.sock
DocumentRoot ${folder}/www
${options}
ScriptAliasMatch "^(.*)$" "${folder}/www/cgi.sh$1"
<Directory "/">
  Require all granted
  Options +ExecCGI
</Directory>
`,
  );
}

/** What a server without a programming language of its own can say of a request. */
const plainly = (method: string, target: string, path: string): string =>
  `taken {\\"method\\":\\"${method}\\",\\"target\\":\\"${target}\\",\\"path\\":\\"${path}\\",\\"headers\\":[]}\\n`;

export const serverKinds: readonly ServerKind[] = [
  {
    name: 'Node',
    needs: [],
    start: (t, port) => startChild(t, process.execPath, [join(sources, 'node.mjs'), String(port)]),
  },
  pythonServer('http.server'),
  pythonServer('wsgiref'),
  pythonServer('waitress', 'waitress'),
  pythonServer('cheroot', 'cheroot'),
  pythonServer('gunicorn', 'gunicorn'),
  pythonServer('uvicorn-h11', 'uvicorn'),
  pythonServer('uvicorn-httptools', 'uvicorn', 'httptools'),
  pythonServer('tornado', 'tornado'),
  pythonServer('twisted', 'twisted'),
  {
    name: 'Go',
    needs: [['go']],
    start: async (t, port) => {
      const folder = await compiled(t, 'go', ['server.go'], () => ['go', 'build', '-o', 'server', 'server.go']);
      return startChild(t, join(folder, 'server'), [String(port)]);
    },
  },
  {
    name: 'hyper',
    needs: [['cargo']],
    start: async (t, port) => {
      const files = ['Cargo.toml', 'Cargo.lock', 'main.rs'].map((file) => `hyper/${file}`);
      // Of what cargo leaves behind, a program of a megabyte is worth keeping.
      const build = 'cargo build --release --locked --target-dir target && mv target/release/server . && rm -r target';
      const folder = await compiled(t, 'hyper', files, () => ['sh', '-c', build]);
      return startChild(t, join(folder, 'server'), [String(port)]);
    },
  },
  jvm('Plain', 'Java HttpServer', []),
  jvm(
    'Jetty',
    'Jetty',
    jettyJars.map((jar) => [jar]),
  ),
  configured(
    'nginx',
    [['nginx', '/usr/sbin/nginx']],
    // Only root has /usr/sbin on its path.
    (file, folder) => [
      existsSync('/usr/sbin/nginx') ? '/usr/sbin/nginx' : 'nginx',
      '-p',
      folder,
      '-c',
      file,
      '-e',
      join(folder, 'error.log'),
    ],
    (port, folder) => `
daemon off;
master_process off;
pid ${folder}/pid;
error_log ${folder}/error.log;
events {}
http {
  access_log off;
  client_body_temp_path ${folder}/body; proxy_temp_path ${folder}/proxy; fastcgi_temp_path ${folder}/fastcgi;
  uwsgi_temp_path ${folder}/uwsgi; scgi_temp_path ${folder}/scgi;
  server {
    listen 127.0.0.1:${port} backlog=256;
    location / { return 200 "${plainly('$request_method', '$request_uri', '$uri')}"; }
  }
}
`,
  ),
  apache('Apache', ''),
  apache('Apache, lenient', 'HttpProtocolOptions Unsafe LenientMethods Allow0.9'),
  configured(
    'lighttpd',
    [['/usr/sbin/lighttpd']],
    (file) => ['/usr/sbin/lighttpd', '-D', '-f', file],
    (port, folder) => `
server.modules = ("mod_alias", "mod_cgi")
server.document-root = "${folder}/www"
server.bind = "127.0.0.1"
server.port = ${port}
alias.url = ("" => "${folder}/www/cgi.sh")
cgi.assign = ("" => "")
cgi.execute-x-only = "enable"
`,
  ),
  {
    name: 'PHP',
    needs: [['php']],
    start: (t, port) => startChild(t, 'php', ['-q', '-S', `127.0.0.1:${port}`, join(sources, 'router.php')]),
  },
  rubyServer('puma', '/usr/bin/puma'),
  rubyServer('thin', '/usr/bin/thin'),
  rubyServer('webrick', '/usr/share/doc/ruby-webrick'),
  configured(
    'HAProxy',
    [['/usr/sbin/haproxy']],
    (file) => ['/usr/sbin/haproxy', '-db', '-q', '-f', file],
    (port) => `
defaults
  mode http
  timeout client 10s
  timeout server 10s
  timeout connect 5s
frontend web
  bind 127.0.0.1:${port}
  http-request return status 200 content-type text/plain lf-string "${plainly('%HM', '%HU', '%HPO').replaceAll('\\n', '')}"
`,
  ),
  configured(
    'Caddy',
    [['caddy']],
    (file) => ['caddy', 'run', '--adapter', 'caddyfile', '--config', file],
    (port) => `{
  admin off
  auto_https off
}
http://127.0.0.1:${port}, http://:${port} {
  respond "${plainly('{http.request.method}', '{http.request.orig_uri}', '{http.request.uri.path}').replaceAll('\\n', '')}"
}
`,
  ),
];

/** Why a kind cannot run here; null where it can. */
export async function unavailable(t: Teardown, kind: ServerKind): Promise<string | null> {
  for (const choices of kind.needs) {
    let there = false;
    for (const choice of choices) {
      there ||= choice.startsWith('/')
        ? existsSync(choice)
        : (await runToEnd(t, '/bin/sh', ['-c', 'command -v "$1"', 'sh', choice])).code === 0;
    }
    if (!there) return `not installed: ${choices.join(' or ')}`;
  }
  return null;
}

/** Started, and answering an ordinary request. */
export async function startServer(t: Teardown, kind: ServerKind): Promise<RunningServer> {
  const port = await freePort();
  const child = await kind.start(t, port);
  const server = { name: kind.name, port };
  const ready = async (): Promise<boolean> => {
    if (child.process.exitCode !== null) throw new Error(`${kind.name} ended: ${child.stderr()}`);
    const answers = await takenBy(server, [
      latin1('GET /ready HTTP/1.1\r\nHost: web\r\nConnection: close\r\n\r\n'),
    ]).catch(() => []);
    return answers.length === 1;
  };
  await until(`${kind.name} to answer`, ready, {
    timeoutMs: 60_000,
    everyMs: 100,
    lastSeen: () => child.stderr() + child.stdout(),
  });
  return server;
}

export interface Patience {
  /** A server that says nothing for this long has said all. */
  readonly quietMs?: number;
  /** The client ends its side once all is sent. */
  readonly ends?: boolean;
}

/**
 * What a server takes from one connection on which these pieces are sent, one after the other. Rejects where the
 * server cannot be reached at all.
 */
export function takenBy(server: RunningServer, pieces: readonly Buffer[], patience: Patience = {}): Promise<Taken[]> {
  const { quietMs = 1_000, ends = false } = patience;
  return new Promise((resolve, reject) => {
    const received: Buffer[] = [];
    const socket = connect({ port: server.port, host: '127.0.0.1', noDelay: true, allowHalfOpen: true });
    let quiet: NodeJS.Timeout | undefined;
    let connected = false;
    const done = (): void => {
      clearTimeout(quiet);
      socket.destroy();
      if (connected) resolve(readTaken(Buffer.concat(received).toString('latin1')));
      else reject(new Error(`${server.name} does not accept connections`));
    };
    const wait = (): void => {
      clearTimeout(quiet);
      // All may have been said before the last piece is known to have left.
      if (!socket.destroyed) quiet = setTimeout(done, quietMs);
    };
    const send = (at: number): void => {
      const piece = pieces[at];
      if (piece === undefined) {
        if (ends) socket.end();
        wait();
      } else {
        // Each in a packet of its own.
        socket.write(piece, () => setTimeout(() => send(at + 1), pieces.length > 1 ? 5 : 0));
      }
    };
    socket.on('connect', () => {
      connected = true;
      send(0);
    });
    socket.on('data', (chunk: Buffer) => {
      received.push(chunk);
      wait();
    });
    // A server that closes, or resets, says so only after what it had to say.
    socket.on('end', done);
    socket.on('error', done);
  });
}

function readTaken(text: string): Taken[] {
  const taken: Taken[] = [];
  for (const [, json = ''] of text.matchAll(/taken (\{.*\})/g)) {
    try {
      taken.push(JSON.parse(json) as Taken);
    } catch {
      // Servers without a language of their own do not escape; that it was taken is certain all the same.
      taken.push({ method: '', target: json, path: '', headers: [] });
    }
  }
  return taken;
}
