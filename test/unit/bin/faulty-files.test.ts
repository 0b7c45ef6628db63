import { mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import { join } from 'node:path';
import t from 'tap';
import { workloadCertificate } from '../../support/certificates.ts';
import { identityEnvironment, replaceFile, temporaryFolder } from '../../support/files.ts';
import { freePort } from '../../support/ports.ts';
import { runSallyport, startSallyport } from '../../support/sallyport.ts';
import { until } from '../../support/until.ts';

/** Files and ports that are not what they should be: one line names the file, the place in it and the remedy. */

const server = (port: string): string => `apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: { name: web, namespace: shop }
spec: { podSelector: {}, port: ${port} }
`;

t.test('at the start: one line on standard error for each fault, and the exit status', async (t) => {
  const folder = temporaryFolder(t);
  const at = (name: string): string => join(folder, name);
  mkdirSync(at('folder'));
  writeFileSync(at('text'), 'x\n');
  writeFileSync(at('pod.yaml'), server('80'));
  writeFileSync(at('labels'), 'app=web\n');
  const identity = identityEnvironment(folder, workloadCertificate('web', 'shop'));
  writeFileSync(at('other.key'), workloadCertificate('other', 'shop').keyPem);
  const holder = net.createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => holder.once('listening', resolve));
  t.teardown(() => holder.close());
  const { port } = holder.address() as net.AddressInfo;
  const taken = 'something else listens there; stop it or choose another port [ERR_SALLYPORT_LISTEN]';
  const rows: readonly (readonly [env: Record<string, string>, code: 1 | 64, said: string])[] = [
    [
      { SALLYPORT_INBOUND_PORTS: `[127.0.0.1]:${port}=127.0.0.1:9` },
      1,
      `SALLYPORT_INBOUND_PORTS: cannot listen on 127.0.0.1:${port}: ${taken}`,
    ],
    [
      { SALLYPORT_ADMIN_LISTEN: `127.0.0.1:${port}` },
      1,
      `SALLYPORT_ADMIN_LISTEN: cannot listen on 127.0.0.1:${port}: ${taken}`,
    ],
    [
      { SALLYPORT_HEALTH_LISTEN: `127.0.0.1:${port}` },
      1,
      `SALLYPORT_HEALTH_LISTEN: cannot listen on 127.0.0.1:${port}: ${taken}`,
    ],
    [
      { SALLYPORT_HEALTH_LISTEN: '192.0.2.1:4192' },
      1,
      'SALLYPORT_HEALTH_LISTEN: cannot listen on 192.0.2.1:4192: no interface of this machine has that address; name one that it has, or 0.0.0.0 [ERR_SALLYPORT_LISTEN]',
    ],
    [
      { ...identity, SALLYPORT_IDENTITY_KEY: at('folder') },
      1,
      `${at('folder')}: cannot be read: is a folder (Name a file in it.) [identity-unreadable] [ERR_SALLYPORT_IDENTITY]`,
    ],
    [
      { ...identity, SALLYPORT_IDENTITY_KEY: at('onw.key') },
      1,
      `${at('onw.key')}: cannot be read: no such file or folder (Did you mean "${at('own.key')}"?) [identity-unreadable] [ERR_SALLYPORT_IDENTITY]`,
    ],
    [
      { ...identity, SALLYPORT_IDENTITY_KEY: at('other.key') },
      1,
      `${at('other.key')}: the private key is not the one of the certificate in ${at('own.crt')} (write key and certificate of one issuance together; the first certificate in the file must be our own) [foreign-key] [ERR_SALLYPORT_IDENTITY]`,
    ],
    [
      { ...identity, SALLYPORT_IDENTITY_CERT: at('text') },
      1,
      `${at('text')}: the file holds no PEM certificate where a certificate should be (the file must hold PEM blocks that begin with -----BEGIN CERTIFICATE-----) [no-certificate] [ERR_SALLYPORT_IDENTITY]`,
    ],
    [
      { ...identity, SALLYPORT_IDENTITY_CERT: at('text'), SALLYPORT_IDENTITY_KEY: at('text') },
      1,
      [
        `${at('text')}: the file holds no PEM certificate where a certificate should be (the file must hold PEM blocks that begin with -----BEGIN CERTIFICATE-----) [no-certificate] [ERR_SALLYPORT_IDENTITY]`,
        `${at('text')}: the file holds no readable private key (the file must hold a PEM block that begins with -----BEGIN PRIVATE KEY-----) [no-key] [ERR_SALLYPORT_IDENTITY]`,
      ].join('\nsallyport: '),
    ],
    [
      { SALLYPORT_POD_LABELS_FILE: at('folder') },
      64,
      `SALLYPORT_POD_LABELS_FILE: ${at('folder')} cannot be read: is a folder (Name a file in it.) [setting-unreadable]`,
    ],
    [
      { SALLYPORT_POD_LABELS_FILE: at('labels') },
      64,
      `SALLYPORT_POD_LABELS_FILE: ${at('labels')}: line 1 is not key="value" (mount metadata.labels by the downward API, and keep the file as is) [bad-labels-file]`,
    ],
    [
      { SALLYPORT_POD_MANIFEST: at('pod.yaml') },
      64,
      `SALLYPORT_POD_MANIFEST: ${at('pod.yaml')}: holds no Pod or workload (give one, as \`kubectl get pod -o yaml\` prints it, or one workload such as a Deployment) [invalid-pod]`,
    ],
  ];
  for (const [env, code, said] of rows) {
    const free = { SALLYPORT_INBOUND_PORTS: `[127.0.0.1]:${await freePort()}=127.0.0.1:9` };
    const off = { SALLYPORT_ADMIN_LISTEN: 'off', SALLYPORT_HEALTH_LISTEN: 'off' };
    const run = await runSallyport(t, ['run'], { ...free, ...off, ...env });
    t.same({ code: run.code, stderr: run.stderr }, { code, stderr: `sallyport: ${said}\n` });
  }
});

