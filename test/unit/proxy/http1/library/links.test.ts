import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import t from 'tap';
import { isWritableLink } from '../../../../../lib/proxy/http1/library/exchange.ts';

/** What Node itself says: it throws for what it would not write. */
function nodeWrites(link: string): boolean {
  try {
    new ServerResponse(new IncomingMessage(new Socket())).writeEarlyHints({ link });
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_INVALID_ARG_VALUE') throw error;
    return false;
  }
}

/** Every string of up to `length` of the characters that matter, behind a target. */
function* parameters(length: number): Generator<string> {
  const pieces = ['a', '=', '"', ';', ' ', '>'];
  for (let n = 0; n <= length; n++) {
    for (let i = 0; i < pieces.length ** n; i++) {
      let text = '';
      for (let rest = i, at = 0; at < n; at++, rest = Math.floor(rest / pieces.length)) {
        text += pieces[rest % pieces.length];
      }
      yield text;
    }
  }
}

t.test('links that Node writes are those that pass', async (t) => {
  let differing = 0;
  let writable = 0;
  for (const text of parameters(5)) {
    for (const link of [`<x>${text}`, `<x>;a="${text}`]) {
      const expected = nodeWrites(link);
      if (expected) writable++;
      if (isWritableLink(link) === expected) continue;
      differing++;
      t.fail(`${JSON.stringify(link)}: Node ${expected ? 'writes' : 'refuses'} it`);
    }
  }
  t.equal(differing, 0);
  t.ok(writable > 500, `${writable} that are written`);
  for (const link of ['', 'x', '<x', '<>', '<x>; rel=preload; as="style"', '<x>; title="a b"', '<x>\xa0;a']) {
    t.equal(isWritableLink(link), nodeWrites(link), JSON.stringify(link));
  }
});

const large = 64 * 1024;
const fill = (piece: string): string => piece.repeat(Math.floor(large / piece.length));
const costly = [
  ['one parameter of many equals signs', `<x>;${fill('a=')}"`],
  ['many parameters', `<x>${fill(';a=b')}"`],
  ['many quoted parameters', `<x>${fill(';a="b"')}"`],
  ['blanks', `<x>;a${fill(' ')}x`],
  ['blanks behind semicolons', `<x>;${fill(' ')}"`],
  ['a quotation without an end', `<x>;a="${fill('b')}`],
  ['no target', fill('<')],
] as const;

t.test('links of 64 KiB that Node would not write', async (t) => {
  for (const [title, link] of costly) {
    const { user } = process.cpuUsage();
    for (let i = 0; i < 10; i++) t.notOk(isWritableLink(link), title);
    const ms = process.cpuUsage().user / 1000 - user / 1000;
    t.ok(ms < 500, `${title}: ${ms} ms of CPU for ten`);
  }
});
