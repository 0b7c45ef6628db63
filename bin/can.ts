import type { TlsClass } from '../lib/analysis/callers.ts';
import type { ExplainQuery } from '../lib/policy/explain.ts';
import type { Main } from './arguments.ts';
import { reach } from './reach.ts';

export const main: Main<'can'> = async (line, io) => {
  const [port, identity, serviceAccount, tls, client] = [
    line.value('port'),
    line.value('identity'),
    line.value('service-account'),
    line.value('tls'),
    line.value('client'),
  ];
  return reach(line, io, {
    given: { port, identity, serviceAccount, tls, client },
    none: 'nothing',
    scopeOf: (query) => ({
      ports: port === null ? undefined : [query.port],
      ip: client === null ? undefined : query.ip,
      tls: tlsOf(query),
    }),
  });
};

function tlsOf({ identity, tls = 'none' }: ExplainQuery): TlsClass {
  return identity === undefined ? { kind: tls } : { kind: 'identity', name: identity, of: { kind: 'one' } };
}
