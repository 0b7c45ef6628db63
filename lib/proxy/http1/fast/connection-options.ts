import { longestConnection } from '../../../request-fields.ts';

/** What the Connection field of a request says (RFC 9110 7.6.1). */
export interface ConnectionOptions {
  readonly option: 'close' | 'keep-alive' | 'none';
  /** The client asks to leave HTTP (RFC 9110 7.8). */
  readonly upgrade: boolean;
  /** In lower case, of fields that are for this connection alone. */
  readonly names: readonly string[];
}

export const noOptions: ConnectionOptions = { option: 'none', upgrade: false, names: [] };
const close: ConnectionOptions = { option: 'close', upgrade: false, names: [] };
const keepAlive: ConnectionOptions = { option: 'keep-alive', upgrade: false, names: [] };

/** Tokens with a comma and spaces between them: Node's parser does not see `close` before a tab. */
const list = /^[!#$%&'*+.^_`|~0-9a-z-]+(?:, *[!#$%&'*+.^_`|~0-9a-z-]+)*$/;

/** Framing and routing depend on these; to name them is no ordinary thing to do. */
const suspicious: ReadonlySet<string> = new Set(['host', 'content-length', 'transfer-encoding']);

/** Null for what the library lane is to judge: contradictions, and anything odd. */
export function readConnectionOptions(value: string): ConnectionOptions | null {
  const lower = value.toLowerCase();
  if (lower === 'keep-alive') return keepAlive;
  if (lower === 'close') return close;
  if (lower.length > longestConnection || !list.test(lower)) return null;
  let option: ConnectionOptions['option'] = 'none';
  let upgrade = false;
  const names: string[] = [];
  for (const part of lower.split(',')) {
    const name = part.trim();
    if (name === 'close' || name === 'keep-alive') {
      if (option !== 'none' && option !== name) return null;
      option = name;
    } else if (name === 'upgrade') {
      upgrade = true;
    } else if (suspicious.has(name)) {
      return null;
    } else if (name !== 'te' && name !== 'trailer') {
      // Those two say how the message goes on, and are judged by themselves.
      names.push(name);
    }
  }
  // Two ways for the connection to go on.
  return upgrade && option === 'close' ? null : { option, upgrade, names };
}
