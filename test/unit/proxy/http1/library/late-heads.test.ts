import t from 'tap';
import { get, stage, statuses } from '../../../../support/lane-stage.ts';
import { defaultLimits } from '../../../../support/limits.ts';
import { type AppSocket, ok } from '../../../../support/raw-app.ts';
import { until } from '../../../../support/until.ts';

t.test('a head of which we have left the rest unread is not late', async (t) => {
  const waiting: AppSocket[] = [];
  const limits = { ...defaultLimits, headerTimeoutMs: 100 };
  const { open } = await stage(t, 'library', { answer: (_request, app) => waiting.push(app) }, { limits });
  const client = await open();
  // Longer than what Node's parser gets at once: it has the third head's beginning when reading stops for the second request.
  client.send(Buffer.concat([get('/1'), get('/2'), get('/3', `X: ${'x'.repeat(2000)}\r\n`)]));
  await until('the first request', () => waiting.length > 0);
  const slow = await open();
  slow.send(get('/').subarray(0, 20));
  t.ok(await slow.ends(20_000), 'Node has looked who is late');
  t.same(statuses(slow, ['GET']), [408]);
  const answers = setInterval(() => waiting.shift()?.socket.write(ok), 1);
  t.teardown(() => clearInterval(answers));
  await client.responses(['GET', 'GET', 'GET']);
  t.same(statuses(client, ['GET', 'GET', 'GET']), [200, 200, 200]);
});

t.test('a head that was late while it was not read has its time again, and no more', async (t) => {
  const waiting: AppSocket[] = [];
  const limits = { ...defaultLimits, headerTimeoutMs: 100 };
  const { open } = await stage(t, 'library', { answer: (_request, app) => waiting.push(app) }, { limits });
  const client = await open();
  client.send(Buffer.concat([get('/1'), get('/2'), get('/3').subarray(0, 20)]));
  await until('the first request', () => waiting.length > 0);
  const slow = await open();
  slow.send(get('/').subarray(0, 20));
  t.ok(await slow.ends(20_000), 'Node has looked who is late');
  const answers = setInterval(() => waiting.shift()?.socket.write(ok), 1);
  t.teardown(() => clearInterval(answers));
  t.ok(await client.ends(20_000), 'and does not look again');
  t.same(statuses(client, ['GET', 'GET', 'GET']), [200, 200, 408]);
});
