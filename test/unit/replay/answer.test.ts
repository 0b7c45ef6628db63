import t from 'tap';
import type { ExplainJson, ExplainQuery } from '../../../lib/policy/explain.ts';
import { questionRecord } from '../../../lib/records/line.ts';
import { answerTo } from '../../../lib/replay/answer.ts';
import { load, open, route, server } from '../../support/policy-fixtures.ts';

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

/** Those of a question are as a client sends them: what a lane does with them is still to be done. */
const withHeaders = load(
  `${server('accessPolicy: deny')}${route('admin', '{headers: [{name: x-role, value: admin}]}')}${open('admin')}`,
  { probes: new Map([[8080, [{ kind: 'grpc' }]]]), probesWithRoutes: true },
);
const check = { method: 'POST', path: '/grpc.health.v1.Health/Check', protocol: 'http2' } as const;
const headerRows: readonly (readonly [
  verdict: ExplainJson['verdict'],
  headers: Readonly<Record<string, string | readonly string[]>>,
  request?: Pick<ExplainQuery, 'protocol' | 'method' | 'path'>,
])[] = [
  ['permit', { 'x-role': 'admin' }],
  ['permit', { 'X-Role': ' admin ' }],
  ['no-route', { 'x-role': 'admin', connection: 'x-role' }],
  ['permit', { 'x-role': ['user', 'admin'] }],
  ['invalid', { 'x-role': 'admin', content_length: '5' }],
  ['invalid', { 'x-role': 'admin', 'content-length': ['5', '6'] }],
  ['invalid', { 'x-role': 'admin', 'content-length': '5', 'transfer-encoding': 'chunked' }],
  ['invalid', { 'x-role': 'admin', host: ['a', 'b'] }],
  ['invalid', { 'x-role': 'admin', 'x-other': 'a\nb' }],
  ['invalid', { 'x role': 'admin' }],
  ['permit', { 'x-role': 'admin', te: 'trailers' }, { protocol: 'http2' }],
  ['invalid', { 'x-role': 'admin', te: 'gzip' }, { protocol: 'http2' }],
  ['invalid', { 'x-role': ' admin' }, { protocol: 'http2' }],
  ['invalid', { 'x-role': 'admin', 'content-length': ['5', '6'] }, { protocol: 'http2' }],
  ['invalid', { 'x-role': 'admin', connection: 'close' }, { protocol: 'http2' }],
  ['permit', { 'content-type': 'application/grpc' }, check],
  ['no-route', {}, check],
];
for (const [verdict, headers, request = {}] of headerRows) {
  t.test(`${JSON.stringify(headers)} ${request.protocol ?? 'http1'}`, (t) => {
    const record = questionRecord({ port: 8080, client: '10.20.0.5', host: 'h', headers, ...request });
    const answer = answerTo(withHeaders.authorizer, record, () => 8080);
    const explained = withHeaders.ask({ host: 'h', headers: entriesOf(headers), ...request });
    if (answer.kind === 'unknown') throw new Error(answer.lacks);
    t.equal(explained.verdict, verdict);
    t.match(answer, { verdict, route: explained.route, authz: explained.authz });
    if (verdict === 'invalid') t.equal(answer.reasons().reason, explained.reason);
    t.end();
  });
}

/** Whether a rule sees Host over HTTP/2 depends on what the app gets: a question says so, a record does not. */
const byHost = load(
  `${server('accessPolicy: deny')}${route('h', '{headers: [{name: Host, value: h}]}')}${open('h')}`,
).authorizer;
const original = { 'l5d-orig-proto': 'HTTP/1.1' };
const hostRows: readonly (readonly [
  protocol: 'http1' | 'http2',
  headers: Readonly<Record<string, string>>,
  form: 'question' | 'record',
  expect: string,
])[] = [
  ['http1', {}, 'question', 'permit'],
  ['http2', {}, 'question', 'no-route'],
  ['http2', original, 'question', 'permit'],
  ['http1', {}, 'record', 'permit'],
  ['http2', {}, 'record', 'the header host'],
  ['http2', { host: 'h' }, 'record', 'permit'],
];
for (const [protocol, headers, form, expect] of hostRows) {
  t.test(`Host in a ${form} over ${protocol} with ${JSON.stringify(headers)}`, (t) => {
    const asked = questionRecord({ port: 8080, client: '10.20.0.5', path: '/', host: 'h', protocol, headers });
    const record = form === 'question' ? asked : ({ ...asked, form, omits: ['headers'] } as const);
    const answer = answerTo(byHost, record, () => 8080);
    t.equal(answer.kind === 'unknown' ? answer.lacks : answer.verdict, expect);
    t.end();
  });
}

function entriesOf(headers: Readonly<Record<string, string | readonly string[]>>): (readonly [string, string])[] {
  return Object.entries(headers).flatMap(([name, values]) => [values].flat().map((value) => [name, value] as const));
}
