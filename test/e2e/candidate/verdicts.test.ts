/**
 * What the candidate would have decided, for every verdict and every way of a connection: what is counted, what `/candidate`
 * shows, and that `explain` says the same of its example under both policies.
 */
import { PassThrough } from 'node:stream';
import t, { type Test } from 'tap';
import { parseCommandLine } from '../../../bin/arguments.ts';
import { main as explainCommand } from '../../../bin/explain.ts';
import type { ExplainJson } from '../../../lib/policy/explain.ts';
import { startWithCandidate } from '../../support/candidate.ts';
import { documentsOf, type GuardedPort } from '../../support/candidate-documents.ts';
import { testCertificate, workloadCertificate, workloadName } from '../../support/certificates.ts';
import { identityEnvironment, temporaryFolder } from '../../support/files.ts';
import { type Labels, scrape } from '../../support/metrics.ts';
import { freePorts } from '../../support/ports.ts';
import { startSniffingApp } from '../../support/sniffing-app.ts';
import { until } from '../../support/until.ts';
import { type Exchange, runExchange } from '../../support/wire-exchange.ts';

t.setTimeout(900_000);

interface Row {
  readonly title: string;
  readonly policy: GuardedPort;
  readonly candidate: GuardedPort;
  readonly exchange: Partial<Exchange> & { readonly secured?: 'caller' | 'anonymous' | 'other' };
  /** As counted. */
  readonly expect: readonly [subject: string, enforced: string, candidate: string, agreement: string];
  /** A question that `explain` cannot be asked, or answers in its own way. */
  readonly unexplained?: boolean;
}

const us = ['127.0.0.0/8'];
const others = ['127.0.0.9/32'];
const get: Row['exchange'] = { path: '/a' };
const bytes: Row['exchange'] = { proto: 'tcp', payload: '\x01\x02\x03 no request' };
const redirect = '{type: RequestRedirect, requestRedirect: {hostname: elsewhere.test, statusCode: 301}}';
const elsewhere = '{type: RequestRedirect, requestRedirect: {hostname: other.test, statusCode: 301}}';
const header = '{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: x-set, value: here}]}}';
const caller = workloadName('caller', 'shop');

