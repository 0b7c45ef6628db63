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
    const child = await startChild(t, 'python3', ['-c', receiver, path]);
    await until('the socket', () => child.stdout().startsWith('bound'), { lastSeen: () => child.stderr() });
    t.equal(reportReady({ NOTIFY_SOCKET: path }), null, path);
    t.equal((await child.exited).code, 0);
    t.equal(child.stdout(), 'bound\nREADY=1\n');
  }
});
