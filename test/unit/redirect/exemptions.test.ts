import t from 'tap';
import { portRanges } from '../../../lib/config/values.ts';
import { isEveryPort, mergeRanges, multiportLists, subnets } from '../../../lib/redirect/exemptions.ts';

t.test('port lists', async (t) => {
  const rows: [given: string, value: [number, number][] | RegExp][] = [
    ['25', [[25, 25]]],
    [
      '25, 9000-9100,',
      [
        [25, 25],
        [9000, 9100],
      ],
    ],
    ['9000 - 9100', [[9000, 9100]]],
    ['7-7', [[7, 7]]],
    ['1-65535', [[1, 65_535]]],
    ['', []],
    ['0', /"0" is neither a port .*nor .*range/],
    ['65536', /65536/],
    ['9100-9000', /9100-9000/],
    ['1-2-3', /1-2-3/],
    ['-5', /"-5"/],
    ['5-', /"5-"/],
    ['http', /"http"/],
    ['25:30', /"25:30"/],
    ['25;-j ACCEPT', /ACCEPT/],
  ];
  for (const [given, expected] of rows) {
    const parsed = portRanges(given);
    if (expected instanceof RegExp) t.match(parsed, { fault: expected, hint: /ports and ranges/ }, given);
    else t.same(parsed, { value: expected.map(([first, last]) => ({ first, last })) }, given);
  }
});

t.test('subnets', async (t) => {
  const rows: [given: string, value: [4 | 6, string][] | RegExp][] = [
    ['10.1.2.3/8', [[4, '10.0.0.0/8']]],
    ['10.1.2.3', [[4, '10.1.2.3/32']]],
    ['10.1.2.255/25', [[4, '10.1.2.128/25']]],
    [
      'fd00:0:0::7/64, ::1',
      [
        [6, 'fd00::/64'],
        [6, '::1/128'],
      ],
    ],
    ['0.0.0.0/0', /every address/],
    ['::/0', /every address/],
    ['0.0.0.0/1,128.0.0.0/1', /every IPv4 address/],
    ['128.0.0.0/2, 0.0.0.0/2, 64.0.0.0/2, 192.0.0.0/3', /every IPv4 address/],
    ['fd00::/64,0.0.0.0/2,64.0.0.0/2,128.0.0.0/1', /every IPv4 address/],
    ['::/1,8000::/1', /every IPv6 address/],
    ['2000::/3,fc00::/7', /every IPv6 address/],
    ['2000::/4,3000::/4,fd00::/8,fc00::/8', /every IPv6 address/],
    [
      '0.0.0.0/1,128.0.0.0/2',
      [
        [4, '0.0.0.0/1'],
        [4, '128.0.0.0/2'],
      ],
    ],
    ['2000::/3', [[6, '2000::/3']]],
    ['10.0.0.0/33', /not a network/],
    ['fd00::/129', /not a network/],
    ['10.0.0.0/8/8', /not a network/],
    ['10.0.0/8', /not a network/],
    ['10.0.0.0/', /not a network/],
    ['10.0.0.0/8.5', /not a network/],
    ['::ffff:10.0.0.1', /not a network/],
    ['web', /not a network/],
  ];
  for (const [given, expected] of rows) {
    const parsed = subnets(given);
    if (expected instanceof RegExp) t.match(parsed, { fault: expected, hint: /.+/ }, given);
    else t.same(parsed, { value: expected.map(([family, cidr]) => ({ family, cidr })) }, given);
  }
});

t.test('every port but that of the redirect', async (t) => {
  const rows: [given: string, all: boolean][] = [
    ['1-4142,4144-65535', true],
    ['4144-65535,1-2000,2000-4142', true],
    ['1-4142', false],
    ['2-4142,4144-65535', false],
    ['1-4142,4144-65534', false],
    ['', false],
  ];
  for (const [given, all] of rows) {
    const parsed = portRanges(given);
    t.equal('value' in parsed && isEveryPort(parsed.value, 4143), all, given);
  }
});

t.test('ranges that overlap or touch become one', async (t) => {
  const merged = (text: string): string => {
    const parsed = portRanges(text);
    if ('fault' in parsed) throw new Error(parsed.fault);
    return mergeRanges(parsed.value)
      .map(({ first, last }) => `${first}-${last}`)
      .join(',');
  };
  t.equal(merged('5,4191,4192,1-3,2-4'), '1-5,4191-4192');
  t.equal(merged('10-20,12-13,30'), '10-20,30-30');
  t.equal(merged(''), '');
});

t.test('at most 15 ports in a rule, a range counting as two', async (t) => {
  const single = (count: number, from = 1): { first: number; last: number }[] =>
    Array.from({ length: count }, (_, i) => ({ first: from + 2 * i, last: from + 2 * i }));
  const rows: [name: string, ranges: { first: number; last: number }[], lists: number[]][] = [
    ['none', [], []],
    ['15 single ports', single(15), [15]],
    ['16 single ports', single(16), [15, 1]],
    ['7 ranges and one port', [...single(7).map(({ first }) => ({ first, last: first + 1 })), ...single(1, 99)], [8]],
    ['8 ranges', single(8).map(({ first }) => ({ first, last: first + 1 })), [7, 1]],
    ['14 ports and a range', [...single(14), { first: 100, last: 200 }], [14, 1]],
    ['40 ports', single(40), [15, 15, 10]],
  ];
  for (const [name, ranges, expected] of rows) {
    const lists = multiportLists(ranges);
    t.same(
      lists.map((list) => list.split(',').length),
      expected,
      name,
    );
    t.equal(lists.join(','), ranges.map(({ first, last }) => (first === last ? first : `${first}:${last}`)).join(','));
  }
});
