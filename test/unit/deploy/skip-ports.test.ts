import t from 'tap';
import { parseCommandLine, UsageError } from '../../../bin/arguments.ts';
import { main } from '../../../bin/iptables.ts';
import { ports } from '../../../lib/deploy/option-values.ts';
import fc from '../../support/properties.ts';

function readPorts(given: string, skipped: boolean): { readonly text: string; readonly fault: string | null } {
  const read = ports(skipped)(given, { serviceAccount: null, ports: new Map() });
  return 'fault' in read ? { text: '', fault: read.fault } : { text: read.value, fault: null };
}

/** Whether the redirect step, which runs what `inject` has written, takes the list. */
async function stepTakes(list: string): Promise<boolean> {
  const sink = { write: () => true } as unknown as NodeJS.WriteStream;
  const io = { env: {}, stdin: process.stdin, stdout: sink, stderr: sink };
  try {
    const line = parseCommandLine('iptables', ['--print', '--inbound-port=4143', `--skip-inbound-ports=${list}`]);
    return (await main(line, io)) === 0;
  } catch (error) {
    if (error instanceof UsageError) return false;
    throw error;
  }
}

t.test('what inject takes, the redirect step takes', async (t) => {
  const rows: readonly (readonly [given: string, text: string | RegExp])[] = [
    ['', ''],
    [' , ', ''],
    ['25,', '25'],
    [' 25 , 9000 - 9100 ', '25,9000-9100'],
    ['0025', '25'],
    ['4142,4144', '4142,4144'],
    ['4143', /4143 is where redirected connections arrive/],
    ['1-65535', /4143/],
    ['4100-4200', /4143/],
    ['http', /"http" is neither/],
    ['9-8', /"9-8"/],
    ['65536', /"65536"/],
  ];
  for (const [given, want] of rows) {
    const { text, fault } = readPorts(given, true);
    if (want instanceof RegExp) {
      t.match(fault, want, given);
    } else {
      t.same({ text, fault }, { text: want, fault: null }, given);
      t.ok(await stepTakes(text), `the step takes ${given}`);
    }
  }
  t.equal(readPorts('4143', false).fault, null, 'to other lists that port is as good as any');
});

t.test('any list', async (t) => {
  const port = fc.oneof(fc.integer({ min: 0, max: 65_540 }), fc.constantFrom(1, 4142, 4143, 4144, 4191, 65_535));
  const entry = fc.oneof(
    port.map(String),
    fc.tuple(port, port).map(([a, b]) => `${a}-${b}`),
    fc.constantFrom('', ' ', '-', 'http', '+5', '1e3', '0x10', '٣', '5\n', '5\u00a0', '1-2-3'),
  );
  const list = fc.array(
    fc.tuple(fc.constantFrom('', ' '), entry).map((parts) => parts.join('')),
    { maxLength: 6 },
  );
  await fc.assert(
    fc.asyncProperty(list, async (entries) => {
      const { text, fault } = readPorts(entries.join(','), true);
      if (fault === null) return stepTakes(text);
      return !(await stepTakes(entries.join(',')));
    }),
    { numRuns: 500 },
  );
  t.pass('500 lists');
});
