import { once } from 'node:events';
import { createServer, type RequestListener, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import t, { type Test } from 'tap';
import { freePort } from '../../support/ports.ts';
import { runSallyport } from '../../support/sallyport.ts';

/** `--from`: what is said where no proxy gives its decisions. What one gives is in test/e2e/decisions-asked.test.ts. */

async function serverOf(t: Test, answer: RequestListener): Promise<string> {
  const server = createServer(answer).listen(0, '127.0.0.1');
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  await once(server, 'listening');
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

t.setTimeout(360_000);

const line =
  '{"decision":1,"time":"2026-11-20T14:00:07.000Z","port":8080,"client":"10.1.2.3","protocol":"http1","method":"GET","path":"/","verdict":"permit"}\n';

const answers: readonly (readonly [title: string, answer: RequestListener, says: RegExp])[] = [
  [
    'a proxy that does not record',
    (_, response) =>
      response
        .writeHead(404, { 'sallyport-decisions': '1' })
        .end('no decisions are recorded: SALLYPORT_DECISIONS is off\n'),
    /decisions answers 404: no decisions are recorded: SALLYPORT_DECISIONS is off \(Set SALLYPORT_DECISIONS=all for it\.\) \[not-recording\]/,
  ],
  [
    'a proxy that shows them to its own machine alone',
    (_, response) => response.writeHead(403).end('Requests are only permitted from localhost.\n'),
    /answers 403: Requests are only permitted from localhost\. \(Ask on its own machine.* kubectl port-forward\.\) \[proxy-refuses\]/,
  ],
  [
    'its policy',
    (_, response) => response.writeHead(403).end(),
    /answers 403 \(The policy of its admin port .*\) \[proxy-refuses\]/,
  ],
  [
    'a proxy of another version',
    (_, response) => response.writeHead(200, { 'sallyport-decisions': '2' }).end('{"decision":2}\n'),
    /records decisions in version 2, and this Sallyport reads 1 \(.*\) \[other-version\]/,
  ],
  [
    'an older proxy',
    (_, response) => response.writeHead(404).end('not found\n'),
    /answers 404: not found; that is no record of decisions .*\[no-proxy\]/,
  ],
  [
    'another server',
    (_, response) => response.end('<html>'),
    /answers 200; that is no record of decisions .*\[no-proxy\]/,
  ],
  [
    'a server with much to say',
    (_, response) => response.writeHead(500).end(`\u001b[31m${'x'.repeat(5000)}`),
    /answers 500: \\u001b\[31mx{195}; that/,
  ],
  [
    'an answer that breaks off',
    (_, response) => {
      response.writeHead(200, { 'sallyport-decisions': '1' }).write(line);
      setTimeout(() => response.destroy(), 50);
    },
    /cannot be asked: the connection broke off .*\[no-proxy\]/,
  ],
  [
    'a server that never ends, of decisions',
    (_, response) => endlessly(response.writeHead(200, { 'sallyport-decisions': '1' }), line.repeat(1000)),
    /sends more than any proxy counts .*\[no-proxy\]/,
  ],
  [
    'a server that never ends to say why not',
    (_, response) => endlessly(response.writeHead(500), 'no '.repeat(50_000)),
    /answers 500: (?:no ){66}no; that is no record of decisions .*\[no-proxy\]/,
  ],
  [
    'a server that sends on to another',
    (_, response) => response.writeHead(302, { location: 'http://127.0.0.1:1/' }).end(),
    /answers 302; that is no record of decisions .*\[no-proxy\]/,
  ],
];

/** As fast as it is taken, until nobody takes it. */
function endlessly(response: ServerResponse, text: string): void {
  const more = (): void => {
    while (!response.destroyed && response.write(text));
  };
  response.on('drain', more);
  more();
}

t.test('asking servers that never end, a little at a time', async (t) => {
  const rows: readonly (readonly [
    begin: (response: ServerResponse) => void,
    go: (response: ServerResponse) => void,
  ])[] = [
    [() => {}, (response) => response.writeEarlyHints({ link: '</a>; rel=preload' })],
    [(response) => response.writeHead(200, { 'sallyport-decisions': '1' }), (response) => response.write('x')],
    [(response) => response.writeHead(500), (response) => response.write('x')],
  ];
  const runs = rows.map(async ([begin, go]) => {
    const url = await serverOf(t, (_, response) => {
      begin(response);
      const timer = setInterval(() => go(response), 500);
      response.on('close', () => clearInterval(timer));
    });
    return runSallyport(t, ['suggest', '--from', url]);
  });
  for (const { code, stderr } of await Promise.all(runs)) {
    t.equal(code, 64);
    t.match(stderr, /cannot be asked: its answer is not whole after 30 seconds .*\[no-proxy\]/);
  }
});

for (const [title, answer, says] of answers) {
  t.test(`asking ${title}`, async (t) => {
    const { code, stdout, stderr } = await runSallyport(t, ['suggest', '--from', await serverOf(t, answer)]);
    t.match({ code, stdout }, { code: 64, stdout: '' });
    t.match(stderr, says);
    t.match(stderr, /^[^\n]+\nTry: sallyport suggest --help\n$/, 'in one line');
  });
}

t.test('nobody is there', async (t) => {
  const { code, stderr } = await runSallyport(t, ['suggest', '--from', `http://127.0.0.1:${await freePort()}`]);
  t.equal(code, 64);
  t.match(stderr, /decisions cannot be asked: nobody listens there .*\[no-proxy\]/);
});

t.test('what is no address of an admin server', async (t) => {
  const rows = [
    '4191',
    '127.0.0.1:4191',
    'https://127.0.0.1:4191',
    'http://127.0.0.1:4191/metrics',
    'http://me@127.0.0.1:4191',
    'http://127.0.0.1/?a',
    '',
  ];
  for (const given of rows) {
    const { code, stderr } = await runSallyport(t, ['suggest', `--from=${given}`]);
    t.equal(code, 64, given);
    t.match(stderr, /as http:\/\/127\.0\.0\.1:4191|needs a value/, given);
    t.equal(/speaks plain HTTP/.test(stderr), given.startsWith('https:'), given);
  }
});

t.test('several proxies and a log are read together', async (t) => {
  const asked: string[] = [];
  const answer: RequestListener = (request, response) => {
    asked.push(request.url ?? '');
    response.writeHead(200, { 'sallyport-decisions': '1' }).end(line);
  };
  const [one, other] = [await serverOf(t, answer), await serverOf(t, answer)];
  const { code, stdout } = await runSallyport(t, ['suggest', '--from', one, '--from', `${other}/decisions`, '--json']);
  t.equal(code, 0);
  t.match(JSON.parse(stdout), { evidence: { count: 2 }, read: { decisions: 2 } });
  t.same(asked, ['/decisions', '/decisions']);
});
