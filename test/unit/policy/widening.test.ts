import t from 'tap';
import { compileNow } from '../../../lib/policy/compile/compile.ts';
import { readDocuments } from '../../../lib/policy/documents/read.ts';
import { widened } from '../../../lib/policy/widening.ts';
import { document, server, sources, workload } from '../../support/policy-fixtures.ts';

const indexOf = (text: string) =>
  compileNow(readDocuments(sources(text), { namespace: 'shop' }).documents, workload()).index;
const grant = (client: string): string =>
  server() + document('ServerAuthorization', 'g', `{server: {name: web}, client: {${client}}}`);
const networks = (cidrs: readonly string[]): string =>
  grant(`unauthenticated: true, networks: [${cidrs.map((cidr) => `{cidr: ${cidr}}`).join()}]`);
const names = (texts: readonly string[]): string => grant(`meshTLS: {identities: [${texts.join()}]}`);
const numbered = (count: number, text: (i: number) => string): string[] =>
  Array.from({ length: count }, (_, i) => text(i));

t.test('lists that are shown alike are told apart', async (t) => {
  const blocks = numbered(12, (i) => `10.${i}.0.0/16`);
  const holes = numbered(12, (i) => `10.${i}.0.0/16`);
  const but = (except: readonly string[]): string =>
    grant(`unauthenticated: true, networks: [{cidr: 10.0.0.0/8, except: [${except.join()}]}]`);
  const accounts = numbered(9, (i) => `sa${i}.example`);
  const rows: readonly (readonly [what: string, before: string, after: string])[] = [
    ['networks', networks(blocks), networks([...blocks.slice(0, -1), '203.0.113.0/24'])],
    ['exceptions', but(holes), but(holes.slice(0, -1))],
    ['identities', names(accounts), names([...accounts.slice(0, -1), 'stranger.example'])],
    ['suffixes', names(accounts), names([...accounts.slice(0, -1), '"*.example"'])],
  ];
  for (const [what, before, after] of rows) {
    t.match(widened(indexOf(before), indexOf(after)), [/^port 8080: policy\.linkerd\.io\/server\/web: open to /], what);
    t.same(widened(indexOf(before), indexOf(before)), [], `${what}: the same again`);
  }
});

t.test('the same clients in another order, or in other words, are no more than before', async (t) => {
  const pairs: readonly (readonly [before: string, after: string])[] = [
    [names(['a.example', 'b.example']), names(['b.example', 'a.example'])],
    [networks(['10.0.0.0/9', '10.128.0.0/9']), networks(['10.0.0.0/8'])],
  ];
  for (const [before, after] of pairs) t.same(widened(indexOf(before), indexOf(after)), []);
});