t.test('the policy at the start: one line of the log, and not ready', async (t) => {
  const folder = temporaryFolder(t);
  const at = (name: string): string => join(folder, name);
  writeFileSync(at('web.yaml'), server('80'));
  writeFileSync(at('broken.yaml'), `${server('80')}  port: [\n`);
  const rows: readonly (readonly [path: string, reason: RegExp])[] = [
    [at('wbe.yaml'), /wbe\.yaml:1:1: cannot be read: no such file or folder \(Did you mean ".*\/web\.yaml"\?\)$/],
    ['/dev/null', /^\/dev\/null:1:1: cannot be read: is no regular file .* \(Name a regular file; .*\)$/],
    [at('broken.yaml'), /broken\.yaml:5:1: .+ \(.+\)/],
  ];
  for (const [path, reason] of rows) {
    const proxy = await startSallyport(t, {
      env: { SALLYPORT_POLICY: path, SALLYPORT_INBOUND_PORTS: `[127.0.0.1]:${await freePort()}=127.0.0.1:9` },
      awaitReady: false,
    });
    const line = await proxy.waitForLog('the refusal', ({ code }) => code === 'policy-not-loaded');
    t.equal(line.msg, 'Policy not loaded; nothing is authorized', path);
    t.match(line.reason, reason, path);
    t.equal(await proxy.health('/ready'), 503, path);
    await proxy.stop();
  }
});

t.test('at a reload: one line of the log, and what was good stays', async (t) => {
  const folder = temporaryFolder(t);
  const at = (name: string): string => join(folder, name);
  const own = workloadCertificate('web', 'shop');
  mkdirSync(at('identity'));
  const identity = identityEnvironment(at('identity'), own);
  // As the kubelet mounts a ConfigMap.
  const mount = at('policy');
  const generation = (name: string, text: string): void => {
    mkdirSync(join(mount, `..${name}`), { recursive: true });
    writeFileSync(join(mount, `..${name}`, 'web.yaml'), text);
    symlinkSync(`..${name}`, join(mount, '..next'));
    renameSync(join(mount, '..next'), join(mount, '..data'));
  };
  generation('1', server('80'));
  symlinkSync('..data/web.yaml', join(mount, 'web.yaml'));
  replaceFile(at('facts/labels'), 'app="web"\n');
  const proxy = await startSallyport(t, {
    env: {
      ...identity,
      SALLYPORT_POLICY: mount,
      SALLYPORT_POD_NAMESPACE: 'shop',
      SALLYPORT_POD_LABELS_FILE: at('facts/labels'),
      SALLYPORT_INBOUND_PORTS: `[127.0.0.1]:${await freePort()}=127.0.0.1:9`,
    },
  });
  const file = join(mount, 'web.yaml');
  const notLoaded = 'Policy not loaded; the last good policy stays in force';
  interface Row {
    readonly name: string;
    change(): void;
    readonly msg: string;
    readonly fields: Readonly<Record<string, unknown>>;
  }
  const rows: readonly Row[] = [
    {
      name: 'a ConfigMap is swapped for one that is refused',
      change: () => generation('2', server('80, accessPolicy: dney')),
      msg: notLoaded,
      fields: { reason: new RegExp(`^${file}:4:\\d+: Server shop/web: .*"dney".* \\(Did you mean "deny"\\?\\)$`) },
    },
    {
      name: 'it is emptied',
      change: () => generation('3', ''),
      msg: notLoaded,
      fields: { reason: new RegExp(`^${file}:1:1: .+ \\(.+\\)$`) },
    },
    {
      name: 'it is broken',
      change: () => generation('4', 'a: ['),
      msg: notLoaded,
      fields: { reason: new RegExp(`^${file}:1:\\d+: .+ \\(.+\\)`) },
    },
    {
      name: "another's key",
      change: () => replaceFile(identity.SALLYPORT_IDENTITY_KEY as string, workloadCertificate('x', 'shop').keyPem),
      msg: 'Identity not reloaded; the last good one stays in use',
      fields: {
        code: 'foreign-key',
        file: identity.SALLYPORT_IDENTITY_KEY as string,
        message: /is not the one of the certificate/,
        hint: /one issuance/,
      },
    },
    {
      name: 'a key that is a folder',
      change() {
        rmSync(identity.SALLYPORT_IDENTITY_KEY as string);
        mkdirSync(identity.SALLYPORT_IDENTITY_KEY as string);
      },
      msg: 'Identity not reloaded; the last good one stays in use',
      fields: { code: 'identity-unreadable', message: /is a folder/, hint: /Name a file in it/ },
    },
    {
      name: 'labels that are none',
      change: () => replaceFile(at('facts/labels'), 'app=web\n'),
      msg: 'The facts of the pod cannot be read; keeping the previous ones',
      fields: {
        faults: [
          {
            variable: 'SALLYPORT_POD_LABELS_FILE',
            code: 'bad-labels-file',
            message: /labels: line 1 is not key="value"$/,
            hint: /^mount /,
          },
        ],
      },
    },
  ];
  for (const { name, change, msg, fields } of rows) {
    const before = proxy.logs().length;
    change();
    const line = await until(
      name,
      () =>
        proxy
          .logs()
          .slice(before)
          .find((each) => each.msg === msg),
      { timeoutMs: 20_000, lastSeen: () => JSON.stringify(proxy.logs().slice(before)) },
    );
    t.match(line, fields, name);
    t.equal(await proxy.health('/ready'), 200, `${name}: what was good stays`);
  }
});
