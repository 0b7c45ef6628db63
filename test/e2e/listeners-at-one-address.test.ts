import { lookup } from 'node:dns/promises';
import { createServer, get } from 'node:http';
import t, { type Test } from 'tap';
import { temporaryFolder } from '../support/files.ts';
import { openServer, policyEnvironment } from '../support/open-policy.ts';
import { freePorts } from '../support/ports.ts';
import { startSallyport } from '../support/sallyport.ts';

/* `[addr]:port=host:port`: an app may have the proxy's own port at another address, and is told from the proxy itself. */

interface Row {
  readonly name: string;
  /** Of listeners; `PORT` is the port that each row has to itself, `LOOPBACK` where `localhost` leads. */
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
  {
    name: 'itself, of which nobody knew before the name had led there',
    listeners: ['localhost:PORT=LOOPBACK:PORT'],
    ask: 'LOOPBACK',
    status: 508,
  },
];

/** To which the system's resolver leads by the name. */
const { address: loopback } = await lookup('localhost');

/** What leads to the proxy itself by its address is refused before (lib/config/listeners.ts); in all other cases, at each connection. */
for (const workers of ['1', '2']) {
  t.test(`${workers} of workers`, async (t) => {
    const [admin = 0, ...ports] = await freePorts(1 + rows.length);
    for (const [i, { app }] of rows.entries()) {
      if (app !== undefined) await startApp(t, app, ports[i]);
    }
    const listeners = rows.flatMap((row, i) =>
      row.listeners.map((each) =>
        each.replaceAll('PORT', `${ports[i]}`).replace('LOOPBACK', loopback.includes(':') ? `[${loopback}]` : loopback),
      ),
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
      t.same(await statusesOf(ask === 'LOOPBACK' ? loopback : ask, ports[i]), new Set([status]), name);
    }
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
