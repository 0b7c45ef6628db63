import { readTarget } from '../lib/request-target.ts';
import { type Main, UsageError } from './arguments.ts';
import { headersOfFlags } from './explain-query.ts';
import { reach } from './reach.ts';

export const main: Main<'who'> = async (line, io) => {
  if (!line.has('port')) throw new UsageError('missing-argument', '--port is missing', 'write --port N');
  const [path, method, host] = [line.value('path'), line.value('method'), line.value('host')];
  const headers = headersOfFlags(line.values('header'));
  const target = path === null ? null : readTarget(method ?? 'GET', path);
  if (path !== null && target === null) {
    throw new UsageError('bad-question', `--path ${JSON.stringify(path)} is no path`, 'it begins with "/"');
  }
  return reach(line, io, {
    given: { port: line.value('port'), method, path, host, headers },
    none: 'nobody',
    scopeOf: (query) => ({
      ports: [query.port],
      path: target?.path,
      method: method ?? undefined,
      host: host ?? undefined,
      headers: new Map(Object.entries(headers).map(([name, values]) => [name.toLowerCase(), values])),
      query: parameters(target?.query ?? ''),
    }),
  });
};

function parameters(query: string): ReadonlyMap<string, readonly string[]> {
  const all = new URLSearchParams(query);
  return new Map([...all.keys()].map((name) => [name, all.getAll(name)]));
}
