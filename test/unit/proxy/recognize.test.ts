import { PassThrough } from 'node:stream';
import t from 'tap';
import { ipv6, parseIp } from '../../../lib/ip.ts';
import type { PortPolicy, PortProtocol } from '../../../lib/policy/decision.ts';
import { sourceOf } from '../../../lib/proxy/fairness/sources.ts';
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
    const askers: unknown[] = [];
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
      ip: parseIp('2001:db8:0:1::7'),
      termination: () => ({
        names: new Set([name]),
        accept: (...given: unknown[]) => {
          preferred.push(given[4]);
          askers.push(given[1]);
        },
      }),
    };
    recognize(connection as unknown as Unrecognized);
    protocol = after;
    (reader as FirstReader | null)?.came(hello);
    t.same(preferred, [prefers], `${before}, then ${after}`);
    t.same(askers, [sourceOf(ipv6(0x20010db8, 1, 0, 9))], 'all addresses of its network take one turn');
  }
});
