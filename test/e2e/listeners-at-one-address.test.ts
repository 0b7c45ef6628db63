import { createServer, get } from 'node:http';
import t, { type Test } from 'tap';
import { temporaryFolder } from '../support/files.ts';
import { openServer, policyEnvironment } from '../support/open-policy.ts';
import { freePorts } from '../support/ports.ts';
import { startSallyport } from '../support/sallyport.ts';

/* `[addr]:port=host:port`: an app may have the proxy's own port at another address, and is told from the proxy itself. */

interface Row {
  readonly name: string;
  /** Of listeners; `PORT` is the port that each row has to itself, `ADMIN` the admin server's. */
  readonly listeners: readonly string[];
  /** Where an app listens on the row's port; left out, none does. */
  readonly app?: string;
  readonly ask: string;
  readonly status: 200 | 508;
}

const rows: readonly Row[] = [
  {
    name: 'the app at another address',
    listeners: ['[127.0.0.2]:PORT=127.0.0.1:PORT'],
    app: '127.0.0.1',
    ask: '127.0.0.2',
    status: 200,
  },
  {
    name: 'by a name',
    listeners: ['[127.0.0.2]:PORT=localhost.:PORT'],
    app: '127.0.0.1',
    ask: '127.0.0.2',
    status: 200,
  },
  {
    name: 'the app at an address as IPv6 has it',
    listeners: ['[::ffff:127.0.0.2]:PORT=[::ffff:127.0.0.1]:PORT'],
    app: '127.0.0.1',
    ask: '127.0.0.2',
    status: 200,
  },
  { name: 'itself', listeners: ['[127.0.0.2]:PORT=127.0.0.2:PORT'], ask: '127.0.0.2', status: 508 },
  {
    name: 'itself, as IPv6 has it',
    listeners: ['[127.0.0.2]:PORT=[::ffff:127.0.0.2]:PORT'],
    ask: '127.0.0.2',
    status: 508,
  },
  {
    name: 'itself, listening as IPv6 has it',
    listeners: ['[::ffff:127.0.0.2]:PORT=127.0.0.2:PORT'],
    ask: '127.0.0.2',
    status: 508,
  },
  { name: 'itself, by its name', listeners: ['[127.0.0.1]:PORT=LOCALHOST:PORT'], ask: '127.0.0.1', status: 508 },
  { name: 'itself, unspecified', listeners: ['[127.0.0.1]:PORT=0.0.0.0:PORT'], ask: '127.0.0.1', status: 508 },
  { name: 'itself, at every address', listeners: ['PORT=127.9.9.9:PORT'], ask: '127.0.0.1', status: 508 },
  {
    name: 'each other',
    listeners: ['[127.0.0.2]:PORT=127.0.0.3:PORT', '[127.0.0.3]:PORT=127.0.0.2:PORT'],
    ask: '127.0.0.3',
    status: 508,
  },
  { name: 'the admin server', listeners: ['[127.0.0.2]:PORT=127.0.0.1:ADMIN'], ask: '127.0.0.2', status: 508 },
  {
    name: 'the admin port elsewhere',
    listeners: ['[127.0.0.2]:PORT=127.0.0.9:ADMIN'],
    ask: '127.0.0.2',
    status: 508,
  },
];

for (const workers of ['1', '2']) {
  t.test(`${workers} of workers`, async (t) => {
    const [admin = 0, ...ports] = await freePorts(1 + rows.length);
    for (const [i, { app }] of rows.entries()) {
      if (app !== undefined) await startApp(t, app, ports[i]);
    }
    const listeners = rows.flatMap((row, i) =>
      row.listeners.map((each) => each.replaceAll('PORT', `${ports[i]}`).replace('ADMIN', `${admin}`)),
    );
    const documents = ports.map((port) => openServer(`web-${port}`, port)).join('');
    const sallyport = await startSallyport(t, {
      env: {
        ...policyEnvironment(temporaryFolder(t), documents),
        SALLYPORT_INBOUND_PORTS: listeners.join(),
        SALLYPORT_ADMIN_LISTEN: `127.0.0.1:${admin}`,
        SALLYPORT_WORKERS: workers,
      },
    });
    for (const [i, { name, ask, status }] of rows.entries()) {
      t.same(await statusesOf(ask, ports[i]), new Set([status]), name);
    }
    t.match(await sallyport.stop(), { code: 0 });
  });

  t.test(`${workers} of workers, where connections are redirected: rules may lead here from any address`, async (t) => {
    const [port = 0, inbound = 0] = await freePorts(2);
    await startApp(t, '127.0.0.1', port);
    const sallyport = await startSallyport(t, {
      env: {
        ...policyEnvironment(temporaryFolder(t), openServer('web', port)),
        SALLYPORT_INBOUND_PORTS: `[127.0.0.2]:${port}=127.0.0.1:${port}`,
        SALLYPORT_INBOUND_LISTEN: `127.0.0.1:${inbound}`,
        SALLYPORT_WORKERS: workers,
      },
    });
    t.same(await statusesOf('127.0.0.2', port), new Set([508]));
    t.match(await sallyport.stop(), { code: 0 });
  });
}

/** Of so many connections that each worker has some. */
async function statusesOf(host: string, port: number | undefined): Promise<ReadonlySet<number | undefined>> {
  return new Set(await Promise.all(Array.from({ length: 8 }, () => statusOf(host, port))));
}

async function startApp(t: Test, host: string, port: number | undefined): Promise<void> {
  const server = createServer((_request, response) => response.end());
  t.teardown(() => server.close());
  await new Promise<void>((resolve) => server.listen(port, host, resolve));
}

function statusOf(host: string, port: number | undefined): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    get({ host, port, agent: false }, (response) => {
      response.resume();
      resolve(response.statusCode);
    }).once('error', reject);
  });
}