const rows: readonly Row[] = [
  {
    title: 'identical',
    policy: { from: us },
    candidate: { from: us },
    exchange: get,
    expect: ['request', 'permit', 'permit', 'same'],
  },
  {
    title: 'refused by both',
    policy: { from: others },
    candidate: { from: others },
    exchange: get,
    expect: ['request', 'deny', 'deny', 'same'],
  },
  {
    title: 'the candidate refuses',
    policy: { from: us },
    candidate: { from: others },
    exchange: get,
    expect: ['request', 'permit', 'deny', 'differs'],
  },
  {
    title: 'the candidate lets in',
    policy: { from: others },
    candidate: { from: us },
    exchange: get,
    expect: ['request', 'deny', 'permit', 'differs'],
  },
  {
    title: 'audited, and let in by the candidate',
    policy: { access: 'audit' },
    candidate: { from: us },
    exchange: get,
    expect: ['request', 'audit', 'permit', 'moved'],
  },
  {
    title: 'audited, and refused by the candidate',
    policy: { access: 'audit' },
    candidate: { from: others },
    exchange: get,
    expect: ['request', 'audit', 'deny', 'differs'],
  },
  {
    title: 'let in by another document',
    policy: { from: us },
    candidate: { access: 'all-unauthenticated' },
    exchange: get,
    expect: ['request', 'permit', 'permit', 'moved'],
  },
  {
    title: '404 in place of 403',
    policy: { from: others },
    candidate: { from: us, path: '/b' },
    exchange: get,
    expect: ['request', 'deny', 'no-route', 'differs'],
  },
  {
    title: '404 in place of the app',
    policy: { from: us, path: '/a' },
    candidate: { from: us, path: '/b' },
    exchange: get,
    expect: ['request', 'permit', 'no-route', 'differs'],
  },
  {
    title: 'a redirect',
    policy: { from: us, path: '/a' },
    candidate: { from: us, path: '/a', filters: redirect },
    exchange: get,
    expect: ['request', 'permit', 'redirect', 'differs'],
  },
  {
    title: 'the same redirect',
    policy: { from: us, path: '/a', filters: redirect },
    candidate: { from: us, path: '/a', filters: redirect },
    exchange: get,
    expect: ['request', 'redirect', 'redirect', 'same'],
  },
  {
    title: 'a redirect to elsewhere',
    policy: { from: us, path: '/a', filters: redirect },
    candidate: { from: us, path: '/a', filters: elsewhere },
    exchange: get,
    expect: ['request', 'redirect', 'redirect', 'differs'],
  },
  {
    title: 'a route for one value of a header, sent',
    policy: { from: us },
    candidate: { from: others, path: '/a', header: '{name: x-role, value: admin}' },
    exchange: { ...get, headers: [['x-role', 'admin']] },
    expect: ['request', 'permit', 'deny', 'differs'],
  },
  {
    title: 'a route for one value of a header, another sent',
    policy: { from: us },
    candidate: { from: us, path: '/a', header: '{name: x-role, value: admin}' },
    exchange: { ...get, headers: [['x-role', 'user']] },
    expect: ['request', 'permit', 'no-route', 'differs'],
  },
  {
    title: 'another header for the app',
    policy: { from: us, path: '/a' },
    candidate: { from: us, path: '/a', filters: header },
    exchange: get,
    expect: ['request', 'permit', 'permit', 'differs'],
  },
  {
    title: 'readings that differ in the candidate alone',
    policy: { from: us },
    candidate: { from: us, path: '/a' },
    exchange: { path: '/a/%2e%2e/b' },
    expect: ['request', 'permit', 'invalid', 'differs'],
  },
  {
    title: 'an identity',
    policy: { who: [caller] },
    candidate: { who: ['*'] },
    exchange: { ...get, secured: 'caller' },
    expect: ['request', 'permit', 'permit', 'same'],
  },
  {
    title: 'no identity',
    policy: { from: us },
    candidate: { who: ['*'] },
    exchange: { ...get, secured: 'anonymous' },
    expect: ['request', 'permit', 'deny', 'differs'],
  },
  {
    title: 'HTTP/2',
    policy: { from: us },
    candidate: { who: [caller] },
    exchange: { ...get, proto: 'http/2' },
    expect: ['request', 'permit', 'deny', 'differs'],
  },
  {
    title: 'gRPC',
    policy: { from: us },
    candidate: { from: others },
    exchange: { proto: 'grpc', method: 'POST', path: '/svc.Foo/Bar' },
    expect: ['request', 'permit', 'deny', 'differs'],
  },
  {
    title: 'an opaque candidate carries requests as bytes',
    policy: { from: us },
    candidate: { from: us, protocol: 'opaque' },
    exchange: get,
    expect: ['request', 'permit', 'permit', 'moved'],
  },
  {
    title: 'an opaque candidate sees no identity',
    policy: { who: [caller] },
    candidate: { who: [caller], protocol: 'opaque' },
    exchange: { ...get, secured: 'caller' },
    expect: ['request', 'permit', 'deny', 'differs'],
  },
  {
    title: 'HTTP/1 to a candidate of HTTP/2',
    policy: { from: us },
    candidate: { from: us, protocol: 'HTTP/2' },
    exchange: get,
    expect: ['request', 'permit', 'deny', 'differs'],
  },
  {
    title: 'bytes',
    policy: { from: us },
    candidate: { from: us },
    exchange: bytes,
    expect: ['connection', 'permit', 'permit', 'same'],
  },
  {
    title: 'bytes that the candidate refuses',
    policy: { from: us },
    candidate: { from: others },
    exchange: bytes,
    expect: ['connection', 'permit', 'deny', 'differs'],
  },
  {
    title: 'bytes that the candidate lets in',
    policy: { from: others },
    candidate: { from: us },
    exchange: bytes,
    expect: ['connection', 'deny', 'permit', 'differs'],
  },
  {
    title: 'bytes, and a candidate with routes',
    policy: { from: us },
    candidate: { from: us, path: '/' },
    exchange: bytes,
    expect: ['connection', 'permit', 'deny', 'differs'],
  },
  {
    title: 'bytes, audited',
    policy: { access: 'audit' },
    candidate: { from: us },
    exchange: bytes,
    expect: ['connection', 'audit', 'permit', 'moved'],
  },
  {
    title: 'opaque',
    policy: { from: us, protocol: 'opaque' },
    candidate: { from: others, protocol: 'opaque' },
    exchange: bytes,
    expect: ['connection', 'permit', 'deny', 'differs'],
  },
  {
    title: 'nobody has looked into an opaque one',
    policy: { from: us, protocol: 'opaque' },
    candidate: { from: us },
    exchange: bytes,
    expect: ['connection', 'permit', 'unseen', 'differs'],
    unexplained: true,
  },
  {
    title: 'TLS for others',
    policy: { from: us },
    candidate: { from: others },
    exchange: { ...bytes, secured: 'other' },
    expect: ['connection', 'permit', 'deny', 'differs'],
  },
  {
    title: 'a rate limit',
    policy: { from: us },
    candidate: { from: us, limit: 1 },
    exchange: get,
    expect: ['request', 'permit', 'permit', 'same'],
  },
];

