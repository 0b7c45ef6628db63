import t from 'tap';
import { applyRules, removeRules } from '../../../lib/redirect/apply.ts';
import type { Family } from '../../../lib/redirect/exemptions.ts';
import { RedirectError } from '../../../lib/redirect/redirect-error.ts';
import { nothing, type OwnRules, redirectRules, restoreInput } from '../../../lib/redirect/rules.ts';
import { bothKinds, FakeMachine, type FakeMachineOptions, FakeTable } from './fake-machine.ts';

const wanted = (family: Family): OwnRules =>
  redirectRules({ inboundPort: 4143, exemptPorts: [], exemptSources: [], proxyUid: 2102, ownAddress: true }, family);
const older = (family: Family): OwnRules => {
  const { chains, jumps } = wanted(family);
  return { chains: new Map([...chains].slice(0, 1)), jumps: jumps.slice(0, 1) };
};
const choice = { backend: undefined, ipv6: 'guard', wanted } as const;
const { '-nft': nft, '-legacy': legacy } = bothKinds;

function put(machine: FakeMachine, program: string, rules: OwnRules): void {
  const fault = machine.table(program).restore(restoreInput(nothing, rules) ?? '');
  if (fault !== null) throw new Error(fault);
  machine.table(program).restores = 0;
}

t.test('which programs', async (t) => {
  const rows: [name: string, options: FakeMachineOptions, backend: 'nft' | 'legacy' | undefined, used: string[]][] = [
    ['both: nf_tables', {}, undefined, ['iptables-nft', 'ip6tables-nft']],
    ['legacy alone', { installed: { '-legacy': legacy } }, undefined, ['iptables-legacy', 'ip6tables-legacy']],
    ['asked for', {}, 'legacy', ['iptables-legacy', 'ip6tables-legacy']],
    ['unnamed ones of the new kind', { installed: { '': nft } }, undefined, ['iptables', 'ip6tables']],
    ['unnamed ones of the old kind', { installed: { '': 'v1.6.1' } }, 'legacy', ['iptables', 'ip6tables']],
    [
      'a kernel without nf_tables',
      { refuse: { 'iptables-nft-save': 'Failed to initialize nft: Protocol not supported' } },
      undefined,
      ['iptables-legacy', 'ip6tables-legacy'],
    ],
    [
      'a kernel that lacks a part of nf_tables',
      { refuse: { 'iptables-nft-restore': 'line 5: RULE_INSERT failed (No such file or directory)' } },
      undefined,
      ['iptables-legacy', 'ip6tables-legacy'],
    ],
  ];
  for (const [name, options, backend, used] of rows) {
    const machine = new FakeMachine(options);
    const kind = used[0]?.includes('legacy') || options.installed?.[''] === 'v1.6.1' ? 'legacy' : 'nft';
    t.match(applyRules(machine, { ...choice, backend }), { backend: kind, changed: true, families: [4, 6] }, name);
    const changed = [...machine.tables].filter(([, { restores }]) => restores > 0).map(([program]) => program);
    t.same(changed, used, name);
    t.match(applyRules(machine, { ...choice, backend }), { backend: kind, changed: false }, `${name}: again`);
    t.same(
      [...machine.tables.values()].map(({ restores }) => restores).filter((n) => n > 1),
      [],
      'nothing restored twice',
    );
  }
});

t.test('the legacy programs are not even asked where the kernel has none of their tables', async (t) => {
  const machine = new FakeMachine();
  applyRules(machine, choice);
  removeRules(machine, undefined);
  t.same(
    machine.asked.filter((program) => program.includes('legacy')),
    [],
  );
});

t.test('rules that are there already decide which programs', async (t) => {
  const machine = new FakeMachine();
  put(machine, 'iptables-legacy', older(4));
  t.match(applyRules(machine, choice), { backend: 'legacy', changed: true });
  t.same(machine.table('iptables-nft').restores, 0);
});

t.test('rules of the other kind go when a kind is asked for', async (t) => {
  const machine = new FakeMachine();
  put(machine, 'iptables-legacy', older(4));
  put(machine, 'ip6tables-legacy', older(6));
  t.match(applyRules(machine, { ...choice, backend: 'nft' }), { backend: 'nft', changed: true });
  for (const program of ['iptables-legacy', 'ip6tables-legacy']) {
    t.equal(machine.table(program).save(), new FakeTable().save(), `${program} is empty`);
  }
});

