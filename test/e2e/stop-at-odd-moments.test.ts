import { symlinkSync, writeFileSync } from 'node:fs';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { connect as connectTls } from 'node:tls';
import t, { type Test } from 'tap';
import { testCertificate, workloadName } from '../support/certificates.ts';
import { identityEnvironment } from '../support/files.ts';
import { dataFrame, headersFrame, requestFields } from '../support/http2-frames.ts';
import { openClient, startFrameApp } from '../support/http2-peers.ts';
import { openServer, policyEnvironment } from '../support/open-policy.ts';
import { freePort } from '../support/ports.ts';
import { startSallyport } from '../support/sallyport.ts';
import { until } from '../support/until.ts';

/* A stop may come before anything is served, and while clients are in the middle of saying who they are. */
t.setTimeout(900_000);

const ownName = workloadName('web', 'shop');

t.test('while it starts', async (t) => {
  const folder = t.testdir();
  const environment = policyEnvironment(folder, '');
  const many = Array.from({ length: 4_000 }, (_, i) => openServer(`web-${i}`, 1_000 + i)).join('');
  writeFileSync(join(folder, 'policy', 'many.yaml'), many);
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    const sallyport = await startSallyport(t, {
      env: { ...environment, SALLYPORT_INBOUND_PORTS: `${await freePort()}=127.0.0.1:9` },
      awaitReady: false,
    });
    t.match(await sallyport.child.end(signal, 20_000), { code: 0, signal: null }, signal);
    const messages = sallyport.logs().map(({ msg }) => msg);
    t.ok(messages.includes('Stopped before it had started') || messages.includes('Stopped'), `${messages}`);
    t.equal(sallyport.child.stderr(), '');
  }
});

/**
 * Nobody looks at files every ten seconds, and of what is behind links no event tells: only a signal is left. Where a file
 * named `next-policy` lies beside the policy, that becomes the policy as the port is opened, and the signal comes then.
 */
const deaf = (port: number, kept: string): string => `
import { existsSync, renameSync } from 'node:fs';
import { Server } from 'node:net';
const { setInterval } = globalThis;
globalThis.setInterval = (run, ms, ...more) => setInterval(ms === 10_000 ? () => {} : run, ms, ...more);
const { listen } = Server.prototype;
Server.prototype.listen = function (at, ...more) {
  if (at?.port === ${port} && existsSync('${kept}/next-policy')) {
    // Behind the looks that the beginning of a watch asks for: those would find it, too.
    setTimeout(() => {
      renameSync('${kept}/next-policy', '${kept}/policy.yaml');
      process.emit('SIGHUP');
      listen.call(this, at, ...more);
    }, 1_500);
    return this;
  }
  return listen.call(this, at, ...more);
};
`;

async function deafSallyport(t: Test, started: (kept: string, port: number) => void = () => {}) {
  const folder = t.testdir({ kept: {}, links: {} });
  const [kept, links] = [join(folder, 'kept'), join(folder, 'links')];
  const app = createServer((socket) =>
    socket.on('error', () => {}).end('HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n'),
  );
  await new Promise<void>((resolve) => app.listen(0, '127.0.0.1', resolve));
  t.teardown(() => app.close());
  const port = await freePort();
  const linked = (name: string, text: string): string => {
    writeFileSync(join(kept, name), text);
    symlinkSync(join(kept, name), join(links, name));
    return join(links, name);
  };
  const { certificatePem, keyPem, trustAnchorsPem } = testCertificate({ dnsNames: [ownName] });
  const preload = join(folder, 'deaf.mjs');
  writeFileSync(preload, deaf(port, kept));
  started(kept, port);
  const sallyport = await startSallyport(t, {
    env: {
      ...policyEnvironment(folder, ''),
      SALLYPORT_POLICY: linked('policy.yaml', openServer('web', port)),
      SALLYPORT_CANDIDATE_POLICY: linked('candidate.yaml', openServer('web', port)),
      SALLYPORT_POD_LABELS_FILE: linked('labels', 'app="web"\n'),
      SALLYPORT_IDENTITY_CERT: linked('own.crt', certificatePem),
      SALLYPORT_IDENTITY_KEY: linked('own.key', keyPem),
      SALLYPORT_IDENTITY_TRUST_ANCHORS: linked('anchors.crt', trustAnchorsPem),
      SALLYPORT_INBOUND_PORTS: `${port}=127.0.0.1:${(app.address() as AddressInfo).port}`,
      NODE_OPTIONS: `--import ${preload}`,
    },
  });
  return { sallyport, port, kept };
}

t.test('SIGHUP ends nothing, and has all files looked at', async (t) => {
  const { sallyport, port, kept } = await deafSallyport(t);
  await sallyport.waitForLog('the candidate', ({ msg }) => msg === 'Candidate policy loaded');
  const before = sallyport.logs().length;
  const { certificatePem, keyPem } = testCertificate({ dnsNames: [ownName] });
  writeFileSync(join(kept, 'policy.yaml'), openServer('web', port) + openServer('more', 1));
  writeFileSync(join(kept, 'candidate.yaml'), openServer('web', port) + openServer('more', 2));
  writeFileSync(join(kept, 'labels'), 'app="web"\ntier="front"\n');
  writeFileSync(join(kept, 'own.crt'), certificatePem);
  writeFileSync(join(kept, 'own.key'), keyPem);
  sallyport.child.process.kill('SIGHUP');
  for (const said of [
    'SIGHUP; looking at all files',
    'Policy loaded',
    'Candidate policy loaded',
    'Pod changed',
    'Identity loaded',
  ]) {
    await until(said, () =>
      sallyport
        .logs()
        .slice(before)
        .some(({ msg }) => msg === said),
    );
  }
  t.equal((await fetch(`http://127.0.0.1:${port}/`)).status, 204, 'it goes on');
  t.match(await sallyport.child.end('SIGTERM', 20_000), { code: 0, signal: null });
});

