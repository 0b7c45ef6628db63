import { fileURLToPath } from 'node:url';
import { graceMs, type Load, type LoadResult } from './load.ts';
import { runOwnLoad } from './own-load.ts';

export interface SocketLoadOptions {
  readonly exchange: 'tcp' | 'websocket' | 'expect' | 'bulk' | 'download';
  readonly connections: number;
}

/** Messages over sockets of ours: see socket-load-main.ts. */
export function socketLoad({ exchange, connections }: SocketLoadOptions): Load {
  const main = fileURLToPath(new URL('./socket-load-main.ts', import.meta.url));
  return async ({ bench, port, seconds }) => {
    const args = [main, exchange, ...[port, connections, seconds].map(String)];
    return JSON.parse(await runOwnLoad(bench, args, seconds * 1000 + graceMs)) as LoadResult;
  };
}