t.test('without IPv6', async (t) => {
  const none = new FakeMachine({ files: { '/proc/self/net/if_inet6': null } });
  t.match(
    applyRules(none, choice),
    { families: [4], notes: [{ code: 'no-ipv6', message: /no IPv6/ }] },
    'a kernel without it is not a failure',
  );
  const lo = '00000000000000000000000000000001 01 80 10 80       lo\n';
  const eth0 = 'fe800000000000000000000000000001 02 40 20 80     eth0\n';
  const rows: readonly (readonly [addresses: string | null, ipv6: 'leave open' | 'refuse', want: object | RegExp])[] = [
    [null, 'refuse', { families: [4], notes: [] }],
    ['', 'refuse', { families: [4, 6], notes: [] }],
    [lo, 'refuse', { families: [4, 6], notes: [] }],
    [lo, 'leave open', { families: [4], notes: [] }],
    [lo + eth0, 'refuse', /^eth0 can be reached over IPv6/],
    [eth0 + eth0 + eth0.replace('eth0', 'net1'), 'refuse', /^eth0, net1 can be reached over IPv6/],
    [
      lo + eth0,
      'leave open',
      { families: [4], notes: [{ code: 'ipv6-open', message: /^eth0 can be reached over IPv6/ }] },
    ],
  ];
  for (const [addresses, ipv6, want] of rows) {
    const machine = new FakeMachine({ files: { '/proc/self/net/if_inet6': addresses } });
    const apply = (): object => applyRules(machine, { ...choice, ipv6 });
    if (want instanceof RegExp) {
      t.throws(apply, { message: want, hint: /--ipv6.*--ipv4-only/ }, `${ipv6}: ${addresses}`);
      t.same(machine.asked, [], 'nothing was touched');
    } else {
      t.match(apply(), want, `${ipv6}: ${addresses}`);
    }
    const guarded = !(want instanceof RegExp) && Object.values(want).flat().includes(6);
    t.equal(machine.asked.includes('ip6tables-nft-restore'), guarded);
  }
});

t.test('IPv6 that nobody asked for may fail, and that is said', async (t) => {
  const lo = '00000000000000000000000000000001 01 80 10 80       lo\n';
  const files = { '/proc/self/net/if_inet6': lo };
  const refuse = { 'ip6tables-nft-restore': 'Could not process rule', 'ip6tables-legacy-restore': 'is not installed' };
  const machine = new FakeMachine({ files, refuse });
  t.match(applyRules(machine, { ...choice, ipv6: 'refuse' }), {
    backend: 'nft',
    families: [4],
    notes: [
      { code: 'ipv6-open', message: /^no interface has IPv6 yet, and one that gets it is open there: ip6tables-nft/ },
    ],
  });
  t.match(machine.table('iptables-nft').save(), /SALLYPORT_INBOUND/);
  t.throws(
    () => applyRules(new FakeMachine({ files, refuse }), choice),
    { name: 'RedirectError' },
    'asked for, it must not',
  );
});

t.test('a kernel that does not tell', async (t) => {
  const unreadable = { fails: 'EACCES' } as const;
  const net = '/proc/self/net';
  const hidden = { [`${net}/dev`]: null, [`${net}/if_inet6`]: null, [`${net}/ip_tables_names`]: null };
  const rows: [name: string, files: NonNullable<FakeMachineOptions['files']>, message: RegExp][] = [
    ['IPv6', { [`${net}/if_inet6`]: unreadable }, /^\/proc\/self\/net\/if_inet6 cannot be read: EACCES$/],
    ['the network', hidden, /^\/proc\/self\/net is not there$/],
    ['the network', { ...hidden, [`${net}/dev`]: unreadable }, /net\/dev cannot be read/],
    ['legacy tables', { [`${net}/ip_tables_names`]: unreadable }, /ip_tables_names cannot be read/],
    ['legacy tables of IPv6', { [`${net}/ip6_tables_names`]: unreadable }, /ip6_tables_names cannot be read/],
    ['its own process', { '/proc/self/status': unreadable }, /status cannot be read/],
  ];
  for (const [name, files, message] of rows) {
    const error = {
      name: 'RedirectError',
      code: 'unreadable-proc',
      message,
      hint: /^run it as root, and mount a \/proc/,
    };
    for (const ipv6 of ['guard', 'refuse', 'leave open'] as const) {
      for (const backend of [undefined, 'nft', 'legacy'] as const) {
        const machine = new FakeMachine({ files });
        t.throws(() => applyRules(machine, { ...choice, backend, ipv6 }), error, `${name}: ${ipv6}, ${backend}`);
        t.same(machine.asked, [], 'nothing was touched');
      }
    }
    if (name === 'IPv6') continue;
    t.throws(() => removeRules(new FakeMachine({ files }), undefined), error, `${name}: removal`);
  }
});

t.test('rules of a family that is no longer guarded go', async (t) => {
  for (const backend of ['nft', 'legacy'] as const) {
    const machine = new FakeMachine();
    applyRules(machine, { ...choice, backend });
    for (const changed of [true, false]) {
      const applied = applyRules(machine, { ...choice, ipv6: 'leave open' });
      t.match(applied, { backend, changed, families: [4] }, backend);
      t.equal(machine.table(`ip6tables-${backend}`).save(), new FakeTable().save(), 'IPv6 has none');
      t.not(machine.table(`iptables-${backend}`).save(), new FakeTable().save(), 'IPv4 has its own');
    }
  }
});

