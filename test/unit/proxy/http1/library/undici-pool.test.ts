import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import type { AddressInfo } from 'node:net';
import t from 'tap';
import type { Dispatcher } from 'undici';
import type { Admitted } from '../../../../../lib/proxy/http/admitted.ts';
import { LibraryPool } from '../../../../../lib/proxy/http1/library/undici-pool.ts';
import { until } from '../../../../support/until.ts';
import { admittedForNow } from '../../../../support/waiting.ts';

const require = createRequire(import.meta.url);
const loaded = (): number => Object.keys(require.cache).filter((file) => file.includes('/node_modules/undici/')).length;

/** Of undici's modules in one turn: a piece, and what it alone needs. All that there are would be more than a hundred. */
const mostInOneTurn = 3;

t.test('undici is loaded a little in each turn, and only as much as is needed', async (t) => {
  const server = createServer((_request, response) => response.end('ok'));
  t.teardown(() => server.close());
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  let made = 0;
  const pool = new LibraryPool((Pool) => {
    made++;
    return new Pool(origin);
  });
  t.teardown(() => pool.destroy());
  t.equal(loaded(), 0, 'nothing before it is needed');
  const sender = pool.sender({} as Admitted);
  t.equal(sender.idle?.(), 0);
  const statuses: number[] = [];
  const handler: Dispatcher.DispatchHandler = {
    onRequestStart: () => {},
    onResponseStart: (_controller, status) => {
      statuses.push(status);
    },
    onResponseData: () => {},
    onResponseEnd: () => {},
    onResponseError: (_controller, error) => t.fail(error.message),
  };
  for (let i = 0; i < 3; i++) sender.dispatch({ method: 'GET', path: '/', headers: [] }, handler, () => admittedForNow);
  let known = loaded();
  t.equal(known, 0, 'nothing in the turn that asks');
  let most = 0;
  const look = (): void => {
    const now = loaded();
    most = Math.max(most, now - known);
    known = now;
    if (statuses.length < 3) setImmediate(look);
  };
  look();
  await until('the responses', () => statuses.length === 3);
  t.same(statuses, [200, 200, 200]);
  t.ok(most > 0 && most <= mostInOneTurn, `${most} modules in one turn`);
  t.ok(known < 40, `${known} modules in all`);
  t.equal(made, 1);
  sender.dispatch({ method: 'GET', path: '/', headers: [] }, handler, () => admittedForNow);
  await until('one more', () => statuses.length === 4);
});
