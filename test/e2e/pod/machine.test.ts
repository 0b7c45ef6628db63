import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { startChild } from '../../support/children.ts';
import { bootMachine, type Machine, machineUnavailable } from '../../support/machine.ts';
import { packed } from '../../support/packed.ts';
import {
  address,
  at,
  createPodNetwork,
  curl,
  type PodNetwork,
  podNetworkUnavailable,
} from '../../support/pod-network.ts';
import { checkout } from '../../support/sallyport.ts';
import { until } from '../../support/until.ts';

// The page about virtual machines, line by line, on a machine with a systemd of its own; and after each section whether
// what it says is so.

const unavailable = (await podNetworkUnavailable(t, 'npm')) || (await machineUnavailable(t));

const folder = join(checkout, 'lib/deploy/systemd');
const page = readFileSync(join(folder, 'README.md'), 'utf8');
const units = ['sallyport.service', 'sallyport-redirect.service'] as const;

/** The commands of a section, a script for each block. */
function scripts(section: string): string[] {
  const [, text] = page.split(`\n## ${section}\n`);
  if (text === undefined) throw new Error(`the page has no section ${section}`);
  const blocks = [...(text.split('\n## ')[0] as string).matchAll(/^```sh\n(.*?)^```$/gms)].map(
    ([, script = '']) => script,
  );
  if (blocks.length === 0) throw new Error(`section ${section} has no commands`);
  return blocks;
}

interface Setting {
  readonly machine: Machine;
  readonly net: PodNetwork;
}

/** Runs a script of the page; whatever fails, fails the test with what was said. */
async function follow(t: Test, { machine }: Setting, script: string): Promise<string> {
  const done = await machine.sh(script, script.includes('npm install') ? 'this machine' : 'its own');
  const journal = done.code === 0 ? '' : (await machine.sh('journalctl --no-pager --lines 30')).stdout;
  t.equal(done.code, 0, script.split('\n')[0] ?? '');
  if (done.code !== 0) t.comment(`${done.stdout}${done.stderr}${journal}`);
  return done.stdout;
}

async function ask(
  { net }: Setting,
  from: 'client' | 'outsider',
  port: number,
  host: string = address.pod,
): Promise<number> {
  return (await curl(net[from], at(host, port))).status;
}

async function shown({ machine }: Setting, unit: string, property: string): Promise<string> {
  return (await machine.sh(`systemctl show --property ${property} --value ${unit}`)).stdout.trim();
}

/** The application: on loopback alone. And what whoever mends the machine comes in by. */
const app = `
const { createServer } = require('node:http');
createServer((_, answer) => answer.end('app')).listen(3000, '127.0.0.1');
createServer((_, answer) => answer.end('ssh')).listen(22, '0.0.0.0');
`;

async function installs(t: Test, setting: Setting): Promise<void> {
  const [first = '', second = ''] = scripts('Install');
  t.match(await follow(t, setting, first), /^sallyport 0\.1\.0$/m);
  await follow(t, setting, second);
  t.match((await setting.machine.sh('id sallyport')).stdout, /^uid=2102\(sallyport\) gid=2102\(sallyport\)/);
  const verified = await setting.machine.sh(
    `systemd-analyze verify ${units.map((u) => `/etc/systemd/system/${u}`).join(' ')}`,
  );
  t.match(verified, { code: 0, stdout: '', stderr: '' }, 'systemd finds nothing wrong with the units');
  for (const unit of units) {
    const { stdout } = await setting.machine.sh(
      `systemd-analyze security --no-pager --offline=true /etc/systemd/system/${unit}`,
    );
    const [, exposure = '', verdict] = /exposure level for \S+: (\d+\.\d+) (\w+)/.exec(stdout) ?? [];
    t.equal(verdict, 'OK', `${unit}: ${exposure}`);
    t.ok(
      page.replaceAll('\n', ' ').match(`\`${unit}\`[^.]*${exposure.replace('.', '\\.')}`),
      `the page says ${exposure} of ${unit}`,
    );
  }
}

