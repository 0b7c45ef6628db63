import t from 'tap';
import { onInternalFault } from '../../../../lib/proxy/guard.ts';
import { get, runScenarios, type Scenario, stage } from '../../../support/lane-stage.ts';
import type { LaneOptions } from '../../../support/lanes.ts';
import { latin1 } from '../../../support/raw-http.ts';
import { until } from '../../../support/until.ts';

/*
 * A fault of ours ends the connection that it belongs to, and nothing else; it is told, never swallowed, and never taken
 * for the app's or the client's.
 */

const boom = (what: string): never => {
  throw new Error(`a fault of ours: ${what}`);
};

/** Where something of ours throws, and a request that gets there. */
const rows: readonly (readonly [title: string, faulty: Partial<LaneOptions>, request: string])[] = [
  [
    'in a decision',
    { onDecided: (request) => (request.endsWith('/fault') ? boom('deciding') : undefined) },
    'GET /fault HTTP/1.1\r\nHost: a\r\n\r\n',
  ],
  [
    'in the decision of a pipelined request',
    { onDecided: (request) => (request.endsWith('/fault') ? boom('deciding') : undefined) },
    'GET /DENIED HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(40).concat('GET /fault HTTP/1.1\r\nHost: a\r\n\r\n'),
  ],
  [
    'in a response',
    { access: (_facts, { uri }) => (uri === '/fault' ? boom('logging') : undefined) },
    'GET /fault HTTP/1.1\r\nHost: a\r\n\r\n',
  ],
  [
    'in a refusal',
    { access: (_facts, { uri }) => (uri === '/DENIED' ? boom('logging') : undefined) },
    'GET /DENIED HTTP/1.1\r\nHost: a\r\n\r\n',
  ],
  [
    'in a response to chunks',
    { access: (_facts, { uri }) => (uri === '/fault' ? boom('logging') : undefined) },
    'POST /fault HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n',
  ],
  [
    'in the decision of an upgrade',
    { onDecided: (request) => (request.endsWith('/fault') ? boom('deciding') : undefined) },
    'GET /fault HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n',
  ],
  [
    'in a response to an upgrade',
    { access: (_facts, { uri }) => (uri === '/fault' ? boom('logging') : undefined) },
    'GET /fault HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n',
  ],
  [
    'in a response to another upgrade',
    { access: (_facts, { uri }) => (uri === '/fault' ? boom('logging') : undefined) },
    'GET /fault HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: chat\r\n\r\n',
  ],
];

const scenarios: Scenario[] = rows.map(([title, faulty, request]) => ({
  name: title,
  run: async (t, engine) => {
    const heard: string[] = [];
    t.teardown(onInternalFault(({ where, error, ended }) => heard.push(`${where}: ${error} (${ended})`)));
    const { open, lane } = await stage(t, engine, {}, faulty);
    const bystander = await open();
    bystander.send(get('/'));
    await bystander.responses(['GET']);
    const client = await open();
    client.send(latin1(request));
    t.ok(await until('the end of the connection', () => client.ended), 'its connection ends');
    t.ok(heard.length >= 1 && heard.every((fault) => fault.includes('a fault of ours')), heard.join('\n'));
    t.match(heard[0], /\(connection\)$/);
    bystander.send(get('/again'));
    const [, second] = await bystander.responses(['GET', 'GET']);
    t.equal(second?.status, 200, 'another connection goes on');
    bystander.destroy();
    await until('all to be over', () => lane.live.size === 0);
    // Where the fault was in counting the request in, there is none to count out.
    await until('all to be counted out', () => lane.counts.ended === lane.counts.started);
  },
}));

await runScenarios(t, scenarios);
