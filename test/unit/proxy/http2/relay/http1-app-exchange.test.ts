import type { Socket } from 'node:net';
import t from 'tap';
import type { AppConnection } from '../../../../../lib/proxy/http1/app-connection.ts';
import type { AppPool } from '../../../../../lib/proxy/http1/app-pool.ts';
import { Http1Side } from '../../../../../lib/proxy/http2/relay/http1-app-exchange.ts';
import type { Relay } from '../../../../../lib/proxy/http2/relay/relay.ts';
import { admittedForNow } from '../../../../support/waiting.ts';

type Step = readonly ['content', bytes: number] | readonly ['written'];

/** What the budget is told after each step of an upload. */
const steps: readonly { readonly title: string; readonly step: Step; readonly held: number; readonly taken: number }[] =
  [
    { title: 'what is being written may be over soon', step: ['content', 10], held: 0, taken: 0 },
    { title: 'what comes behind it waits, and so does that', step: ['content', 20], held: 10 + 20 + 256, taken: 0 },
    { title: 'more of it', step: ['content', 5], held: 10 + 20 + 256 + 4096 + 256, taken: 0 },
    { title: 'what has waited is being written', step: ['written'], held: 25, taken: 10 },
    { title: 'and more waits again', step: ['content', 7], held: 25 + 7 + 256, taken: 10 },
    { title: 'which is written alone', step: ['written'], held: 7, taken: 35 },
    { title: 'nothing waits', step: ['written'], held: 0, taken: 42 },
  ];

t.test('content that the app has not taken counts until it has', async (t) => {
  const writes: (() => void)[] = [];
  const socket = {
    cork: () => {},
    uncork: () => {},
    write: (_data: unknown, _encoding?: unknown, done?: () => void) => done !== undefined && writes.push(done),
  } as unknown as Socket;
  const app = { socket, begin: () => {} } as unknown as AppConnection;
  const pool = { take: () => app } as unknown as AppPool;
  let held = 0;
  let taken = 0;
  const relay = {
    hasContent: true,
    isComplete: false,
    contentLength: 100,
    method: 'POST',
    requestHead: 'POST / HTTP/1.1\r\n\r\n',
    holds: (bytes: number) => {
      held = bytes;
    },
    taken: (bytes: number) => {
      taken += bytes;
    },
  } as unknown as Relay<string>;
  const exchange = new Http1Side(pool, 'HTTP/1.1').open(relay, admittedForNow, false);
  for (const { title, step, ...expected } of steps) {
    if (step[0] === 'content') exchange?.content(Buffer.alloc(step[1]), 0, step[1], false);
    else writes.shift()?.();
    t.same({ held, taken }, expected, title);
  }
});