async function starts(t: Test, setting: Setting): Promise<void> {
  const { machine, net } = setting;
  for (const script of scripts('Start')) await follow(t, setting, script);
  t.equal(await ask(setting, 'client', 8080), 200, 'as soon as systemctl has returned');
  t.equal(await ask(setting, 'outsider', 8080), 403);
  t.equal((await curl(net.client, at(address.pod, 4192, '/ready'))).status, 200);

  const status = (await machine.sh('cat /proc/$(systemctl show --property MainPID --value sallyport)/status')).stdout;
  t.match(status, /^Uid:\s+2102\s+2102\s+2102\s+2102$/m);
  for (const set of ['Inh', 'Prm', 'Eff', 'Bnd', 'Amb']) t.match(status, new RegExp(`^Cap${set}:\\s+0+$`, 'm'), set);
  t.match(status, /^NoNewPrivs:\s+1$/m);
  t.match(status, /^Seccomp:\s+2$/m);

  await machine.sh("sed -i 's|10.42.0.20/32|198.51.100.66/32|' /etc/sallyport/policy/web.yaml");
  await until('the policy to be followed', async () => (await ask(setting, 'outsider', 8080)) === 200);
  t.equal(await ask(setting, 'client', 8080), 403);
  await machine.sh("sed -i 's|198.51.100.66/32|10.42.0.20/32|' /etc/sallyport/policy/web.yaml");
  await until('the policy of before', async () => (await ask(setting, 'client', 8080)) === 200);

  const pid = await shown(setting, 'sallyport', 'MainPID');
  t.equal((await machine.sh('systemctl reload sallyport')).code, 0);
  const journal = async (): Promise<string> => (await machine.sh('journalctl --unit sallyport --output cat')).stdout;
  await until('the reload', async () => (await journal()).includes('SIGHUP; looking at all files'));
  t.equal(await shown(setting, 'sallyport', 'MainPID'), pid, 'a reload ends nothing');

  await machine.sh('kill -KILL $(systemctl show --property MainPID --value sallyport)');
  await until('it to be started again', async () => (await shown(setting, 'sallyport', 'NRestarts')) === '1');
  await until('the proxy', async () => (await ask(setting, 'client', 8080)) === 200);

  await machine.sh('kill -STOP $(systemctl show --property MainPID --value sallyport)');
  const patience = { timeoutMs: 60_000, everyMs: 500 };
  await until('the watchdog', async () => (await shown(setting, 'sallyport', 'NRestarts')) === '2', patience);
  await until('the proxy that turns', async () => (await ask(setting, 'client', 8080)) === 200);

  const wrong = await machine.sh(
    'systemctl stop sallyport; echo SALLYPORT_DETECT_TIMEOUT=soon >> /etc/sallyport/sallyport.env; systemctl start sallyport',
  );
  t.not(wrong.code, 0, 'a bad configuration is no start');
  t.equal(await shown(setting, 'sallyport', 'ActiveState'), 'failed');
  t.equal(await shown(setting, 'sallyport', 'ExecMainStatus'), '64');
  t.match((await machine.sh('journalctl --unit sallyport --output cat')).stdout, /SALLYPORT_DETECT_TIMEOUT.*"soon"/);
  await machine.sh("sed -i '$d' /etc/sallyport/sallyport.env; systemctl start sallyport");
  t.equal(await ask(setting, 'client', 8080), 200);

  t.equal((await machine.sh('systemctl stop sallyport')).code, 0);
  t.equal(await shown(setting, 'sallyport', 'Result'), 'success', 'a stop is drained');
  t.equal(await ask(setting, 'client', 8080), 0);
  t.equal((await machine.sh('systemctl start sallyport')).code, 0);
}

async function listensLow(t: Test, setting: Setting): Promise<void> {
  for (const script of scripts('Ports below 1024')) await follow(t, setting, script);
  t.equal(await ask(setting, 'client', 8080), 200);
  t.equal(await ask(setting, 'client', 80), 403);
}

