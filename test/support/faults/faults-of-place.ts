import { chmodSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import type { Teardown } from '../children.ts';
import { get } from './clients.ts';
import { type Fault, type Finding, Stage } from './stage.ts';

/** Root reads everything, unless it has given that up. */
const asOwner =
  process.getuid?.() === 0 ? ['setpriv', '--bounding-set', '-dac_override,-dac_read_search'] : ([] as const);

/** The proxy's stdout goes there. */
const printsTo = (place: string): readonly string[] => ['bash', '-c', `exec "$@" ${place}`, 'bash'];

async function unwritable(t: Teardown, place: string, errno: string): Promise<readonly Finding[]> {
  const stage = await Stage.set(t);
  await stage.run({ within: printsTo(place) });
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
    title: 'no room on the disk for the log',
    provoke: (t) => unwritable(t, '>/dev/full', 'ENOSPC'),
  },
  {
    title: 'nobody reads the log any more',
    provoke: (t) => unwritable(t, '> >(true)', 'EPIPE'),
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
