import { join } from 'node:path';
import t from 'tap';
import { reportReady } from '../../../lib/ops/service-manager.ts';
import { missing, startChild } from '../../support/children.ts';
import { temporaryFolder } from '../../support/files.ts';
import { until } from '../../support/until.ts';

/** systemd's side, which Node cannot play: a socket of datagrams. */
const receiver = `
import os, socket, sys
name = sys.argv[1]
here = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
here.bind(name.replace('@', '\\0', 1) if name.startswith('@') else name)
print('bound', flush=True)
for _ in range(int(sys.argv[2])):
    print(here.recv(100).decode(), flush=True)
`;

t.test('nobody asked', async (t) => {
  for (const env of [{}, { NOTIFY_SOCKET: '' }]) t.equal(reportReady(env), null);
});

t.test('a socket that is not there', async (t) => {
  const path = join(temporaryFolder(t), 'notify');
  t.match(reportReady({ NOTIFY_SOCKET: path }), /takes no message \(errno \d+\)/);
  t.match(reportReady({ NOTIFY_SOCKET: `/${'a'.repeat(107)}` }), /too long/);
});

const absent = await missing(t, 'python3');
t.test('says so to the socket that systemd names', { skip: absent }, async (t) => {
  for (const path of [join(temporaryFolder(t), 'notify'), `@sallyport-test-${process.pid}`]) {
    const child = await startChild(t, 'python3', ['-c', receiver, path, '1']);
    await until('the socket', () => child.stdout().startsWith('bound'), { lastSeen: () => child.stderr() });
    t.equal(reportReady({ NOTIFY_SOCKET: path }), null, path);
    t.equal((await child.exited).code, 0);
    t.equal(child.stdout(), 'bound\nREADY=1\n');
  }
});

t.test('says again and again that it turns, where systemd waits for that', { skip: absent }, async (t) => {
  const rows = [
    [{ WATCHDOG_USEC: '20000' }, 3],
    [{ WATCHDOG_USEC: '20000', WATCHDOG_PID: `${process.pid}` }, 3],
  ] as const;
  for (const [env, words] of rows) {
    // The timer of the row before goes on, to a socket of its own.
    const path = join(temporaryFolder(t), 'notify');
    const child = await startChild(t, 'python3', ['-c', receiver, path, `${words}`]);
    await until('the socket', () => child.stdout().startsWith('bound'), { lastSeen: () => child.stderr() });
    t.equal(reportReady({ NOTIFY_SOCKET: path, ...env }), null);
    // Its timer alone keeps no process running.
    await until('the words', () => child.stdout().split('\n').length > words + 1);
    t.equal(child.stdout(), 'bound\nREADY=1\nWATCHDOG=1\nWATCHDOG=1\n');
    await child.exited;
  }
});
