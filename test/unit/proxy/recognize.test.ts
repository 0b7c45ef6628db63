import { PassThrough } from 'node:stream';
import t from 'tap';
import { parseIp } from '../../../lib/ip.ts';
import type { PortPolicy, PortProtocol } from '../../../lib/policy/decision.ts';
import type { FirstReader } from '../../../lib/proxy/incoming.ts';
import { recognize, type Unrecognized } from '../../../lib/proxy/recognize.ts';
import { helloBytes } from '../../support/client-hello.ts';

const name = 'web.shop';

t.test('policy of the moment says what is agreed on with a client that took its time', async (t) => {
  const hello = await helloBytes(t, name);
  const rows: readonly (readonly [before: PortProtocol, after: PortProtocol, prefers: string])[] = [
    ['http1', 'http1', 'http/1.1'],
    ['http1', 'http2', 'h2'],
    ['detect', 'grpc', 'h2'],
    ['grpc', 'detect', 'http/1.1'],
  ];
  for (const [before, after, prefers] of rows) {
    let protocol = before;
    let reader: FirstReader | null = null;
    const preferred: unknown[] = [];
    const socket = new PassThrough();
    const connection = {
      incoming: {
        socket,
        receive: () => Buffer.alloc(0),
        awaitFirst: (given: FirstReader) => {
          reader = given;
          return true;
        },
      },
      socket,
      detectTimeoutMs: 60_000,
      policy: () => ({ protocol }) as PortPolicy,
      probes: () => ({ silence: false, tls: false }),
      mayHandshake: () => true,
      ip: parseIp('127.0.0.1'),
      termination: () => ({
        names: new Set([name]),
        accept: (...given: unknown[]) => void preferred.push(given[4]),
      }),
    };
    recognize(connection as unknown as Unrecognized);
    protocol = after;
    (reader as FirstReader | null)?.came(hello);
    t.same(preferred, [prefers], `${before}, then ${after}`);
  }
});
