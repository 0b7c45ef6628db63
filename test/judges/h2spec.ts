import { openServer, policyEnvironment } from '../support/open-policy.ts';
import { freePort } from '../support/ports.ts';
import { startSallyport } from '../support/sallyport.ts';
import { startSniffingApp } from '../support/sniffing-app.ts';
import { goProgram, goPrograms, type Judge, run } from './stage.ts';

const path = 'github.com/summerwind/h2spec/cmd/h2spec';
const version = 'v0.0.0-20200804131034-70ac22940108';

/** Conformance with RFC 7540 and 7541, strict cases included. */
export const h2spec: Judge = {
  name: 'h2spec',
  prepare: () => goPrograms([[path, 'h2spec']], version),
  async judge(stage) {
    const app = await startSniffingApp(stage);
    const port = await freePort();
    await startSallyport(stage, {
      env: {
        ...policyEnvironment(stage.folder, openServer('web', port, 'HTTP/2')),
        SALLYPORT_INBOUND_PORTS: `${port}=127.0.0.1:${app.port}`,
      },
    });
    const { stdout, stderr } = await run(
      goProgram(path, 'h2spec', version),
      ['--host', '127.0.0.1', '--port', String(port), '--timeout', '5', '--strict'],
      170,
    );
    const [, cases, passed] = /(\d+) tests, (\d+) passed, \d+ skipped, \d+ failed/.exec(stdout) ?? [];
    const failed = [...new Set(stdout.split('\n').filter((line) => /^\s*×/.test(line)))].map((line) => line.trim());
    if (cases === undefined) failed.push(`no summary: ${stderr.slice(-300)}`);
    return { cases: Number(cases), passed: Number(passed), failed };
  },
};