const ports = await freePorts(rows.length);
const portOf = (row: Row): number => ports[rows.indexOf(row)] as number;
const ownName = workloadName('web', 'shop');
const own = testCertificate({ dnsNames: [ownName] });
const shown = workloadCertificate('caller', 'shop');
const appTls = testCertificate({ dnsNames: ['app.test'] });

function exchangeOf(row: Row): Exchange {
  const { secured, ...exchange } = row.exchange;
  const tls =
    secured === undefined
      ? {}
      : secured === 'other'
        ? { tls: { servername: 'app.test', ca: own.trustAnchorsPem, anybody: true } }
        : {
            tls: {
              ...{ servername: ownName, ca: own.trustAnchorsPem },
              ...(secured === 'caller' ? { cert: shown.certificatePem, key: shown.keyPem } : {}),
            },
          };
  const authority = `127.0.0.1:${portOf(row)}`;
  return { host: '127.0.0.1', port: portOf(row), proto: 'http/1.1', method: 'GET', authority, ...exchange, ...tls };
}

/** Through the command itself, so that the example is one that it takes. */
async function explained(policy: string, question: object): Promise<ExplainJson> {
  const stdin = new PassThrough();
  const stdout = new PassThrough();
  stdin.end(JSON.stringify(question));
  const env = { SALLYPORT_POD_NAMESPACE: 'shop', SALLYPORT_POLICY: policy, SALLYPORT_AUTHORIZE_LOCALHOST: 'false' };
  const io = { stdin, stdout, stderr: new PassThrough().resume(), env };
  const reading = stdout.setEncoding('utf8').toArray();
  const line = parseCommandLine('explain', ['--requests', '-']);
  await explainCommand(line, io as unknown as Parameters<typeof explainCommand>[1]);
  stdout.end();
  return JSON.parse((await reading).join('').trimEnd());
}

function verdictOf({ verdict, audit }: ExplainJson): string {
  return verdict === 'permit' && audit ? 'audit' : verdict;
}

const all = (side: 'policy' | 'candidate'): string => rows.map((row) => documentsOf(portOf(row), row[side])).join('');

async function stage(t: Test, workers: string) {
  const app = await startSniffingApp(t, { tls: { cert: appTls.certificatePem, key: appTls.keyPem } });
  return startWithCandidate(
    t,
    { policy: all('policy'), candidate: all('candidate') },
    {
      SALLYPORT_INBOUND_PORTS: ports.map((port) => `127.0.0.1:${port}=127.0.0.1:${app.port}`).join(),
      SALLYPORT_WORKERS: workers,
      ...identityEnvironment(temporaryFolder(t), own),
    },
  );
}

for (const workers of ['1', '2']) {
  t.test(`every verdict, ${workers} workers`, async (t) => {
    const { sallyport, page, folder } = await stage(t, workers);
    for (const row of rows) {
      await runExchange(exchangeOf(row));
      const [subject, enforced, candidate, agreement] = row.expect;
      const labels: Labels = { subject, enforced, candidate, agreement, srv_port: String(portOf(row)) };
      await until(`${row.title}: it is counted`, async () => {
        const shown = await scrape(sallyport.adminPort);
        return shown.sum('sallyport_candidate_decisions_total', labels) === 1;
      });
    }
    const shown = await scrape(sallyport.adminPort);
    const { disagreements, counts } = await page();
    for (const row of rows) {
      const port = portOf(row);
      const [subject, enforced, candidate, agreement] = row.expect;
      t.equal(shown.sum('sallyport_candidate_decisions_total', { srv_port: String(port) }), 1, `${row.title}: once`);
      t.match(
        counts.filter((each) => each.port === port),
        [{ subject, enforced, candidate, agreement, times: 1 }],
        `${row.title}: the page counts it`,
      );
      const here = disagreements.filter((each) => each.port === port);
      t.equal(here.length, agreement === 'differs' ? 1 : 0, `${row.title}: is a disagreement or none`);
      for (const each of here) {
        t.match(each, { subject, enforced: { verdict: enforced }, candidate: { verdict: candidate }, times: 1 });
        t.ok(each.enforced.reason !== '' && each.candidate.reason !== '', `${row.title}: both have reasons`);
        if (row.unexplained) continue;
        t.equal(verdictOf(await explained(folder.policy, each.example)), enforced, `${row.title}: explained`);
        t.equal(
          verdictOf(await explained(folder.candidate, each.example)),
          candidate,
          `${row.title}: so the candidate`,
        );
      }
    }
    const differing = rows.filter(({ expect }) => expect[3] === 'differs').map(portOf);
    const told = () =>
      sallyport
        .logs()
        .filter(({ code }) => code === 'candidate-differs')
        .map(({ port }) => port);
    await until('a line for each disagreement', () => told().length >= differing.length);
    t.same(told().sort(), differing.sort(), 'one, whichever worker has found it');
    t.match(await sallyport.stop(), { code: 0 });
  });
}
