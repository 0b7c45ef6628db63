import { Registry } from 'prom-client';
import t from 'tap';
import { limitVariables } from '../../../lib/config/limit-variables.ts';
import { limitNames } from '../../../lib/proxy/limits.ts';
import { ClientLines } from '../../../lib/telemetry/client-lines.ts';
import { Families } from '../../../lib/telemetry/figures.ts';
import { LimitMetrics } from '../../../lib/telemetry/limit-metrics.ts';
import { openGate } from '../../../lib/telemetry/line-gate.ts';
import { LineRules } from '../../../lib/telemetry/line-rules.ts';

t.test('every variable has its metric, and the few other metrics are known', async (t) => {
  const ofVariables = Object.keys(limitVariables).map((name) => name.replace('SALLYPORT_', '').toLowerCase());
  const others = ['client_certificate', 'descriptors', 'http2_overhead', 'memory', 'tls_key_updates'];
  t.same([...limitNames].sort(), [...ofVariables, ...others].sort());
});

t.test('counts each time, and tells every ten seconds', async (t) => {
  const lines: [level: string, fields: object][] = [];
  const log = {
    warn: (fields: object) => lines.push(['warn', fields]),
    debug: (fields: object) => lines.push(['debug', fields]),
    isLevelEnabled: (level: string) => level !== 'debug' || isDebugging,
  };
  let now = 0;
  let isDebugging = false;
  const registry = new Registry();
  const metrics = new LimitMetrics(
    new Families(registry),
    new ClientLines({ log: log as never, nowMs: () => now, gate: openGate, rules: new LineRules() }),
  );
  const shown = async (limit: string): Promise<string | undefined> =>
    new RegExp(`^sallyport_limit_reached_total{limit="${limit}"} (\\d+)$`, 'm').exec(await registry.metrics())?.[1];
  for (const limit of limitNames) t.equal(await shown(limit), '0', `${limit} is there from the start`);

  for (let i = 0; i < 1000; i++) metrics.reached('max_connections', '10.1.2.3');
  metrics.reached('max_in_flight', null);
  isDebugging = true;
  metrics.reached('http1_idle_timeout', '10.1.2.4');
  isDebugging = false;
  t.equal(await shown('max_connections'), '1000');
  t.same(lines, [
    ['warn', { code: 'limit-reached', limit: 'max_connections', times: 1, client: { ip: '10.1.2.3' } }],
    ['warn', { code: 'limit-reached', limit: 'max_in_flight', times: 1 }],
    ['debug', { code: 'limit-reached', limit: 'http1_idle_timeout', times: 1, client: { ip: '10.1.2.4' } }],
  ]);
  now = 10_000;
  metrics.reached('max_connections', '10.1.2.5');
  t.same(lines.at(-1), [
    'warn',
    { code: 'limit-reached', limit: 'max_connections', times: 1000, client: { ip: '10.1.2.5' } },
  ]);
});
