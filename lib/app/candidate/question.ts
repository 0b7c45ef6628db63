import type { Client } from '../../client.ts';
import { utf8Text } from '../../policy/bytes.ts';
import { ParameterNames } from '../../policy/decide/asked-parameters.ts';
import type { AskedOfRequests, RequestFacts } from '../../policy/decision.ts';
import { originalProtocolHeader } from '../../request-fields.ts';
import { clip } from '../../telemetry/line-bounds.ts';

/** A line as `explain --requests` takes it. */
export interface AskedQuestion {
  readonly port: number;
  readonly client: string;
  readonly identity?: string;
  readonly tls?: 'anonymous' | 'passthrough';
  readonly protocol: 'http1' | 'http2' | 'grpc' | 'tcp' | 'connect';
  readonly method?: string;
  readonly path?: string;
  readonly host?: string;
  readonly headers?: Readonly<Record<string, string | readonly string[]>>;
}

const maxPath = 2048;
const maxText = 256;

/**
 * @param request null: there was none. Of its header fields those are told by which it is known what comes with it, and those that a
 *   policy looks at; values that no document writes out, as tokens are, stand there as `withheld`.
 * @param asked by the policies of the port: of the query only what they look at is told, as secrets are sent in queries.
 */
export function questionOf(
  port: number,
  client: Client,
  protocol: AskedQuestion['protocol'],
  request: RequestFacts | null,
  asked: readonly AskedOfRequests[],
): AskedQuestion {
  const about = { port, client: client.ip.text, ...tlsOf(client), protocol };
  if (request === null) return about;
  const { method, path, query, host, carries } = request;
  const told = new ParameterNames(asked.flatMap((each) => each.query.names)).told(query);
  const headers = { ...(carries === 'nothing' ? {} : carrying[carries]), ...lookedAt(request, protocol, asked) };
  return {
    ...about,
    method: clip(method, maxText),
    path: clip(textOf(told.query === '' ? path : `${path}?${told.query}`), maxPath),
    host: clip(textOf(host), maxText),
    ...(Object.keys(headers).length === 0 ? {} : { headers }),
  };
}

/** In place of a value that no document writes out. */
const withheld = '(withheld)';

function lookedAt(
  request: RequestFacts,
  protocol: AskedQuestion['protocol'],
  asked: readonly AskedOfRequests[],
): Readonly<Record<string, readonly string[]>> {
  const names = new Set(asked.flatMap((each) => each.headers));
  // The question names it otherwise. Over HTTP/2 rules see it only where the app gets HTTP/1.
  const isOriginal = names.delete('host') && protocol !== 'http1' && request.header('host').length > 0;
  const fields = [...names].map((name) => {
    const isSpelled = (bytes: string): boolean => asked.some((each) => each.spells(name, bytes));
    return [name, request.header(name).map((bytes) => (isSpelled(bytes) ? textOf(bytes) : withheld))] as const;
  });
  const told = Object.fromEntries(fields.filter(([, values]) => values.length > 0));
  return isOriginal ? { ...told, [originalProtocolHeader]: ['HTTP/1.1'] } : told;
}

const carrying = {
  body: { 'content-length': '1' },
  upgrade: { connection: 'upgrade', upgrade: 'websocket' },
} as const;

function tlsOf({ tls }: Client): Pick<AskedQuestion, 'identity' | 'tls'> {
  switch (tls.kind) {
    case 'none':
      return {};
    case 'passthrough':
      return { tls: 'passthrough' };
    case 'mesh':
      return tls.identity === null ? { tls: 'anonymous' } : { identity: tls.identity.name };
  }
}

/** Text of the wire has a character for each byte. */
function textOf(bytes: string): string {
  return utf8Text(bytes) ?? bytes;
}
