import t from 'tap';
import { remembered } from '../../lib/remembered.ts';

t.test('a function is not asked again about the same text', (t) => {
  const asked: string[] = [];
  const length = remembered((text) => {
    asked.push(text);
    return text.length;
  });
  for (const [text, times] of [
    ['/a', 1],
    ['/a', 1],
    [['/', 'a'].join(''), 1],
    ['/b', 2],
    ['/bc', 3],
    ['/a', 4],
    ['', 5],
    ['', 5],
  ] as const) {
    t.equal(length(text), text.length);
    t.equal(asked.length, times, `${JSON.stringify(text)} after ${JSON.stringify(asked)}`);
  }
  t.end();
});

t.test('nothing is remembered where it throws', (t) => {
  const faulty = remembered((text): string => {
    if (text === 'bad') throw new Error('bad');
    return text;
  });
  t.equal(faulty('good'), 'good');
  t.throws(() => faulty('bad'));
  t.throws(() => faulty('bad'));
  t.equal(faulty('good'), 'good');
  t.end();
});
