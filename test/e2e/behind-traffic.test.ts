import { readdirSync, readFileSync } from 'node:fs';
import t from 'tap';
import { publishedCommand } from '../../benchmarks/published.ts';
import { startChild } from '../support/children.ts';
import { temporaryFolder } from '../support/files.ts';
import { openServer, policyEnvironment } from '../support/open-policy.ts';
import { freePorts } from '../support/ports.ts';
import { bareEnvironment } from '../support/sallyport.ts';
import { until } from '../support/until.ts';

const named = (id: number | 'self', part: string): string[] =>
  readdirSync(`/proc/${id}/task`).filter((thread) =>
    readFileSync(`/proc/${id}/task/${thread}/comm`, 'utf8').includes(part),
  );

/** The nineteenth field of proc_pid_stat(5); the name before it may hold anything. */
function niceness(id: number, thread: string): number {
  const fields = readFileSync(`/proc/${id}/task/${thread}/stat`, 'utf8')
    .replace(/^.*\) /s, '')
    .split(' ');
  return Number(fields[16]);
}

const skip =
  process.platform !== 'linux'
    ? 'needs /proc'
    : named('self', 'V8Worker').length === 0 && 'this Node does not name its threads';

t.test('what V8 compiles beside the traffic has what the traffic leaves', { skip }, async (t) => {
  const [port = 0, app] = await freePorts(2);
  const proxy = await startChild(t, await publishedCommand(), ['run'], {
    env: bareEnvironment({
      ...policyEnvironment(temporaryFolder(t), openServer('web', port)),
      SALLYPORT_INBOUND_PORTS: `${port}=127.0.0.1:${app}`,
      SALLYPORT_ADMIN_LISTEN: 'off',
      SALLYPORT_HEALTH_LISTEN: 'off',
    }),
  });
  await until('the proxy to listen', () => proxy.stdout().includes('"Listening"'), { timeoutMs: 30_000 });
  const traffic = niceness(proxy.pid, String(proxy.pid));
  const helpers = named(proxy.pid, 'V8Worker');
  t.equal(helpers.length, 1, 'one helper');
  for (const helper of helpers) t.equal(niceness(proxy.pid, helper), Math.min(19, traffic + 5));
  t.equal((await proxy.end()).code, 0, proxy.stderr());
});
