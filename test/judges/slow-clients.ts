import { Agent, request } from 'node:http';
import { openServer, policyEnvironment } from '../support/open-policy.ts';
import { freePort } from '../support/ports.ts';
import { startSallyport } from '../support/sallyport.ts';
import { startSniffingApp } from '../support/sniffing-app.ts';
import { installed, type Judge, run } from './stage.ts';

/** Heads that drip, bodies that drip, answers that nobody reads: 500 connections each, for twenty seconds. */
const attacks: readonly (readonly [name: string, flags: readonly string[]])[] = [
  ['slow heads', ['-H', '-i', '1', '-x', '24']],
  ['slow bodies', ['-B', '-i', '1', '-s', '8192', '-x', '24', '-t', 'POST']],
  ['slow reading', ['-X', '-w', '10', '-y', '20', '-n', '1', '-z', '32', '-k', '3']],
];

/** slowhttptest's attacks, while somebody else is to be served as if there were none. */
export const slowClients: Judge = {
  name: 'slowhttptest',
  prepare: () => installed('slowhttptest'),
  async judge(stage) {
    const app = await startSniffingApp(stage);
    const port = await freePort();
    await startSallyport(stage, {
      env: {
        ...policyEnvironment(stage.folder, openServer('web', port)),
        SALLYPORT_INBOUND_PORTS: `${port}=127.0.0.1:${app.port}`,
      },
    });
    const failed: string[] = [];
    const waits: number[] = [];
    for (const [name, flags] of attacks) {
      const common = ['-c', '500', '-r', '250', '-l', '20', '-p', '3', '-u', `http://127.0.0.1:${port}/`];
      const attack = { over: false };
      const attacking = run('slowhttptest', [...common, ...flags], 60).finally(() => {
        attack.over = true;
      });
      const agent = new Agent({ keepAlive: true, maxSockets: 1 });
      let refused = 0;
      while (!attack.over) {
        const began = performance.now();
        if (!(await isServed(port, agent))) refused++;
        waits.push(performance.now() - began);
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
      agent.destroy();
      const { stdout } = await attacking;
      if (refused > 0) failed.push(`${name}: ${refused} requests of somebody else failed`);
      if (!/service available:.*YES/.test(stdout)) failed.push(`${name}: slowhttptest says it is not available`);
    }
    waits.sort((a, b) => a - b);
    const p99 = waits[Math.floor(waits.length * 0.99)] ?? Number.NaN;
    if (!(p99 < 50)) failed.push(`p99 of somebody else is ${Math.round(p99)} ms`);
    const note = `p99 of ${waits.length} requests of somebody else ${p99.toFixed(1)} ms`;
    return { cases: attacks.length, passed: attacks.length - Math.min(attacks.length, failed.length), failed, note };
  },
};

function isServed(port: number, agent: Agent): Promise<boolean> {
  return new Promise((resolve) => {
    const asked = request({ port, host: '127.0.0.1', path: '/', agent, timeout: 5_000 }, (response) => {
      response.resume().on('end', () => resolve(response.statusCode === 200));
    });
    asked.on('timeout', () => asked.destroy(new Error('no answer')));
    asked.on('error', () => resolve(false)).end();
  });
}
