import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import t from 'tap';
import { type Finished, missing, runToEnd, startChild } from '../support/children.ts';
import { replaceFile, temporaryFolder } from '../support/files.ts';
import { withoutNpm } from '../support/image.ts';
import { openServer } from '../support/open-policy.ts';
import { packed } from '../support/packed.ts';
import { freePort } from '../support/ports.ts';
import { bareEnvironment, checkout } from '../support/sallyport.ts';
import { until } from '../support/until.ts';

// The packed tarball, installed as README says, away from the checkout; and what is said to whoever has an old Node.

const manifest = JSON.parse(readFileSync(join(checkout, 'package.json'), 'utf8')) as {
  readonly version: string;
  readonly engines: { readonly node: string };
  readonly dependencies: Readonly<Record<string, string>>;
  readonly bundleDependencies: readonly string[];
};
interface Lock {
  readonly packages: Readonly<Record<string, { readonly version: string; readonly dev?: boolean }>>;
}
const absent = await missing(t, 'npm', 'tar');

/** No name server, no route, nobody there: as npm says it. */
const unreachable = /ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ETIMEDOUT|ENETUNREACH/;

t.test('what the package does not bring, it names by a version', async (t) => {
  const asked = Object.entries(manifest.dependencies).filter(([name]) => !manifest.bundleDependencies.includes(name));
  t.match(asked, [['koffi', /^\d+\.\d+\.\d+$/]]);
  t.equal(asked.length, 1);
});

t.test('npm install --global, from the tarball', { skip: absent, timeout: 280_000 }, async (t) => {
  t.setTimeout(900_000);
  const folder = temporaryFolder(t);
  const prefix = join(folder, 'prefix');
  const tarball = await packed(t, folder);
  const args = ['--unset=NODE_OPTIONS', 'npm', 'install', '--global', '--prefix', prefix, '--prefer-offline', tarball];
  const environment = withoutNpm(process.env);
  const installed = await runToEnd(t, 'env', args, { cwd: folder, timeoutMs: 200_000, env: environment });
  if (installed.code !== 0 && unreachable.test(installed.stderr)) {
    t.pass('installed', { skip: "npm's registry cannot be reached" });
    return;
  }
  t.equal(installed.code, 0, installed.stderr);

  const command = join(prefix, 'bin/sallyport');
  const at = (env: Readonly<Record<string, string>>) => ({ env: bareEnvironment(env), cwd: folder });
  const sallyport = (env: Readonly<Record<string, string>>, ...words: string[]): Promise<Finished> =>
    runToEnd(t, command, words, at(env));
  const root = join(prefix, 'lib/node_modules/sallyport');

  t.same(readdirSync(join(root, 'lib/deploy')), ['systemd'], 'of the sources, the units alone');
  for (const name of ['sallyport.service', 'sallyport-redirect.service', 'sallyport.sysusers']) {
    t.ok(statSync(join(root, 'lib/deploy/systemd', name)).isFile(), name);
  }
  const lock = JSON.parse(readFileSync(join(checkout, 'package-lock.json'), 'utf8')) as Lock;
  const there = JSON.parse(readFileSync(join(root, 'npm-shrinkwrap.json'), 'utf8')) as Lock;
  t.same(there.packages, lock.packages, 'the package names the versions that were tested');
  const needed = Object.entries(lock.packages).filter(([path, one]) => path !== '' && one.dev !== true);
  const versions = needed.flatMap(([path, { version }]) => {
    const file = join(root, path, 'package.json');
    return existsSync(file) ? [{ path, version, installed: JSON.parse(readFileSync(file, 'utf8')).version }] : [];
  });
  t.ok(versions.length > 25, `${versions.length} packages`);
  t.same(
    versions.filter(({ version, installed }) => installed !== version),
    [],
    'and those are installed',
  );
  const tools = ['typescript', 'tap', 'node'].filter((name) => existsSync(join(root, 'node_modules', name)));
  t.same(tools, [], 'without the tools');
  t.match(await sallyport({}, '--version'), { code: 0, stdout: `sallyport ${manifest.version}\n`, stderr: '' });

  const [port, health, appPort] = [await freePort(), await freePort(), await freePort()];
  const app = createServer((_, answer) => answer.end('app'));
  await new Promise<void>((resolve) => app.listen(appPort, '127.0.0.1', resolve));
  t.teardown(() => app.close());
  const policy = join(folder, 'policy/web.yaml');
  replaceFile(policy, openServer('web', port));
  t.match(await sallyport({}, 'check', policy), { code: 0, stdout: /^2 documents: 0 errors, 1 warning$/m, stderr: '' });

  const env = {
    SALLYPORT_POLICY: join(folder, 'policy'),
    SALLYPORT_POD_NAMESPACE: 'shop',
    SALLYPORT_INBOUND_PORTS: `${port}=127.0.0.1:${appPort}`,
    SALLYPORT_ADMIN_LISTEN: 'off',
    SALLYPORT_HEALTH_LISTEN: `127.0.0.1:${health}`,
    SALLYPORT_AUTHORIZE_LOCALHOST: 'false',
  };
  const child = await startChild(t, command, ['run'], at(env));
  t.match(await sallyport(env, 'health', '--wait', '60s'), { code: 0, stderr: '' });
  const status = async (): Promise<number> => (await fetch(`http://127.0.0.1:${port}/`)).status;
  t.equal(await status(), 200);
  replaceFile(policy, openServer('web', port + 1));
  await until('the new policy, read by its thread', async () => (await status()) === 403);
  t.match(await child.end('SIGTERM', 20_000), { code: 0, signal: null });

  const [, least = ''] = /^>=(.*)$/.exec(manifest.engines.node) ?? [];
  const old = join(folder, 'node');
  replaceFile(old, '#!/bin/sh\necho v20.20.2\n');
  await runToEnd(t, 'chmod', ['+x', old]);
  t.match(await sallyport({ PATH: `${folder}:/usr/bin:/bin` }, 'run'), {
    code: 1,
    stdout: '',
    stderr: `sallyport: Node 20.20.2 (node) is too old: install ${least} or newer, or name one in SALLYPORT_NODE`,
  });
});
