import { writeFileSync } from 'node:fs';
import net from 'node:net';
import { join } from 'node:path';
import t from 'tap';
import { errorCatalogue } from '../../../lib/errors/error-codes.ts';
import { runSallyport } from '../../support/sallyport.ts';

t.test('a start that fails says why, by its code, and ends with 1', async (t) => {
  const holder = net.createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => holder.once('listening', resolve));
  t.teardown(() => holder.close());
  const { port } = holder.address() as net.AddressInfo;
  const folder = t.testdir({ 'tls.crt': 'no certificate', 'tls.key': 'no key', 'ca.crt': 'no anchors' });
  const lame = join(folder, 'lame.cjs');
  writeFileSync(lame, "delete require('node:http').ServerResponse.prototype.assignSocket;");
  const off = { SALLYPORT_ADMIN_LISTEN: 'off', SALLYPORT_HEALTH_LISTEN: 'off' };
  const rows: readonly (readonly [
    code: keyof typeof errorCatalogue,
    env: Record<string, string>,
    said: RegExp,
    faults: number,
  ])[] = [
    [
      'ERR_SALLYPORT_LISTEN',
      { ...off, SALLYPORT_INBOUND_PORTS: `[127.0.0.1]:${port}=127.0.0.1:9` },
      /SALLYPORT_INBOUND_PORTS: cannot listen on .*: something else listens there/,
      1,
    ],
    [
      'ERR_SALLYPORT_IDENTITY',
      {
        ...off,
        // Never come to: no port opens before there is an identity.
        SALLYPORT_INBOUND_PORTS: `[127.0.0.1]:${port}=127.0.0.1:9`,
        SALLYPORT_IDENTITY_CERT: join(folder, 'tls.crt'),
        SALLYPORT_IDENTITY_KEY: join(folder, 'tls.key'),
        SALLYPORT_IDENTITY_TRUST_ANCHORS: join(folder, 'ca.crt'),
      },
      /tls\.crt/,
      3,
    ],
    [
      'ERR_SALLYPORT_NODE',
      { ...off, SALLYPORT_INBOUND_PORTS: `[127.0.0.1]:${port}=127.0.0.1:9`, NODE_OPTIONS: `--require=${lame}` },
      /Node v\d+\.\d+\.\d+ has no http\.ServerResponse\.prototype\.assignSocket/,
      1,
    ],
  ];
  const starts = Object.entries(errorCatalogue).filter(([, { ends }]) => ends === 'start');
  t.same(rows.map(([code]) => code).sort(), starts.map(([code]) => code).sort(), 'every such code');
  for (const [code, env, said, faults] of rows) {
    const { code: status, stdout, stderr } = await runSallyport(t, ['run'], env);
    t.equal(status, 1, code);
    t.match(stderr, new RegExp(`^sallyport: [^\\n]*${said.source}[^\\n]*\\[${code}\\]\\n`), code);
    t.match(
      stderr,
      new RegExp(`^(sallyport: [^\\n]*\\[${code}\\]\\n){${faults}}$`),
      `${code}: one line for each fault`,
    );
    const fatal = stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line))
      .find(({ level }) => level === 'fatal');
    t.match(fatal, { msg: 'Cannot start', code, error: said }, code);
  }
});
