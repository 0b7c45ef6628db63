import t from 'tap';
import { systemAnswer } from '../../lib/system-answer.ts';

t.test('what the system says, or null', async (t) => {
  const rows: readonly (readonly [() => unknown, unknown])[] = [
    [() => 0, 0],
    [() => undefined, undefined],
    [
      () => {
        throw Object.assign(new Error('too many open files'), { code: 'EMFILE' });
      },
      null,
    ],
  ];
  for (const [ask, answer] of rows) t.equal(systemAnswer(ask), answer);
});
