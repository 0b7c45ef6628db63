import t from 'tap';
import { type Asker, FairQueue } from '../../../../lib/proxy/fairness/fair-queue.ts';
import fc from '../../../support/properties.ts';

/** As it is said: a list for each asker, and the askers one after the other. */
class Plain {
  readonly #lists: { readonly asker: Asker; readonly items: number[] }[] = [];

  add(asker: Asker, item: number): void {
    const list = this.#lists.find((each) => each.asker === asker);
    if (list === undefined) this.#lists.push({ asker, items: [item] });
    else list.items.push(item);
  }

  take(): number | null {
    const list = this.#lists.shift();
    if (list === undefined) return null;
    const item = list.items.shift() as number;
    if (list.items.length > 0) this.#lists.push(list);
    return item;
  }
}

t.test('each asker has its turn, whatever comes and goes', async (t) => {
  const steps = fc.array(fc.option(fc.nat(5)), { maxLength: 80 });
  fc.assert(
    fc.property(steps, (list) => {
      const [queue, plain] = [new FairQueue<number>(), new Plain()];
      let size = 0;
      return list.every((asker, item) => {
        if (asker !== null) {
          queue.add(asker, item);
          plain.add(asker, item);
          size++;
          return queue.size === size;
        }
        const taken = queue.take();
        if (taken !== null) size--;
        return taken === plain.take() && queue.size === size;
      });
    }),
  );
  t.pass();
});

t.test('askers who have gone are forgotten, those who wait are not', async (t) => {
  const queue = new FairQueue<string>();
  queue.add('waits', 'first');
  queue.add('waits', 'second');
  t.equal(queue.take(), 'first');
  for (let asker = 0; asker < 10_000; asker++) {
    queue.add(asker, `of ${asker}`);
    queue.take();
    queue.take();
    queue.add('waits', 'again');
  }
  t.equal(queue.take(), 'again');
  t.ok(queue.known < 2_000, `${queue.known} askers known`);
});
