import { request } from 'node:http';
import { join } from 'node:path';
import type { Test } from 'tap';
import type { CandidatePage } from '../../lib/app/candidate/page.ts';
import { replaceFile, temporaryFolder } from './files.ts';
import { scrape } from './metrics.ts';
import { openAdmin, policyEnvironment } from './open-policy.ts';
import { type Environment, type Sallyport, startSallyport } from './sallyport.ts';
import { until } from './until.ts';

export interface WithCandidate {
  readonly sallyport: Sallyport;
  /** The folders of both policies. */
  readonly folder: { readonly policy: string; readonly candidate: string };
  page(): Promise<CandidatePage>;
  text(): Promise<string>;
  /** Replaces one of them, and waits until it is decided by. */
  put(which: 'policy' | 'candidate', documents: string): Promise<void>;
}

/** A proxy with a policy and a candidate, which is loaded when this resolves. */
export async function startWithCandidate(
  t: Test,
  documents: { readonly policy: string; readonly candidate: string },
  env: Environment = {},
): Promise<WithCandidate> {
  const home = temporaryFolder(t);
  const folder = { policy: join(home, 'policy'), candidate: join(home, 'candidate') };
  replaceFile(join(folder.candidate, 'policy.yaml'), documents.candidate + openAdmin);
  const sallyport = await startSallyport(t, {
    env: { ...policyEnvironment(home, documents.policy), SALLYPORT_CANDIDATE_POLICY: folder.candidate, ...env },
  });
  const { adminPort } = sallyport;
  const page = async (): Promise<CandidatePage> => JSON.parse((await ask(adminPort, '/candidate')).body);
  await until('a candidate', async () => (await page()).load.generation === 1);
  return {
    sallyport,
    folder,
    page,
    text: async () => (await ask(adminPort, '/candidate?format=text')).body,
    async put(which, text) {
      const generation = async (): Promise<number> =>
        which === 'candidate'
          ? (await page()).load.generation
          : (await scrape(adminPort)).sum('sallyport_policy_generation');
      const before = await generation();
      replaceFile(join(folder[which], 'policy.yaml'), text + openAdmin);
      await until(`the ${which} to be decided by`, async () => (await generation()) > before);
    },
  };
}

export interface AdminAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly body: string;
}

export function ask(adminPort: number, path: string, headers: Record<string, string> = {}): Promise<AdminAnswer> {
  return new Promise((resolve, reject) => {
    const get = request({ host: '127.0.0.1', port: adminPort, path, headers, agent: false }, (response) => {
      const { statusCode = 0 } = response;
      let body = '';
      response.setEncoding('utf8').on('data', (chunk: string) => {
        body += chunk;
      });
      response.on('end', () => resolve({ status: statusCode, headers: response.headers, body }));
      response.on('error', reject);
    });
    get.on('error', reject);
    get.end();
  });
}
