import { decisionsHeader, decisionsPath } from '../lib/ops/admin-callers.ts';
import type { LogSource } from '../lib/records/read.ts';
import { recordVersion } from '../lib/records/record.ts';
import { UsageError } from './arguments.ts';
import { askFault } from './ask-fault.ts';

/** Milliseconds for the answer to begin, and between two parts of it: the proxy gathers from its workers for a second. */
const patienceMs = 10_000;
/** Milliseconds for all of it, however little comes at a time. */
const wholeMs = 30_000;
/** Bytes: several times what a proxy counts at most (`lib/telemetry/decision-counts.ts`). */
const mostBytes = 16 * 1024 * 1024;
/** Characters of what a proxy says in place of its decisions. */
const mostSaid = 200;

/**
 * The decisions that a running proxy has counted (`/decisions` of its admin server), as a log; asked for when it is read.
 *
 * @param given the value of `--from`
 * @throws UsageError, and so does reading
 */
export function decisionsOf(given: string): LogSource {
  const url = pageOf(given);
  return { name: url.href, bytes: linesOf(url) };
}

/** @throws UsageError */
function pageOf(given: string): URL {
  const url = URL.parse(given);
  if (url?.protocol === 'https:') {
    throw notAsked('no-proxy', `--from: ${given} asks for TLS, and an admin server speaks plain HTTP`, startAsUrl);
  }
  const isPage = url?.protocol === 'http:' && ['/', decisionsPath].includes(url.pathname);
  if (url === null || !isPage || `${url.username}${url.password}${url.search}${url.hash}` !== '') {
    throw notAsked('no-proxy', `--from: ${given} is not the address of an admin server`, startAsUrl);
  }
  url.pathname = decisionsPath;
  return url;
}

async function* linesOf(url: URL): AsyncGenerator<Uint8Array> {
  // Loaded only where somebody is asked: it takes a tenth of a second.
  const { Client } = await import('undici');
  const client = new Client(url.origin, {
    connectTimeout: patienceMs,
    headersTimeout: patienceMs,
    bodyTimeout: patienceMs,
  });
  const signal = AbortSignal.timeout(wholeMs);
  try {
    const { statusCode, headers, body } = await client.request({ method: 'GET', path: url.pathname, signal });
    const fault = await faultOf(url, statusCode, headers[decisionsHeader], () => beginningOf(body));
    if (fault !== null) throw fault;
    let bytes = 0;
    for await (const chunk of body as AsyncIterable<Buffer>) {
      bytes += chunk.length;
      if (bytes > mostBytes) throw notAsked('no-proxy', `${url} sends more than any proxy counts`, startAsUrl);
      yield chunk;
    }
  } catch (error) {
    if (error instanceof UsageError) throw error;
    const why = signal.aborted ? `its answer is not whole after ${wholeMs / 1000} seconds` : askFault(error);
    throw notAsked(
      'no-proxy',
      `${url} cannot be asked: ${why}`,
      'See that the proxy runs, and which address its admin server has.',
    );
  } finally {
    await client.destroy();
  }
}

/** No more than is told of it, of whatever length it is. */
async function beginningOf(body: AsyncIterable<Buffer>): Promise<string> {
  let text = '';
  for await (const chunk of body) {
    text += chunk.toString('utf8', 0, 4 * mostSaid);
    if (text.length >= mostSaid) break;
  }
  return text.trim().slice(0, mostSaid);
}

/** Null where what comes are decisions as this Sallyport reads them. */
async function faultOf(
  url: URL,
  status: number,
  version: string | string[] | undefined,
  said: () => Promise<string>,
): Promise<UsageError | null> {
  if (status === 200 && version === String(recordVersion)) return null;
  if (status === 200 && version !== undefined) {
    const message = `${url} records decisions in version ${version}, and this Sallyport reads ${recordVersion}`;
    return notAsked('other-version', message, 'Use the sallyport of the same version as the proxy, or a newer one.');
  }
  const answer = `${url} answers ${status}`;
  const text = status === 200 ? '' : await said();
  const message = text === '' ? answer : `${answer}: ${text}`;
  if (version !== undefined) return notAsked('not-recording', message, 'Set SALLYPORT_DECISIONS=all for it.');
  if (status === 403) {
    const remedy = 'Ask on its own machine, by an address or as localhost; in Kubernetes through kubectl port-forward.';
    return notAsked(
      'proxy-refuses',
      message,
      text === '' ? 'The policy of its admin port has to allow 127.0.0.1.' : remedy,
    );
  }
  return notAsked('no-proxy', `${message}; that is no record of decisions`, startAsUrl);
}

const startAsUrl = 'Give that of the proxy, of this version or a newer one, as http://127.0.0.1:4191.';

function notAsked(
  code: 'no-proxy' | 'not-recording' | 'proxy-refuses' | 'other-version',
  message: string,
  remedy: string,
): UsageError {
  return new UsageError(code, message, remedy);
}
