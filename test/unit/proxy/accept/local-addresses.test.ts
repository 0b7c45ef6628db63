import t from 'tap';
import { type IpAddress, parseIp } from '../../../../lib/ip.ts';
import { LocalAddresses } from '../../../../lib/proxy/accept/local-addresses.ts';

t.test('addresses of this machine, as they come and go', async (t) => {
  let [now, reads] = [0, 0];
  let present: string[] | null = ['10.0.0.7', 'fe80::7%eth0', '::ffff:10.0.0.8'];
  const local = new LocalAddresses(
    () => {
      reads++;
      return present;
    },
    () => now,
  );
  const has = (text: string): boolean => local.has(parseIp(text) as IpAddress);
  for (const ours of ['10.0.0.7', '::ffff:10.0.0.7', 'fe80::7', '10.0.0.8']) t.ok(has(ours), ours);
  t.equal(reads, 1);
  for (let i = 0; i < 1000; i++) has(`10.1.${i >> 8}.${i & 255}`);
  t.equal(reads, 1, 'nobody can have them read for each connection');

  present = ['10.0.0.9'];
  now += 250;
  t.ok(has('10.0.0.9'), 'a new one is found soon');
  t.notOk(has('10.0.0.7'), 'and an old one is not kept');
  present = [];
  now += 1000;
  t.ok(has('10.0.0.9'), 'for a moment');
  now += 1500;
  t.notOk(has('10.0.0.9'));

  present = ['10.0.0.9'];
  now += 250;
  t.ok(has('10.0.0.9'));
  present = null;
  now += 2500;
  t.notOk(has('10.0.0.9'), 'none is while nobody can tell');
  present = ['10.0.0.9'];
  now += 250;
  t.ok(has('10.0.0.9'), 'until somebody can');
});
