import t from 'tap';
import { runSallyport } from '../../support/sallyport.ts';

t.test('printing', async (t) => {
  const rows: [args: string[], stdout: RegExp][] = [
    [
      [],
      /^\*nat\n:SALLYPORT_INBOUND - \[0:0\]\n.*--dports 4191:4192 -j RETURN\n.*--to-ports 4143\n-I PREROUTING 1 .*\nCOMMIT\n$/,
    ],
    [['--print', '--inbound-port=15006'], /--to-ports 15006\n/],
    [['--admin-port=off', '--health-port', 'off'], /^(?!.*multiport)/s],
    [['--skip-inbound-ports=25,4191-4200'], /--dports 25,4191:4200 -j RETURN\n/],
    [['--own-address', '--proxy-uid=1001'], /-A SALLYPORT_OUTPUT -m owner --uid-owner 1001 -j RETURN\n/],
    [['--skip-subnets=10.0.0.0/8,fd00::/8'], /-A SALLYPORT_INBOUND -s 10\.0\.0\.0\/8 -j RETURN\n(?!.*fd00)/s],
    [['--ipv6', '--skip-subnets=fd00::/8'], /\n-6 -A SALLYPORT_INBOUND -s fd00::\/8 -j RETURN\n/],
    [['--remove'], /^\*nat\n:SALLYPORT_INBOUND .*\n-D PREROUTING .*\n-X SALLYPORT_INBOUND\nCOMMIT\n$/],
    [['--json', '--ipv6'], /^\{"families":\["ipv4","ipv6"\],"input":"\*nat\\n.*COMMIT\\n"\}\n$/],
  ];
  for (const [args, stdout] of rows) {
    t.match(await runSallyport(t, ['iptables', ...args]), { code: 0, stdout, stderr: '' }, args.join(' '));
  }
});

t.test('usage', async (t) => {
  const rows: [args: string[], stderr: RegExp][] = [
    [['--print', '--apply'], /--print and --apply exclude each other/],
    [['--inbound-port=0'], /--inbound-port: "0" is not a port/],
    [['--skip-inbound-ports=http'], /--skip-inbound-ports: "http" is neither a port from 1 to 65535 nor/],
    [['--skip-inbound-ports=4000-5000'], /4143 is the inbound port and cannot be left alone as well/],
    [['--admin-port=4143'], /4143 is the inbound port/],
    [['--skip-subnets=::/0'], /--skip-subnets: ::\/0 is every address/],
    [['--proxy-uid=proxy'], /--proxy-uid: "proxy" is not a user id/],
    [['--proxy-uid=4294967295'], /is not a user id/],
    [['--backend=ipfw'], /--backend: "ipfw" is not known \(one of nft, legacy\)/],
    [['--skip-outbound-ports=25'], /unknown flag --skip-outbound-ports/],
    [['8080'], /unexpected argument "8080" \(it takes flags alone\)/],
  ];
  for (const [args, stderr] of rows) {
    t.match(await runSallyport(t, ['iptables', ...args]), { code: 64, stdout: '', stderr }, args.join(' '));
  }
});