t.test('removal', async (t) => {
  const machine = new FakeMachine();
  t.match(removeRules(machine, undefined), { changed: false, backend: null });
  applyRules(machine, choice);
  put(machine, 'iptables-legacy', older(4));
  t.match(removeRules(machine, undefined), { changed: true });
  for (const [program, table] of machine.tables) t.equal(table.save(), new FakeTable().save(), program);
  t.match(removeRules(machine, undefined), { changed: false });
});

t.test('rules that cannot be seen are not said to be gone', async (t) => {
  const denied = 'iptables-legacy-save: Permission denied (you must be root)';
  const listed = { '/proc/self/net/ip_tables_names': 'nat\n' };
  const hidden = new FakeMachine({ files: listed, refuse: { 'iptables-legacy-save': denied } });
  const said = { code: 'no-net-admin', message: /^iptables-legacy-save: /, hint: /NET_ADMIN and NET_RAW/ };
  t.throws(() => removeRules(hidden, undefined), { name: 'RedirectError', ...said });
  t.match(
    applyRules(hidden, choice),
    { backend: 'nft', changed: true, notes: [said] },
    'nor left unsaid beside new ones',
  );
  t.throws(() => removeRules(hidden, undefined), said);
  t.equal(hidden.table('iptables-nft').save(), new FakeTable().save(), 'what can be removed is');
  t.throws(() => removeRules(new FakeMachine({ refuse: { 'iptables-nft-save': denied } }), undefined), {
    code: 'no-net-admin',
  });
  const without = { 'iptables-nft-save': 'Failed to initialize nft: Protocol not supported' };
  t.match(removeRules(new FakeMachine({ refuse: without }), undefined), { changed: false }, 'no nf_tables, no rules');
});

t.test('half applied is undone', async (t) => {
  for (const before of [nothing, older(4)]) {
    const machine = new FakeMachine({ refuse: { 'ip6tables-nft-restore': 'Could not process rule' } });
    if (before !== nothing) put(machine, 'iptables-nft', before);
    const was = machine.table('iptables-nft').save();
    t.throws(() => applyRules(machine, { ...choice, backend: 'nft' }), { name: 'RedirectError', hint: /nf_tables/ });
    t.equal(machine.table('iptables-nft').restores, 2, 'it had been done');
    t.equal(machine.table('iptables-nft').save(), was, 'and was undone');
  }
});

t.test('errors say what is missing and the remedy', async (t) => {
  const denied = 'iptables-nft-restore v1.8.9 (nf_tables): Permission denied (you must be root)';
  const refuseAll = (said: string): Record<string, string> => ({
    'iptables-nft-save': said,
    'iptables-legacy-save': said,
  });
  const rows: [name: string, options: FakeMachineOptions, backend: 'nft' | 'legacy' | undefined, RegExp, RegExp][] = [
    ['no iptables', { installed: {} }, undefined, /no iptables is installed/, /image.*install the package iptables/],
    [
      'no NET_ADMIN',
      { files: { '/proc/self/status': 'CapEff:\t00000000a80425fb\n' } },
      undefined,
      /NET_ADMIN is missing/,
      /runAsUser: 0, capabilities: \{add: \[NET_ADMIN\]\}/,
    ],
    ['not Linux', { files: { '/proc/self/status': null } }, undefined, /not Linux/, /container/],
    ['not the kind asked for', { installed: { '-nft': nft } }, 'legacy', /iptables-legacy is not installed/, /nft/],
    [
      'the kernel says no',
      { refuse: refuseAll(denied) },
      undefined,
      /Permission denied.*and iptables-legacy-save/,
      /NET_ADMIN/,
    ],
    ['no NET_RAW', { refuse: refuseAll('Permission denied') }, 'legacy', /Permission denied/, /NET_RAW/],
    [
      'a read-only /run',
      { refuse: { 'iptables-legacy-restore': "Fatal: can't open lock file /run/xtables.lock: Read-only file system" } },
      'legacy',
      /xtables.lock/,
      /emptyDir/,
    ],
    [
      'a program of one family only',
      { refuse: { 'ip6tables-nft-save': 'is not installed' } },
      'nft',
      /ip6tables-nft-save: is not installed/,
      /both families/,
    ],
    ['silence', { refuse: { 'iptables-nft-save': '' } }, 'nft', /did not say why/, /^$/],
  ];
  for (const [name, options, backend, message, hint] of rows) {
    const machine = new FakeMachine(options);
    try {
      applyRules(machine, { ...choice, backend });
      t.fail(`${name}: no error`);
    } catch (error) {
      t.ok(error instanceof RedirectError, name);
      t.match(error, { message, hint }, name);
    }
    t.same(
      [...machine.tables.values()].filter((table) => table.save() !== new FakeTable().save()),
      [],
      `${name}: nothing done`,
    );
  }
});
