import { request } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import { duration } from '../lib/config/values.ts';
import { VariableReader } from '../lib/config/variables.ts';
import { hostPort } from '../lib/ip.ts';
import { jsonText } from '../lib/printable.ts';
import { complain, type Main, UsageError } from './arguments.ts';
import { askFault } from './ask-fault.ts';

/** Less than the 30 s after which container engines give a health check up, more than a busy machine takes. */
const timeoutMs = 5_000;

/** Between two questions of `--wait`. */
const pauseMs = 100;

export const main: Main<'health'> = async (line, io) => {
  const patienceMs = readPatience(line.value('wait'));
  // This variable alone: files that others name may be in trouble while the proxy goes on with what it has read.
  const variables = new VariableReader(io.env);
  const listen = variables.get('SALLYPORT_HEALTH_LISTEN');
  if (variables.faults.length > 0)
    throw new UsageError(
      'other-environment',
      'the environment is not that of a running proxy',
      'sallyport run lists its faults',
    );
  if (listen === null)
    throw new UsageError(
      'no-health-server',
      'SALLYPORT_HEALTH_LISTEN is off, so there is nobody to ask',
      'give it a port',
    );
  const unspecified = listen.host === null || listen.host === '0.0.0.0';
  const host = unspecified ? '127.0.0.1' : listen.host === '::' ? '::1' : (listen.host as string);
  const path = line.has('live') ? '/live' : '/ready';
  const deadline = performance.now() + patienceMs;
  let { kind, said } = await ask(host, listen.port, path);
  while (kind !== 'good' && performance.now() < deadline) {
    await pause(pauseMs);
    ({ kind, said } = await ask(host, listen.port, path));
  }
  const ok = kind === 'good';
  const url = `http://${hostPort(host, listen.port)}${path}`;
  if (line.has('json')) io.stdout.write(`${jsonText({ ok, url, said })}\n`);
  // Ready, and yet not well: the status is for machines, and this for whoever looks.
  const [, ...doubts] = said.split('\n');
  if (ok)
    for (const message of doubts) complain(io, 'sallyport health: warning', { code: 'stale-files', message, hint: '' });
  const hint = kind === 'none' ? 'See that the proxy runs, and that SALLYPORT_HEALTH_LISTEN is its own.' : '';
  if (!ok)
    complain(io, 'sallyport health', { code: 'unhealthy', message: `${url}: ${said.replaceAll('\n', '; ')}`, hint });
  return ok ? 0 : 1;
};

/** Milliseconds; none where it is not given: one answer is enough. */
function readPatience(given: string | null): number {
  if (given === null) return 0;
  const read = duration(given);
  if ('fault' in read) throw new UsageError(read.code, `--wait: ${read.fault}`, read.hint);
  return read.value;
}

interface HealthAnswer {
  /** `none`: not even a bad one. */
  readonly kind: 'good' | 'bad' | 'none';
  /** What was answered, or why nothing was. */
  readonly said: string;
}

function ask(host: string, port: number, path: string): Promise<HealthAnswer> {
  return new Promise((resolve) => {
    const none = (error: unknown): void => resolve({ kind: 'none', said: askFault(error) });
    const asked = request({ host, port, path, agent: false, timeout: timeoutMs }, (response) => {
      let body = '';
      response.setEncoding('utf8').on('data', (text: string) => {
        body = (body + text).slice(0, 1_000);
      });
      response.on('error', none);
      response.on('end', () => {
        const kind = response.statusCode === 200 ? 'good' : 'bad';
        resolve({ kind, said: `${response.statusCode} ${body.trim()}` });
      });
    });
    asked.on('timeout', () => asked.destroy(new Error(`no answer within ${timeoutMs / 1000} s`)));
    asked.on('error', none);
    asked.end();
  });
}
