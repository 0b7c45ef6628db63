import { readFileSync } from 'node:fs';
import { setTimeout as elapse } from 'node:timers/promises';
import t from 'tap';
import { openServer, policyEnvironment } from '../../support/open-policy.ts';
import { freePort } from '../../support/ports.ts';
import { startRawApp } from '../../support/raw-app.ts';
import { latin1, RawClient } from '../../support/raw-http.ts';
import { startSallyport } from '../../support/sallyport.ts';
import { patience, until } from '../../support/until.ts';

/*
 * A container without CPU, a machine that is moved: the process stands still for longer than any deadline, and then all timers
 * are due at once. Whoever has sent meanwhile what was waited for is not late.
 */
t.setTimeout(900_000);

const get = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n';
/** From here on the connection is the library lane's. */
const odd = 'GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\nConnection: keep-alive\r\n\r\n';
/** Node's server looks for late heads this often. */
const checkedEveryMs = 5000;
const rows: readonly (readonly [title: string, before: string, meanwhile: string, responses: number])[] = [
  ['first bytes', '', get, 1],
  ['the rest of a head', get.slice(0, 20), get.slice(20), 1],
  ['the rest of a head for the library lane', odd + get.slice(0, 20), get.slice(20), 2],
  ['another request on the library lane', odd, get, 2],
  ['another request', get, get, 2],
  ['the rest of a body', 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n01234', '56789', 1],
];

t.test('what came while the process stood still is in time', async (t) => {
  const app = await startRawApp(t);
  const port = await freePort();
  const seconds = Math.ceil(patience());
  const sallyport = await startSallyport(t, {
    env: {
      ...policyEnvironment(t.testdir(), openServer('web', port)),
      SALLYPORT_INBOUND_PORTS: `${port}=127.0.0.1:${app.port}`,
      SALLYPORT_DETECT_TIMEOUT: `${seconds}s`,
      SALLYPORT_HEADER_TIMEOUT: `${seconds}s`,
      SALLYPORT_HTTP1_IDLE_TIMEOUT: `${5 * seconds}s`,
    },
  });
  const clients: RawClient[] = [];
  for (const [, before, , responses] of rows) {
    const client = await RawClient.open({ port });
    client.send(latin1(before));
    // All but the last are answered before.
    await client.responses(new Array(responses - 1).fill('GET'));
    clients.push(client);
  }
  const last = await RawClient.open({ port });
  last.send(latin1(get));
  await last.responses(['GET']);
  process.kill(sallyport.pid, 'SIGSTOP');
  try {
    const state = (): string => readFileSync(`/proc/${sallyport.pid}/stat`, 'latin1').split(') ')[1] ?? '';
    await until('it to stand still', () => state().startsWith('T'));
    for (const [i, [, , meanwhile]] of rows.entries()) clients[i]?.send(latin1(meanwhile));
    // Deadlines are looked at once a second.
    await elapse(5 * seconds * 1000 + checkedEveryMs);
  } finally {
    process.kill(sallyport.pid, 'SIGCONT');
  }
  for (const [i, [title, , , responses]] of rows.entries()) {
    const answers = await clients[i]?.responses(new Array(responses).fill('GET'));
    t.same(
      answers?.map(({ status }) => status),
      new Array(responses).fill(200),
      title,
    );
  }
  const late = await RawClient.open({ port });
  t.ok(await late.ends(seconds * 1000 + 10_000), 'one that stays silent is given up as ever');
});
