import { readdirSync, readFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import t from 'tap';
import { http1Outcome, http1Request, lanes } from '../../support/attacked-routes.ts';
import type { Teardown } from '../../support/children.ts';
import { scrape } from '../../support/metrics.ts';
import { openServer, policyEnvironment } from '../../support/open-policy.ts';
import { freePort } from '../../support/ports.ts';
import { latin1, RawClient } from '../../support/raw-http.ts';
import { startSallyport } from '../../support/sallyport.ts';
import { startSocketApp } from '../../support/socket-app.ts';
import { until } from '../../support/until.ts';

/*
 * An app may close an idle connection just as a request leaves for it. Nobody did anything wrong, so an idempotent
 * request without a body is sent once more, on a new connection; a connection that was new to begin with is no such race.
 */
interface Closing {
  readonly port: number;
  /** Targets with the number of their connection, in order. */
  readonly requests: readonly string[];
  readonly open: number;
}

/** Answers `/warm…` and closes the connection, without a word, on anything else that comes as a connection's nth request. */
async function startClosing(t: Teardown, answersFrom: number): Promise<Closing> {
  const requests: string[] = [];
  let connections = 0;
  const { port, sockets } = await startSocketApp(t, (socket) => {
    const number = ++connections;
    socket.on('data', (chunk: Buffer) => {
      const target = /^[A-Z]+ (\S+) HTTP/.exec(chunk.toString('latin1'))?.[1];
      // Content that came behind its head.
      if (target === undefined) return;
      requests.push(`${target} on ${number}`);
      if (target === '/warm' || number >= answersFrom) socket.write('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n');
      else socket.end();
    });
  });
  return {
    port,
    requests,
    get open() {
      return sockets.size;
    },
  };
}

const body = 'Content-Length: 2';
/** `answersFrom`: the app's connections from that number on answer everything. */
const rows: readonly {
  readonly title: string;
  readonly method: string;
  readonly fields: readonly string[];
  readonly content: string;
  readonly answersFrom: number;
  readonly outcome: string;
  readonly seen: readonly string[];
}[] = [
  {
    title: 'GET',
    method: 'GET',
    fields: [],
    content: '',
    answersFrom: 2,
    outcome: '200',
    seen: ['/x on 1', '/x on 2'],
  },
  {
    title: 'DELETE',
    method: 'DELETE',
    fields: [],
    content: '',
    answersFrom: 2,
    outcome: '200',
    seen: ['/x on 1', '/x on 2'],
  },
  {
    title: 'POST',
    method: 'POST',
    fields: ['Content-Length: 0'],
    content: '',
    answersFrom: 2,
    outcome: '502',
    seen: ['/x on 1'],
  },
  {
    title: 'PUT with a body',
    method: 'PUT',
    fields: [body],
    content: 'ab',
    answersFrom: 2,
    outcome: '502',
    seen: ['/x on 1'],
  },
  {
    title: 'GET, and the second closes as well',
    method: 'GET',
    fields: [],
    content: '',
    answersFrom: 3,
    outcome: '502',
    seen: ['/x on 1', '/x on 2'],
  },
];

t.setTimeout(900_000);

for (const { name, env } of lanes) {
  t.test(name, async (t) => {
    for (const { title, method, fields, content, answersFrom, outcome, seen } of rows) {
      const app = await startClosing(t, answersFrom);
      const port = await freePort();
      await startSallyport(t, {
        env: {
          ...policyEnvironment(t.testdir(), openServer('web', port)),
          SALLYPORT_INBOUND_PORTS: `${port}=127.0.0.1:${app.port}`,
          // Which connection to the app a request takes is a question of one worker.
          SALLYPORT_WORKERS: '1',
          ...env,
        },
      });
      t.equal(await http1Outcome(port, http1Request('/warm')), '200');
      await until('the connection to be idle', () => app.open === 1);
      t.equal(await http1Outcome(port, http1Request('/x', fields, method) + content, method), outcome, title);
      t.same(app.requests, ['/warm on 1', ...seen], `${title}: what the app saw`);
    }
  });

  t.test(`a new connection is no such race, ${name}`, async (t) => {
    const app = await startClosing(t, 1_000);
    const port = await freePort();
    await startSallyport(t, {
      env: {
        ...policyEnvironment(t.testdir(), openServer('web', port)),
        SALLYPORT_INBOUND_PORTS: `${port}=127.0.0.1:${app.port}`,
        ...env,
      },
    });
    t.equal(await http1Outcome(port, http1Request('/x')), '502');
    t.same(app.requests, ['/x on 1'], 'the app saw it once');
  });
}

/** Keeps what comes, and ends its side of a connection when it is told to. */
async function startPatient(t: Teardown): Promise<{ readonly port: number; endAll(): Promise<unknown> }> {
  const serve = (socket: Socket): void => {
    socket.on('end', () => socket.end());
    socket.on('data', () => {
      if (socket.writable) socket.write('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n');
    });
  };
  const { port, sockets } = await startSocketApp(t, serve, { allowHalfOpen: true });
  return {
    port,
    // The system has the end when a stream is finished.
    endAll: () =>
      Promise.all([...sockets].map((socket) => new Promise<void>((resolve) => socket.end(() => resolve())))),
  };
}

/** Nothing of the process runs. */
function isStopped(pid: number): boolean {
  const tasks = readdirSync(`/proc/${pid}/task`);
  return tasks.every((task) => /\) T /.test(readFileSync(`/proc/${pid}/task/${task}/stat`, 'utf8')));
}

/*
 * The app's end is in the kernel when the request is read, but behind it: a look before the write still finds it.
 */
const skip = process.platform === 'linux' ? false : 'needs /proc';
t.test('a request that must not be repeated, and an end that has come', { skip }, async (t) => {
  const app = await startPatient(t);
  const port = await freePort();
  const { pid, adminPort } = await startSallyport(t, {
    env: {
      ...policyEnvironment(t.testdir(), openServer('web', port)),
      SALLYPORT_INBOUND_PORTS: `${port}=127.0.0.1:${app.port}`,
    },
  });
  const client = await RawClient.open({ port });
  const methods: string[] = [];
  const statuses = new Map<number, number>();
  const post = http1Request('/x', ['Content-Length: 0'], 'POST');
  for (let i = 0; i < 40; i++) {
    methods.push('POST');
    client.send(latin1(post));
    await client.responses(methods);
    // In a later turn of the proxy, so that the connection to the app is idle.
    await scrape(adminPort);
    process.kill(pid, 'SIGSTOP');
    await until('the proxy to stand still', () => isStopped(pid), { everyMs: 1 });
    methods.push('POST');
    // In the order of these lines, and both before the proxy goes on: as if it had been busy for a moment.
    await new Promise<void>((resolve) => client.socket.write(latin1(post), () => resolve()));
    await app.endAll();
    // Longer than a connection is thought to be as it was a moment ago.
    await new Promise((resolve) => setTimeout(resolve, 5));
    process.kill(pid, 'SIGCONT');
    const status = (await client.responses(methods)).at(-1)?.status ?? 0;
    statuses.set(status, (statuses.get(status) ?? 0) + 1);
    if (status !== 200) break;
  }
  client.destroy();
  t.same([...statuses], [[200, 40]]);
});