async function identifies(t: Test, setting: Setting): Promise<void> {
  for (const script of scripts('Identities')) await follow(t, setting, script);
  const key = '/etc/sallyport/identity/web.key';
  t.equal((await setting.machine.sh(`stat --format '%U %a' ${key}`)).stdout, 'root 600\n', "the key is root's alone");
  const name = 'web.shop.serviceaccount.identity.linkerd.cluster.local';
  const there = `openssl s_client -connect 127.0.0.1:8080 -servername ${name} -CAfile /etc/sallyport/identity/ca.crt`;
  const { stdout } = await setting.machine.sh(`echo | ${there} 2>&1 || true`);
  t.match(stdout, /Verify return code: 0 \(ok\)/, 'TLS ends there, with that certificate');
}

async function redirects(t: Test, setting: Setting): Promise<void> {
  const { machine } = setting;
  const [first = '', second = ''] = scripts('Redirect');
  t.equal(await ask(setting, 'client', 3000), 0, 'not reached without rules');
  await follow(t, setting, first);
  t.equal(await ask(setting, 'client', 3000), 200);
  t.equal(await ask(setting, 'outsider', 3000), 403);
  t.equal(await ask(setting, 'client', 9100), 403);
  t.equal(await ask(setting, 'outsider', 3000, address.pod6), 403, 'IPv6 is guarded, too');
  t.equal(await ask(setting, 'outsider', 22), 200, 'SSH is left alone');
  await follow(t, setting, second);
  t.equal(await ask(setting, 'client', 9100), 0, 'left alone by the new flags, and nobody listens there');
  t.equal(await ask(setting, 'client', 3000), 200);

  await machine.sh('systemctl stop sallyport');
  t.equal(await ask(setting, 'client', 3000), 0, 'rules without a proxy refuse');
  t.equal(await ask(setting, 'outsider', 22), 200);
  await machine.sh('systemctl start sallyport');
  await machine.sh('systemctl stop sallyport-redirect');
  t.notMatch((await machine.sh('iptables-nft-save')).stdout, /SALLYPORT|4143/, 'no rule is left');
  await machine.sh('systemctl start sallyport-redirect');
  t.equal(await ask(setting, 'client', 3000), 200);
}

async function upgrades(t: Test, setting: Setting): Promise<void> {
  const [up = '', back = ''] = scripts('Upgrade and roll back');
  const version = async (): Promise<string | undefined> => {
    const { body } = await curl(setting.net.pod, at('127.0.0.1', 4191, '/metrics'));
    return /^sallyport_build_info\{.*version="([^"]*)"/m.exec(body)?.[1];
  };
  for (const [script, expected] of [
    [up, '0.2.0'],
    [back, '0.1.0'],
  ] as const) {
    await follow(t, setting, script);
    t.equal(await version(), expected, 'that version runs');
    t.equal(await ask(setting, 'client', 3000), 200);
    t.equal(await ask(setting, 'outsider', 3000), 403);
  }
}

if (unavailable) {
  t.plan(0, unavailable);
} else {
  t.setTimeout(1_800_000);
  await t.test('the page about virtual machines', { timeout: 1_770_000 }, async (t) => {
    const net = await createPodNetwork(t);
    const machine = await bootMachine(t, net.pod);
    await packed(t, machine.srv);
    await packed(t, machine.srv, '0.2.0');
    const [command = '', ...within] = net.pod.namespace.within;
    await startChild(t, command, [...within, process.execPath, '--eval', app]);
    const setting: Setting = { machine, net };
    await t.test('Install', (t) => installs(t, setting));
    await t.test('Start', (t) => starts(t, setting));
    await t.test('Ports below 1024', (t) => listensLow(t, setting));
    await t.test('Identities', (t) => identifies(t, setting));
    await t.test('Redirect', (t) => redirects(t, setting));
    await t.test('Upgrade and roll back', (t) => upgrades(t, setting));
  });
}
