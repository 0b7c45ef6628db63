import type { Client } from '../../client.ts';
import { utf8Text } from '../../policy/bytes.ts';
import type { RequestFacts } from '../../policy/decision.ts';
import { clip } from '../../telemetry/decision-log.ts';

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
  readonly headers?: Readonly<Record<string, string>>;
}

const maxPath = 2048;
const maxText = 256;

/**
 * @param request null: there was none. Of its header fields only those are told by which it is known what comes with it.
 * @param asksQuery whether a policy looks at the query: otherwise it is left out, as secrets are sent in queries.
 */
export function questionOf(
  port: number,
  client: Client,
  protocol: AskedQuestion['protocol'],
  request: RequestFacts | null,
  asksQuery: boolean,
): AskedQuestion {
  const about = { port, client: client.ip.text, ...tlsOf(client), protocol };
  if (request === null) return about;
  const { method, path, query, host, carries } = request;
  return {
    ...about,
    method: clip(method, maxText),
    path: clip(textOf(query === '' || !asksQuery ? path : `${path}?${query}`), maxPath),
    host: clip(textOf(host), maxText),
    ...(carries === 'nothing' ? {} : { headers: carrying[carries] }),
  };
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
