import t from 'tap';
import {
  type LostBy,
  maySendAgain,
  type Repeatable,
  repeatable,
  sendingLost,
} from '../../../../lib/proxy/http/retry.ts';

t.test('what a request may be lost to', async (t) => {
  const rows: readonly (readonly [method: string, hasContent: boolean, expected: Repeatable])[] = [
    ...['GET', 'HEAD', 'OPTIONS', 'TRACE', 'PUT', 'DELETE'].flatMap((method) => [
      [method, false, 'unprocessed or idle'] as const,
      [method, true, 'never'] as const,
    ]),
    // CONNECT and what nobody knows may do something each time; so may a method in the wrong case.
    ...['POST', 'PATCH', 'CONNECT', 'PROPFIND', 'get', ''].flatMap((method) => [
      [method, false, 'unprocessed'] as const,
      [method, true, 'never'] as const,
    ]),
  ];
  for (const [method, hasContent, expected] of rows) {
    t.equal(repeatable(method, hasContent), expected, `${method}${hasContent ? ' with content' : ''}`);
  }
});

t.test('by what it was lost', async (t) => {
  const rows: readonly (readonly [uses: number, responding: boolean, unsent: boolean, expected: LostBy])[] = [
    [0, false, false, 'other'],
    [1, false, false, 'other'],
    [1, true, false, 'other'],
    [2, false, false, 'idle'],
    [2, true, false, 'other'],
    [100, false, false, 'idle'],
    [2, false, true, 'unprocessed'],
  ];
  for (const [uses, responding, unsent, expected] of rows)
    t.equal(sendingLost({ uses, responding, unsent }), expected, `${uses} ${responding} ${unsent}`);
  t.equal(sendingLost(null), 'other', 'no connection at all');
});

t.test('whether it is sent again', async (t) => {
  const rows: readonly (readonly [request: Repeatable, loss: LostBy, expected: boolean])[] = [
    ['never', 'unprocessed', false],
    ['never', 'idle', false],
    ['never', 'other', false],
    ['unprocessed', 'unprocessed', true],
    ['unprocessed', 'idle', false],
    ['unprocessed', 'other', false],
    ['unprocessed or idle', 'unprocessed', true],
    ['unprocessed or idle', 'idle', true],
    ['unprocessed or idle', 'other', false],
  ];
  for (const [request, loss, expected] of rows) t.equal(maySendAgain(request, loss), expected, `${request}: ${loss}`);
});
