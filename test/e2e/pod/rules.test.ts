import { join } from 'node:path';
import t, { type Test } from 'tap';
import { runToEnd } from '../../support/children.ts';
import { createNamespace } from '../../support/namespace.ts';
import { podNetworkUnavailable } from '../../support/pod-network.ts';
import { checkout, sallyportCommand } from '../../support/sallyport.ts';

// `sallyport iptables` with the real programs and the real kernel, each time in a namespace of its own.

const unavailable = await podNetworkUnavailable(t);

interface Rules {
  run(command: string, ...args: readonly string[]): ReturnType<typeof runToEnd>;
  pipe(input: string, command: string): ReturnType<typeof runToEnd>;
  iptables(...args: readonly string[]): ReturnType<typeof runToEnd>;
  /** The rules of both families' nat tables, without counters and dates. */
  saved(kind: string): Promise<string>;
}

async function rulesIn(t: Test): Promise<Rules> {
  const { within } = await createNamespace(t);
  const [command = '', ...prefix] = within;
  const run: Rules['run'] = (program, ...args) => runToEnd(t, command, [...prefix, program, ...args]);
  return {
    run,
    pipe: (input, program) => run('sh', '-c', 'printf %s "$1" | $2', 'sh', input, program),
    iptables: (...args) => run(sallyportCommand, 'iptables', ...args),
    saved: async (kind) => {
      const tables = await Promise.all(
        ['iptables', 'ip6tables'].map(async (family) => (await run(`${family}-${kind}-save`, '-t', 'nat')).stdout),
      );
      return tables.map((table) => table.replace(/^#.*\n/gm, '').replace(/\[\d+:\d+\]/g, '')).join('');
    },
  };
}

const flags = [
  '--ipv6',
  '--own-address',
  '--skip-inbound-ports',
  '25,9000-9100',
  '--skip-subnets',
  '10.9.0.0/16,fd00:9::/64',
];

async function appliedAndRemoved(t: Test, kind: string): Promise<void> {
  const { run, iptables, saved } = await rulesIn(t);
  for (const family of ['iptables', 'ip6tables']) {
    for (const rule of ['PREROUTING -p tcp -m tcp --dport 99 -j RETURN', 'OUTPUT -p udp -j RETURN']) {
      t.match(await run(`${family}-${kind}`, '-w', '-t', 'nat', '-A', ...rule.split(' ')), { code: 0 });
    }
  }
  const before = await saved(kind);
  const apply = ['--apply', '--backend', kind, ...flags];

  t.match(await iptables(...apply), { code: 0, stdout: `rules in force (ipv4 and ipv6, ${kind})\n`, stderr: '' });
  const first = await saved(kind);
  t.match(first, /--to-ports 4143/);
  t.match(
    await iptables(...apply, '--json'),
    { code: 0, stdout: /^\{"changed":false,/ },
    'a second time: nothing to do',
  );
  t.equal(await saved(kind), first, 'and nothing done');

  t.match(await iptables('--apply', '--ipv6', '--inbound-port=15006', '--json'), {
    stdout: `{"changed":true,"backend":"${kind}","families":["ipv4","ipv6"],"notes":[]}\n`,
  });
  const changed = await saved(kind);
  t.notMatch(changed, /4143|SALLYPORT_OUTPUT|9000/, 'other flags: nothing of the old rules is left');
  t.match(changed, /--to-ports 15006/);

  t.match(await iptables('--apply', '--remove'), { code: 0, stdout: `rules removed (${kind})\n` });
  t.equal(await saved(kind), before, 'removed: exactly what was there');
  t.match(await iptables('--apply', '--remove'), { code: 0, stdout: 'there were no rules of ours\n' });
}

async function printed(t: Test, kind: string): Promise<void> {
  const { pipe, iptables, saved } = await rulesIn(t);
  t.match(await iptables('--apply', '--backend', kind, ...flags), { code: 0 });
  const applied = await saved(kind);
  t.match(await iptables('--apply', '--remove'), { code: 0 });

  const { stdout } = await iptables('--print', ...flags);
  for (const family of ['iptables', 'ip6tables']) {
    t.match(await pipe(stdout, `${family}-${kind}-restore --noflush`), { code: 0, stderr: '' }, family);
  }
  t.equal(await saved(kind), applied, 'one printed text for both programs is what --apply does');
  const removal = await iptables('--print', '--remove', '--own-address');
  for (const family of ['iptables', 'ip6tables']) {
    t.match(await pipe(removal.stdout, `${family}-${kind}-restore --noflush`), { code: 0, stderr: '' }, family);
  }
  t.notMatch(await saved(kind), /SALLYPORT/);
}

async function switched(t: Test): Promise<void> {
  const { iptables, saved } = await rulesIn(t);
  t.match(await iptables('--apply', '--ipv6', '--backend', 'legacy'), { code: 0 });
  t.match(
    await iptables('--apply', '--ipv6', '--json'),
    { stdout: /"changed":false,"backend":"legacy"/ },
    'found again',
  );
  t.match(await iptables('--apply', '--ipv6', '--backend', 'nft', '--json'), {
    stdout: /"changed":true,"backend":"nft"/,
  });
  t.notMatch(await saved('legacy'), /SALLYPORT/, 'no connection is redirected twice');
  t.match(await saved('nft'), /SALLYPORT/);
}

async function unprivileged(t: Test): Promise<void> {
  const { run, iptables, saved } = await rulesIn(t);
  const as = (capabilities: string): readonly string[] => [`--bounding-set=-all${capabilities}`, '--inh-caps=-all'];
  const without = await run('setpriv', ...as(',+net_raw,+dac_read_search'), sallyportCommand, 'iptables', '--apply');
  t.match(without, {
    code: 1,
    stdout: '',
    stderr: /^sallyport iptables: the capability NET_ADMIN is missing \(.*add: \[NET_ADMIN\]/,
  });
  t.notMatch(await saved('nft'), /SALLYPORT/);
  const alone = await run(
    'setpriv',
    ...as(',+net_admin,+dac_read_search'),
    sallyportCommand,
    'iptables',
    '--apply',
    '--ipv6',
  );
  t.match(alone, { code: 0, stdout: /in force/ }, 'NET_ADMIN is all that it takes');
  t.match(await iptables('--apply', '--ipv6', '--backend', 'legacy'), { code: 0 });
  const apply = [sallyportCommand, 'iptables', '--apply', '--remove'] as const;
  const removal = await run('setpriv', ...as(',+net_admin,+dac_read_search'), ...apply);
  t.match(removal, { code: 1, stdout: '', stderr: /^sallyport iptables: .*-legacy-save: .*NET_ADMIN and NET_RAW/ });
  t.match(await saved('legacy'), /SALLYPORT/, 'what is left is not said to be gone');
}

async function unguardedFamily(t: Test): Promise<void> {
  const { run, iptables } = await rulesIn(t);
  t.match(await iptables('--apply'), { code: 0, stderr: '' }, 'no interface but loopback');
  await run('ip', 'link', 'add', 'eth0', 'type', 'veth', 'peer', 'name', 'eth1');
  await run('ip', 'addr', 'add', 'fd00::7/64', 'dev', 'eth0', 'nodad');
  t.match(await iptables('--apply', '--remove'), { code: 0 });
  const fact = /eth0 can be reached over IPv6, which these rules do not guard/;
  t.match(await iptables('--apply'), { code: 1, stdout: '', stderr: fact }, 'half a guard is none');
  t.match(await iptables('--apply', '--ipv6', '--ipv4-only'), { code: 64 });
  t.match(await iptables('--apply', '--remove'), { code: 0, stdout: /no rules of ours/ }, 'nothing was touched');
  t.match(await iptables('--apply', '--ipv4-only'), { code: 0, stderr: fact }, 'asked for');
  t.match(await iptables('--apply', '--ipv6'), { code: 0, stderr: '' });
  t.match(await run('ip6tables-nft-save', '-t', 'nat'), { stdout: /SALLYPORT/ });
  t.match(await iptables('--apply', '--ipv4-only'), { code: 0, stdout: 'rules in force (ipv4, nft)\n', stderr: fact });
  t.notMatch((await run('ip6tables-nft-save', '-t', 'nat')).stdout, /SALLYPORT/, 'none that nobody has asked for');
  t.match(await run('iptables-nft-save', '-t', 'nat'), { stdout: /SALLYPORT/ });
}

/** As under the units for systemd (ProcSubset=pid), where there is no /proc/net. */
async function processesAlone(t: Test): Promise<void> {
  const { run, saved } = await rulesIn(t);
  await run('ip', 'link', 'add', 'eth0', 'type', 'veth', 'peer', 'name', 'eth1');
  await run('ip', 'link', 'set', 'eth0', 'up');
  await run('ip', 'addr', 'add', 'fd00::7/64', 'dev', 'eth0', 'nodad');
  const mounted = 'mount -t proc -o subset=pid proc /proc && exec "$@"';
  const under = (...command: readonly string[]): ReturnType<typeof runToEnd> =>
    run('unshare', '--mount', 'sh', '-c', mounted, 'sh', ...command);
  t.match(await under('ls', '/proc/net'), { code: 2 }, 'there is no /proc/net');
  const iptables = (...args: readonly string[]): ReturnType<typeof runToEnd> =>
    under(sallyportCommand, 'iptables', ...args);

  t.match(await iptables('--apply'), { code: 1, stdout: '', stderr: /eth0 can be reached over IPv6/ });
  for (const kind of ['nft', 'legacy']) {
    const done = await iptables('--apply', '--ipv6', '--backend', kind);
    t.match(done, { code: 0, stdout: `rules in force (ipv4 and ipv6, ${kind})\n`, stderr: '' });
    t.match(await run(`ip6tables-${kind}-save`, '-t', 'nat'), { stdout: /--to-ports 4143/ });
  }
  t.match(await iptables('--apply', '--remove'), { code: 0, stdout: 'rules removed (legacy)\n' });
  for (const kind of ['nft', 'legacy']) t.notMatch(await saved(kind), /SALLYPORT/, `${kind}: none is left`);

  // The proxy's own unit hides it, too.
  await run('ip', 'addr', 'add', '10.42.0.7/24', 'dev', 'eth0');
  await run('ip', 'link', 'set', 'eth1', 'up');
  for (const gateway of ['10.42.0.1', 'fd00::1']) {
    t.match(await run('ip', 'route', 'add', 'default', 'via', gateway), { code: 0 });
  }
  const host = `import { thisHost } from '${join(checkout, 'lib/config/host.ts')}'; console.log(thisHost.gateways().join());`;
  const gateways = await under(process.execPath, '--input-type=module', '--eval', host);
  t.match(gateways, { code: 0, stdout: '10.42.0.1,fd00:0000:0000:0000:0000:0000:0000:0001\n' }, 'default gateways');
}

if (unavailable) {
  t.plan(0, unavailable);
} else {
  for (const kind of ['nft', 'legacy']) {
    await t.test(`${kind}: applied, changed, removed`, { timeout: 840_000 }, (t) => appliedAndRemoved(t, kind));
    await t.test(`${kind}: printed`, { timeout: 840_000 }, (t) => printed(t, kind));
  }
  await t.test('from legacy to nft', { timeout: 840_000 }, switched);
  await t.test('with less than NET_ADMIN', { timeout: 840_000 }, unprivileged);
  await t.test('a /proc of processes alone', { timeout: 840_000 }, processesAlone);
  await t.test('a family without rules', { timeout: 840_000 }, unguardedFamily);
}
