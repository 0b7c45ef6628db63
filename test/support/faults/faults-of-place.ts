import { chmodSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import type { Teardown } from '../children.ts';
import { get } from './clients.ts';
import { type Fault, type Finding, Stage } from './stage.ts';

/** Root reads everything, unless it has given that up. */
const asOwner =
  process.getuid?.() === 0 ? ['setpriv', '--bounding-set', '-dac_override,-dac_read_search'] : ([] as const);

/** @param script becomes the proxy, its stdout somewhere else. */
async function unwritable(t: Teardown, script: string, errno: string): Promise<readonly Finding[]> {
  const stage = await Stage.set(t);
  await stage.run({ within: ['bash', '-c', script, 'bash'] });
  return [
    await stage.error(/cannot be written/),
    await stage.metric('sallyport_log_write_failures_total', { errno }, 1),
  ];
}

export const placeFaults: readonly Fault[] = [
  {
    title: 'the app is down',
    async provoke(t) {
      const stage = await Stage.start(t, { downApp: true });
      await get(stage.port, '/orders/7', '127.0.0.1');
      return [
        await stage.log(/Request failed/, 'code', 'error', 'detail', 'app', 'errno', 'client.ip', 'path'),
        await stage.metric('inbound_http_errors_total', { error: 'i/o' }, 1),
      ];
    },
  },
  {
    title: 'the app hangs, and is ended',
    async provoke(t) {
      const stage = await Stage.start(t, { hanging: { ms: 300, by: 'an end' } });
      await get(stage.port, '/orders/7', '127.0.0.1');
      return [
        await stage.log(/Request failed/, 'code', 'error', 'detail', 'errno', 'client.ip', 'path'),
        await stage.metric('inbound_http_errors_total', { error: 'i/o' }, 1),
      ];
    },
  },
  {
    title: 'the app answers late',
    async provoke(t) {
      const stage = await Stage.start(t, {
        hanging: { ms: 300, by: 'an answer' },
        env: { SALLYPORT_SLOW_REQUEST: '200ms' },
      });
      await get(stage.port, '/orders/7', '127.0.0.1');
      return [await stage.log(/Slow request/, 'code', 'server', 'status', 'client.ip', 'path')];
    },
  },
  {
    title: 'our own pages behind policy',
    async provoke(t) {
      const stage = await Stage.start(t, { env: { SALLYPORT_AUTHORIZE_LOCALHOST: 'false' } });
      await get(stage.proxy.adminPort, '/metrics', '127.0.0.1');
      return [await stage.log(/Request denied/, 'server', 'reason', 'hint')];
    },
  },
  {
    title: 'no room on the disk for the log',
    provoke: (t) => unwritable(t, 'exec "$@" >/dev/full', 'ENOSPC'),
  },
  {
    title: 'nobody reads the log any more',
    // Who reads is gone before the first line.
    provoke: (t) => unwritable(t, 'exec 3> >(true); wait $!; exec "$@" >&3 3>&-', 'EPIPE'),
  },
  {
    title: 'a port is in use',
    async provoke(t) {
      const stage = await Stage.set(t);
      const other = createServer().listen(stage.port, '0.0.0.0');
      t.teardown(() => other.close());
      await new Promise((resolve) => other.once('listening', resolve));
      return [await stage.printed(['run'], /ERR_SALLYPORT_LISTEN/)];
    },
  },
  {
    title: 'the key cannot be read',
    async provoke(t) {
      const stage = await Stage.set(t);
      chmodSync(join(stage.folder, 'identity', 'own.key'), 0o000);
      return [await stage.printed(['run'], /key/i, asOwner)];
    },
  },
  {
    title: 'a misspelt variable',
    async provoke(t) {
      const stage = await Stage.start(t, { env: { SALLYPORT_POLCY: '/policy' } });
      return [await stage.log(/SALLYPORT_POLCY/)];
    },
  },
  {
    title: 'a misspelt command',
    async provoke(t) {
      return [await (await Stage.set(t)).printed(['chekc', 'policy'], /chekc/)];
    },
  },
  {
    title: 'a misspelt flag',
    async provoke(t) {
      return [await (await Stage.set(t)).printed(['check', '--jsno', 'policy'], /jsno/)];
    },
  },
];
