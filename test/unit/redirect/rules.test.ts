import t from 'tap';
import {
  nothing,
  type OwnRules,
  ownRulesIn,
  printedRules,
  type RedirectOptions,
  redirectRules,
  restoreInput,
  sameRules,
} from '../../../lib/redirect/rules.ts';
import { FakeTable } from './fake-machine.ts';

const plain: RedirectOptions = {
  inboundPort: 4143,
  exemptPorts: [{ first: 4191, last: 4192 }],
  exemptSources: [],
  proxyUid: 2102,
  ownAddress: false,
};
const rich: RedirectOptions = {
  ...plain,
  inboundPort: 4144,
  exemptPorts: [
    { first: 9000, last: 9100 },
    { first: 25, last: 25 },
    { first: 4191, last: 4191 },
  ],
  exemptSources: [
    { family: 4, cidr: '10.1.0.0/16' },
    { family: 6, cidr: 'fd00:1::/32' },
  ],
  ownAddress: true,
};

t.test('the rules, to the letter', async (t) => {
  t.equal(
    printedRules(plain, [4]),
    `*nat
:SALLYPORT_INBOUND - [0:0]
-A SALLYPORT_INBOUND -p tcp -m multiport --dports 4191:4192 -j RETURN
-A SALLYPORT_INBOUND -p tcp -j REDIRECT --to-ports 4143
-I PREROUTING 1 -p tcp -j SALLYPORT_INBOUND
COMMIT
`,
  );
  t.equal(
    printedRules(rich, [4, 6]),
    `*nat
:SALLYPORT_INBOUND - [0:0]
:SALLYPORT_OUTPUT - [0:0]
-A SALLYPORT_INBOUND -p tcp -m multiport --dports 25,4191,9000:9100 -j RETURN
-4 -A SALLYPORT_INBOUND -s 10.1.0.0/16 -j RETURN
-6 -A SALLYPORT_INBOUND -s fd00:1::/32 -j RETURN
-A SALLYPORT_INBOUND -p tcp -j REDIRECT --to-ports 4144
-A SALLYPORT_OUTPUT -m owner --uid-owner 2102 -j RETURN
-4 -A SALLYPORT_OUTPUT -d 127.0.0.0/8 -j RETURN
-6 -A SALLYPORT_OUTPUT -d ::1/128 -j RETURN
-A SALLYPORT_OUTPUT -p tcp -m multiport --dports 25,4191,9000:9100 -j RETURN
-A SALLYPORT_OUTPUT -p tcp -m addrtype --dst-type LOCAL -j REDIRECT --to-ports 4144
-I PREROUTING 1 -p tcp -j SALLYPORT_INBOUND
-I OUTPUT 1 -p tcp -j SALLYPORT_OUTPUT
COMMIT
`,
  );
  const bare = { ...plain, exemptPorts: [] };
  t.same(
    redirectRules(bare, 6).chains.get('SALLYPORT_INBOUND'),
    ['-p tcp -j REDIRECT --to-ports 4143'],
    'no exemption',
  );
});

/** A table in which other programs have rules of their own. */
function tableOfOthers(): FakeTable {
  const table = new FakeTable();
  table.chains.get('PREROUTING')?.push('-p tcp -m tcp --dport 99 -j RETURN');
  table.chains.get('OUTPUT')?.push('-p udp -j OTHERS');
  // Its name begins like ours; it is not.
  table.chains.set('SALLYPORT_INBOUND_OF_OTHERS', ['-j RETURN']);
  table.chains.set('OTHERS', ['-p udp -j RETURN']);
  return table;
}

const states: [name: string, rules: OwnRules][] = [
  ['nothing', nothing],
  ['plain', redirectRules(plain, 4)],
  ['rich', redirectRules(rich, 4)],
  ['rich, IPv6', redirectRules(rich, 6)],
];

t.test('from every state to every other, in one restore, the rest of the table untouched', async (t) => {
  for (const [from, before] of states) {
    for (const [to, after] of states) {
      const table = tableOfOthers();
      const others = table.save();
      const first = restoreInput(nothing, before);
      if (first !== null) t.equal(table.restore(first), null);
      const input = restoreInput(ownRulesIn(table.save()), after);
      if (sameRules(before, after)) t.equal(input, null, `${from} → ${to}: nothing to do`);
      else t.equal(table.restore(input ?? ''), null, `${from} → ${to}: ${input}`);
      t.ok(sameRules(ownRulesIn(table.save()), after), `${from} → ${to}: as wanted`);
      const removal = restoreInput(ownRulesIn(table.save()), nothing);
      if (removal !== null) t.equal(table.restore(removal), null);
      t.equal(table.save(), others, `${from} → ${to}: removed without a trace`);
    }
  }
});

t.test('jumps that others have moved or doubled', async (t) => {
  const wanted = redirectRules(rich, 4);
  const jump = '-p tcp -j SALLYPORT_INBOUND';
  const rows: [name: string, prerouting: string[]][] = [
    ['a rule of another program has come before ours', ['-p tcp -j OTHERS', jump]],
    ['ours is there twice', [jump, '-p tcp -j OTHERS', jump]],
    ['ours is gone', ['-p tcp -j OTHERS']],
    ['ours matches more than ours would', ['-j SALLYPORT_INBOUND', '-p tcp -j OTHERS']],
    ['ours is a goto', ['-p tcp -g SALLYPORT_INBOUND', '-p tcp -j OTHERS']],
  ];
  for (const [name, prerouting] of rows) {
    const table = new FakeTable();
    table.chains.set('OTHERS', []);
    t.equal(table.restore(restoreInput(nothing, wanted) ?? ''), null);
    table.chains.set('PREROUTING', [...prerouting]);
    const before = ownRulesIn(table.save());
    t.equal(table.restore(restoreInput(before, wanted) ?? ''), null, name);
    t.ok(sameRules(ownRulesIn(table.save()), wanted), `${name}: put right`);
    const back = restoreInput(ownRulesIn(table.save()), before);
    t.equal(table.restore(back ?? ''), null);
    t.same(table.chains.get('PREROUTING'), prerouting, `${name}: and back as it was`);
  }
});

t.test('the printed text is what is applied', async (t) => {
  for (const family of [4, 6] as const) {
    const mine = printedRules(rich, [4, 6])
      .split('\n')
      .filter((line) => !line.startsWith(family === 4 ? '-6' : '-4'))
      .map((line) => line.replace(/^-[46] /, ''));
    t.equal(mine.join('\n'), restoreInput(nothing, redirectRules(rich, family)));
  }
});