t.test('SIGHUP while it starts has files that were read already looked at once more', async (t) => {
  const { sallyport } = await deafSallyport(t, (kept, port) => {
    writeFileSync(join(kept, 'next-policy'), openServer('web', port) + openServer('more', 1));
  });
  await until(
    'the policy that came behind the first',
    () => sallyport.logs().filter(({ msg }) => msg === 'Policy loaded').length === 2,
  );
  t.match(await sallyport.child.end('SIGTERM', 20_000), { code: 0, signal: null });
});

t.test('while clients shake hands', async (t) => {
  const folder = t.testdir();
  const port = await freePort();
  const sallyport = await startSallyport(t, {
    env: {
      ...policyEnvironment(folder, openServer('web', port)),
      ...identityEnvironment(join(folder, 'identity'), testCertificate({ dnsNames: [ownName] })),
      SALLYPORT_INBOUND_PORTS: `${port}=127.0.0.1:${await freePort()}`,
      SALLYPORT_SHUTDOWN_GRACE_PERIOD: '30s',
    },
  });
  const sockets = await halfShaken(t, port);
  // And some more that come and go all the while.
  let coming = true;
  const comeAndGo = (): void => {
    if (!coming) return;
    const client = connectTls({ port, host: '127.0.0.1', servername: ownName, rejectUnauthorized: false });
    client.on('error', () => {}).on('secureConnect', () => client.destroy());
    client.on('close', () => setImmediate(comeAndGo));
  };
  for (let i = 0; i < 8; i++) comeAndGo();
  const exit = await sallyport.stop(20_000);
  coming = false;
  t.match(exit, { code: 0, signal: null });
  t.match(sallyport.logs().at(-1), { msg: 'Stopped', drained: true }, 'nothing had to be cut');
  t.equal(sallyport.logs().filter(({ level }) => level === 'error').length, 0);
  await until('every client to be told', () => sockets.every((socket) => socket.destroyed));
});

t.test('while everything hangs', async (t) => {
  const folder = t.testdir();
  const [port, h2Port] = [await freePort(), await freePort()];
  // Agrees to a WebSocket, and then reads nothing; answers nothing else.
  const sockets: Socket[] = [];
  const deaf = createServer((socket) => {
    sockets.push(socket);
    socket.on('error', () => {});
    socket.once('data', (bytes: Buffer) => {
      socket.pause();
      if (bytes.includes('websocket')) {
        socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n');
      }
    });
  });
  await new Promise<void>((resolve) => deaf.listen(0, '127.0.0.1', resolve));
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
    deaf.close();
  });
  const unread = await startFrameApp(t, { consumes: false, onEnd: () => {} });
  const sallyport = await startSallyport(t, {
    env: {
      ...policyEnvironment(folder, openServer('web', port) + openServer('h2', h2Port, 'HTTP/2')),
      SALLYPORT_INBOUND_PORTS: `${port}=127.0.0.1:${(deaf.address() as AddressInfo).port},${h2Port}=127.0.0.1:${unread.port}`,
      SALLYPORT_SHUTDOWN_GRACE_PERIOD: '1s',
    },
  });
  const upgrade = 'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n';
  const heads = [
    `GET /ws HTTP/1.1\r\nHost: a\r\n${upgrade}Sec-WebSocket-Version: 13\r\n\r\n`,
    'GET /hang HTTP/1.1\r\nHost: a\r\n\r\n',
    'POST /unread HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\n',
    'POST /unread HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nffffff\r\n',
  ];
  for (const head of heads) {
    const client = connect(port, '127.0.0.1').on('error', () => {});
    t.teardown(() => client.destroy());
    client.write(head, 'latin1');
    if (head.startsWith('POST')) client.write(Buffer.alloc(8 << 20));
    else if (head.includes('/ws')) client.once('data', () => client.write(Buffer.alloc(8 << 20)));
  }
  const uploads = await openClient(t, h2Port);
  for (let id = 1; id < 20; id += 2) {
    uploads.send(headersFrame(id, requestFields('/', [], 'POST'), false), dataFrame(id, Buffer.alloc(15_000)));
  }
  await until('all to reach the apps', () => sockets.length === heads.length && unread.requests.length > 0);
  const exit = await sallyport.stop(15_000);
  t.match(exit, { code: 1, signal: null }, 'as something had to be cut');
  t.match(sallyport.logs().at(-1), { msg: 'Stopped', drained: false }, 'what hangs is cut');
  t.equal(sallyport.logs().filter(({ level }) => level === 'error').length, 0);
});

/** Open connections that have said nothing, a part of a hello, or all of it and nothing more. */
async function halfShaken(t: Test, port: number): Promise<Socket[]> {
  const hello = await clientHello();
  const sockets: Socket[] = [];
  for (const bytes of [0, 1, 5, 60, hello.length - 1, hello.length]) {
    for (let i = 0; i < 5; i++) {
      const socket = connect(port, '127.0.0.1')
        .on('error', () => {})
        .resume();
      if (bytes > 0) socket.write(hello.subarray(0, bytes));
      sockets.push(socket);
    }
  }
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
  });
  await until('all connections', () => sockets.every(({ connecting }) => !connecting));
  return sockets;
}

/** What a client of ours would send first. */
function clientHello(): Promise<Buffer> {
  return new Promise((resolve) => {
    const server = createServer((socket) => {
      socket.once('data', (bytes: Buffer) => {
        socket.destroy();
        server.close(() => resolve(bytes));
      });
    });
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address() as AddressInfo;
      connectTls({ port, host: '127.0.0.1', servername: ownName }).on('error', () => {});
    });
  });
}
