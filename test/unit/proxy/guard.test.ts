import t, { type Test } from 'tap';
import { eachGuarded, faultsAreHeard, guarded, internalFault, onInternalFault } from '../../../lib/proxy/guard.ts';
import type { InternalFault } from '../../../lib/proxy/recorder.ts';

/** Faults heard so far, as `where: message, ended`. */
function hearing(t: Test): string[] {
  const heard: string[] = [];
  const text = ({ where, error, ended }: InternalFault): string => `${where}: ${(error as Error).message}, ${ended}`;
  t.teardown(onInternalFault((fault) => heard.push(text(fault))));
  return heard;
}

function ending(fate: 'ends' | 'throws' = 'ends'): { ended: number; destroy(): void } {
  return {
    ended: 0,
    destroy() {
      this.ended++;
      if (fate === 'throws') throw new Error('cannot end');
    },
  };
}

t.test('a callback that throws ends what it belongs to, and returns', async (t) => {
  const heard = hearing(t);
  const socket = ending();
  const seen: unknown[] = [];
  const onData = guarded('data', socket, (chunk: string, more?: number) => {
    seen.push(chunk, more);
    if (chunk === 'bad') throw new Error('boom');
  });
  onData('good', 1);
  t.equal(socket.ended, 0);
  onData('bad');
  t.same(seen, ['good', 1, 'bad', undefined], 'arguments go through');
  t.equal(socket.ended, 1);
  t.same(heard, ['data: boom, connection']);
  guarded('timer', null, () => {
    throw new Error('loose');
  })();
  t.same(heard.slice(1), ['timer: loose, nothing'], 'one that belongs to no connection is told all the same');
});

t.test('each has its turn, whatever the others throw', async (t) => {
  const heard = hearing(t);
  const members = [ending(), ending('throws'), ending(), ending()];
  const served: number[] = [];
  eachGuarded('sweep', members, (member) => {
    const place = members.indexOf(member);
    served.push(place);
    if (place === 0 || place === 1) throw new Error(`boom ${place}`);
  });
  t.same(served, [0, 1, 2, 3]);
  t.same(
    members.map(({ ended }) => ended),
    [1, 1, 0, 0],
  );
  t.same(heard, ['sweep: boom 0, connection', 'sweep: boom 1, connection', 'sweep, ending: cannot end, nothing']);
});

t.test('every listener hears, and none after it has left', async (t) => {
  const heard = hearing(t);
  const others: InternalFault[] = [];
  const leave = onInternalFault((fault) => others.push(fault));
  internalFault('one', null, new Error('1'));
  leave();
  internalFault('two', null, new Error('2'));
  t.equal(heard.length, 2);
  t.equal(others.length, 1);
});

t.test('a fault that nobody hears is thrown', async (t) => {
  t.notOk(faultsAreHeard());
  const socket = ending();
  const thrown = new Promise<unknown>((resolve) => {
    process.once('uncaughtException', resolve);
  });
  guarded('data', socket, () => {
    throw new Error('unheard');
  })();
  t.equal(socket.ended, 1);
  t.match(await thrown, { message: 'unheard' });
});
