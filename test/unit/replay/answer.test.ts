import t from 'tap';
import { questionRecord } from '../../../lib/records/line.ts';
import { answerTo } from '../../../lib/replay/answer.ts';
import { load, route, server } from '../../support/policy-fixtures.ts';

/** Of a whole question `replay` says what `explain` says, of requests that are refused before policy is asked too. */

const { authorizer, ask } = load(
  `${server('accessPolicy: all-unauthenticated')}${route('r', 'path: {value: /a}')}${route('c', 'method: CONNECT')}`,
);
const rows: readonly Readonly<Record<string, string>>[] = [
  { path: '/a' },
  { path: '/b' },
  { method: 'CONNECT', path: 'web:80', host: 'web:80' },
  { method: 'CONNECT', path: 'web:80', host: 'web:80', protocol: 'http2' },
  { method: 'CONNECT', path: 'web:80', host: 'web:80', protocol: 'grpc' },
  { method: 'CONNECT', path: '/a' },
  { method: 'get', path: '/a' },
  { method: 'get', path: '/a', protocol: 'http2' },
  { method: 'G T', path: '/a' },
  { method: 'PRI', path: '/a' },
  { path: 'a' },
  { path: '/a', host: 'a b' },
  { path: '/a', host: '', protocol: 'http2' },
  { path: '/a', protocol: 'tcp' },
  { path: '/a/%2e%2e/b' },
];
for (const row of rows) {
  t.test(JSON.stringify(row), (t) => {
    const record = questionRecord({ port: 8080, client: '10.20.0.5', ...row });
    const answer = answerTo(authorizer, record, () => 8080);
    const { verdict, httpStatus, reason, route: found } = ask({ host: 'h', ...row });
    if (answer.kind === 'unknown') throw new Error(answer.lacks);
    t.match(answer, { verdict, status: httpStatus, route: found });
    if (verdict === 'invalid') t.equal(answer.reasons().reason, reason);
    t.end();
  });
}
