import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import pino from 'pino';
import t from 'tap';
import { limitVariables } from '../../lib/config/limit-variables.ts';
import { type IpAddress, parseIp } from '../../lib/ip.ts';
import { ParameterNames } from '../../lib/policy/decide/asked-parameters.ts';
import type { ConnectionPermit, PortPolicy, RequestDecision, RequestPermit } from '../../lib/policy/decision.ts';
import { failureOf } from '../../lib/proxy/http/refuse.ts';
import { limitNames } from '../../lib/proxy/limits.ts';
import { handshakeCodes, strayReasons } from '../../lib/proxy/recorder.ts';
import { candidateMetrics } from '../../lib/telemetry/candidate-metrics.ts';
import { createTelemetry } from '../../lib/telemetry/metrics.ts';
import { workerMetrics } from '../../lib/telemetry/worker-metrics.ts';
import { constant } from '../support/lib-constants.ts';
import { allPages, bare, expand, section, table } from '../support/readme-page.ts';

// The pages' tables of limits and metrics: each number is a constant of the program's, each label one that the metric has.

const root = resolve(import.meta.dirname, '../..');

const units: Readonly<Record<string, number>> = { KiB: 1024, MiB: 1024 ** 2, MB: 1024 ** 2, us: 0.001, s: 1000 };

/** The numbers of a text in bytes, milliseconds or as they are, but for those in names of protocols and of kinds of responses. */
function numbersIn(text: string): number[] {
  const plain = text.replace(/HTTP\/\d(\.\d)?|\b1xx\b/g, '');
  return [...plain.matchAll(/(\d[\d,]*)(?: (KiB|MiB|MB|us|s)\b)?/g)].map(
    ([, digits = '', unit = '']) => Number(digits.replaceAll(',', '')) * (units[unit] ?? 1),
  );
}

const http1 = (name: string): number => constant('proxy/http1/limits.ts', name);
const toApp = (name: string): number => constant('proxy/http2/app/limits.ts', `appLimits.${name}`);
const client = (name: string): number => constant('proxy/http2/client/limits.ts', `clientLimits.${name}`);
const busy = failureOf('ERR_SALLYPORT_OVERLOAD').refusal.status;
/** HTTP/2 begins with a window of one byte less. */
const windowOf = (bytes: number): number => bytes + 1;
const perCharacter = 32;
const examined = (name: string): number => constant('policy/decide/question.ts', name) / perCharacter;

/** The numbers of each limit in the page's order. */
const limits: Readonly<Record<string, readonly number[]>> = {
  'pipelined HTTP/1 requests of a connection': [http1('sliceRequests'), http1('sliceMs')],
  'HTTP/1 chunked body: sizes and extensions': [http1('maxFramingBytes'), http1('maxFramingRatio')],
  "connections to an HTTP/1 app for HTTP/2 clients, beyond one for each client's": [
    failureOf('ERR_SALLYPORT_CONNECTS').refusal.status,
  ],
  'idle connection to the app': [http1('maxIdleMs'), toApp('spareMs')],
  'HTTP/2 windows': [windowOf(client('streamWindow')), client('grownStreamWindow'), client('connectionWindow')],
  'heads of requests in flight: over HTTP/1 those above 4 KiB, as received and as sent; over HTTP/2 all, uncompressed':
    [
      // As received and as sent.
      constant('proxy/http/held-heads.ts', 'smallHead') / 2,
      busy,
      constant('proxy/http/held-heads.ts', 'ownHeads'),
    ],
  'HTTP/2 header block, compressed': [
    constant('proxy/http2/session/header-assembly.ts', 'maxBlockBytes'),
    constant('proxy/http2/session/header-assembly.ts', 'maxBlockFrames'),
  ],
  'HTTP/2 frames that do no work (PING, SETTINGS, PRIORITY, empty DATA, window updates beyond what we sent)': [
    constant('proxy/http2/session/flood-ledger.ts', 'overheadBurst'),
    constant('proxy/http2/session/flood-ledger.ts', 'overheadRate'),
  ],
  'HTTP/2 towards the app': [windowOf(toApp('streamWindow')), toApp('streams'), toApp('resets'), toApp('backlog')],
  'interim responses (1xx) of the app to one request': [
    constant('proxy/http/interim-count.ts', 'maxInterim'),
    constant('proxy/http/interim-count.ts', 'maxInterimBytes'),
    failureOf('ERR_SALLYPORT_BAD_RESPONSE').refusal.status,
  ],
  'connections to the admin server beyond the limits on connections': [
    constant('proxy/fairness/live-connections.ts', 'internalReserve'),
  ],
  'a client that has ended its side, with a request unanswered': [http1('halfOpenMs')],
  'ClientHello; TLS handshake': [
    constant('proxy/detect/client-hello.ts', 'maxHelloBytes'),
    constant('proxy/tls/termination.ts', 'handshakeMs'),
  ],
  'request and response bodies, time to answer': [],
  '`Connection` of a request, all its fields': [constant('request-fields.ts', 'longestConnection')],
  'regular expressions': [
    constant('policy/regex.ts', 'longestPattern'),
    constant('policy/regex.ts', 'longestValue'),
    examined('examined'),
    examined('examinedEach'),
  ],
  'a path with several readings': [
    constant('policy/decide/path-readings.ts', 'longestAmbiguous'),
    constant('policy/decide/path-readings.ts', 'mostReadings'),
  ],
  'a query that a rule looks into': [
    constant('policy/decide/query-readings.ts', 'longestQuery'),
    constant('policy/decide/query-readings.ts', 'mostPairs'),
    constant('policy/decide/query-readings.ts', 'mostValues'),
  ],
  'a header that a rule looks at': [constant('policy/decide/question.ts', 'mostHeaderValues')],
  'policy files': [
    constant('reload/policy-files.ts', 'readLimits.file'),
    constant('reload/policy-files.ts', 'readLimits.all'),
    constant('reload/load.ts', 'mostParsed.file'),
    constant('reload/load.ts', 'mostParsed.all'),
    constant('reload/load.ts', 'mostDocuments'),
    constant('yaml/read.ts', 'mostValues'),
    constant('yaml/read.ts', 'mostDepth'),
    constant('reload/policy-source.ts', 'longestLoadMs'),
  ],
  'rate-limit buckets': [
    constant('policy/decide/buckets.ts', 'mostIdentities'),
    constant('shared/buckets.ts', 'identitySlots'),
  ],
  'decisions that are counted for `/decisions`, of each thread': [
    constant('telemetry/decision-counts.ts', 'most.decisions'),
    constant('telemetry/decision-counts.ts', 'most.chars'),
  ],
  'log waiting for a slow reader': [constant('telemetry/output.ts', 'maxWaiting')],
};

t.test('every limit, with the numbers of the code', async (t) => {
  const shown = table('Limits', 'limit');
  t.same(
    shown.map(([limit]) => limit),
    Object.keys(limits),
    'the same limits, in this order',
  );
  for (const [limit = '', value = ''] of shown) t.same(numbersIn(`${limit} ${value}`), limits[limit] ?? null, limit);
});

t.test('numbers beside the table of limits', async (t) => {
  const request = (name: string): number => constant('telemetry/request-metrics.ts', name);
  const interval = (name: string): number => constant('telemetry/decision-records.ts', `most.${name}`);
  const rows: readonly (readonly [said: RegExp, ...values: number[]])[] = [
    [/(\d+) statuses a series/, request('maxStatuses')],
    [/([\d,]+) series a family/, constant('telemetry/series.ts', 'maxSeries')],
    [/\(([\d,]+) for `request_total` and its kin\)/, request('maxClientSeries')],
    [/of each anchor in use, (\d+) at most/, constant('telemetry/load-metrics.ts', 'maxAnchors')],
    [/or for room: (\d+ MiB) of them/, constant('telemetry/output.ts', 'maxWaiting')],
    [/written once, as `60s`; ([\d,]+) different ones and (\d+ MiB)/, interval('counted'), interval('chars')],
    [/does not take within (\d+ MiB) is dropped/, constant('telemetry/decision-file.ts', 'maxWaiting')],
    [/send more than (\d+ KiB), or keep silent/, constant('proxy/http2/client/limits.ts', 'maxProbeContent')],
    [/The app's answer goes back, up to (\d+ KiB) of it/, constant('proxy/http/tls-application.ts', 'mostContent')],
    [
      /has sent for (\d+ s) or (\d+ MiB)\./,
      constant('proxy/http/last-bytes.ts', 'lingerMs'),
      constant('proxy/http/last-bytes.ts', 'lingerBytes'),
    ],
  ];
  const prose = allPages.replace(/\s+/g, ' ');
  for (const [said, ...values] of rows) {
    t.same(said.exec(prose)?.slice(1).flatMap(numbersIn), values, String(said));
  }
});

const own = { group: 'policy.linkerd.io', kind: 'server', name: 'web' };
const ip = parseIp('10.1.2.3') as IpAddress;
const asks = { headers: [], query: new ParameterNames([]), spells: () => false };
const portOf = (protocol: PortPolicy['protocol']): PortPolicy => {
  const server = { ...own, name: protocol };
  return {
    port: 8080,
    server,
    protocol,
    detectTimeoutMs: 1,
    hasRequestRules: true,
    decisionsLast: true,
    rateLimit: null,
    asks,
  };
};
const refs = { server: own, route: own, authz: own, limit: own };
const request = {
  ...{ method: 'GET', path: '/', host: 'web', version: 'HTTP/1.1', reasons: () => ({ reason: '', candidates: [] }) },
  facts: {
    ...{ method: 'GET', path: '/', query: '', host: 'web', grpc: false, carries: 'nothing' as const },
    ...{ header: () => [], oddNames: [] },
  },
};
const bytes = { bytesRead: 1, bytesWritten: 1 };
const reasons = () => ({ reason: '', candidates: [] });

type Sample = readonly [name: string, labels: ReadonlyMap<string, string>];

/** All that has a metric, once for each kind of client and protocol. */
async function everything(): Promise<{ readonly families: readonly string[]; readonly samples: readonly Sample[] }> {
  const telemetry = createTelemetry({
    ...{
      log: pino({ enabled: false }),
      accessLog: null,
      processStart: 0,
      failedLogWrites: () => new Map([['EPIPE', 1]]),
    },
    build: { version: '0', gitSha: 'a', date: '2026-11-20' },
  });
  const { recorder, registry } = telemetry;
  workerMetrics(registry, {
    serving: () => 2,
    deaths: () => new Map([['hung', 1]]),
    openConnections: () => [1, 1],
    figuresAges: () => new Map([[1, 0]]),
  });
  candidateMetrics(registry, { isLoaded: true, isStale: false, loadErrors: 0, agreementSeconds: () => 1 });
  const counts = telemetry.candidateCounts();
  const labels = { subject: 'request', enforced: 'permit', candidate: 'deny', agreement: 'differs' };
  counts.at(portOf('detect'), labels).value++;
  const names = { server: own, route: own, authz: own };
  // Only policy makes permits; telemetry reads no more of one than these fields.
  const permit = {
    kind: 'permit',
    ...names,
    audit: false,
    probe: 'http',
    headerChanges: null,
  } as unknown as RequestPermit;
  const decisions: readonly RequestDecision[] = [
    permit,
    { kind: 'deny', ...refs },
    { kind: 'no-route', server: own },
    { kind: 'rate-limited', ...refs, audit: false, scope: 'total', detail: '' },
    { kind: 'redirect', ...names, audit: false, status: 302, location: null },
    { kind: 'invalid', server: own, detail: '' },
  ];
  const target = { targetIp: '10.1.0.9', targetPort: 8080 };
  for (const tls of [
    { kind: 'none', reason: 'no_tls_from_remote' },
    { kind: 'mesh', identity: { form: 'dns', name: 'a.ns' } },
    { kind: 'passthrough', sni: 'db' },
  ] as const) {
    const scope = recorder.connection({ ...target, client: { ip, tls }, clientPort: 1 });
    for (const policy of [portOf('detect'), portOf('grpc')]) {
      for (const decision of decisions) {
        scope.requestDecided(policy, decision, request);
        if (decision.kind !== 'permit') scope.requestTerminated(policy, decision, request);
      }
      scope.httpError(policy, { code: 'ERR_SALLYPORT_OVERLOAD', label: 'loadshed', detail: '', met: null }, request);
      scope.detected(policy, 'http/1', 0);
      const started = scope.requestStarted(policy, permit, policy.protocol === 'grpc');
      started.requestEnded();
      started.responseHead(200);
      started.responseEnded('0', '');
      scope.openSource(policy, bytes).closed('');
      const opened = { kind: 'permit', server: own, authz: own, audit: false } as unknown as ConnectionPermit;
      scope.connectionDecided(policy, opened);
      scope.connectionDecided(policy, { kind: 'deny', server: own });
      scope.connectionTerminated(policy);
    }
    scope.tcpError('i/o', null);
  }
  recorder.openDestination(bytes).closed('');
  const refusal = { ...target, clientIp: ip, clientPort: 1, policies: [own], connection: 'new' } as const;
  recorder.networkRefused(portOf('detect'), refusal, reasons);
  const notAfter = new Date();
  telemetry.identityLoaded({
    ...{ expiresAt: notAfter, refreshedAt: notAfter, anchors: [{ subject: 'CN=a', id: 'AA', notAfter }] },
  });
  telemetry.policyLoaded(1, 1);
  const { body } = await telemetry.exposition();
  const samples = [...body.matchAll(/^(\w+)(?:\{(.*)\})? \S+$/gm)].map(
    ([, name = '', list = '']): Sample => [
      name,
      new Map([...list.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(([, label = '', value = '']) => [label, value])),
    ],
  );
  const families = [...body.matchAll(/^# TYPE (\S+) /gm)].map(([, name = '']) => name);
  return { families: families.filter((name) => !name.startsWith('nodejs_')), samples };
}

/** What the page says of the labels of one family: those that a series has, beside some only where a condition holds. */
interface Said {
  readonly always: readonly string[];
  readonly also: readonly (readonly [condition: string, labels: readonly string[]])[];
}

/** A group, and what each of its letters stands for. `TLS`: one of its last. */
function groups(): ReadonlyMap<string, readonly string[]> {
  const text = section('Metrics');
  const found = [...text.matchAll(/\*\*([A-Z]+)\*\* `([^`]+)`/g)].map(
    ([, name = '', list = '']) => [name, list.split(', ')] as const,
  );
  return new Map(found);
}

const oneOfTls = /\*\*TLS\*\* `tls` with `(\w+)`, `(\w+)` or `(\w+)`/.exec(section('Metrics'))?.slice(1) ?? [];

/** @param before the row above; `all` those above that. */
function labelsSaid(cell: string, before: readonly string[], all: ReadonlyMap<string, Said>): string[] {
  const known = groups();
  return [...cell.matchAll(/those of `(\w+)`|`([^`]+)`|\b(those|same|TLS|[A-Z])\b/g)].flatMap(
    ([word, of = '', quoted = '']) => {
      if (of !== '') return [...(all.get(of)?.always ?? [])];
      if (quoted !== '') return quoted.includes('{') ? expand(quoted) : quoted.split(', ');
      if (word === 'those' || word === 'same') return [...before];
      return [...(known.get(word) ?? [`${word}, which the page does not explain`])];
    },
  );
}

function saidOfLabels(): ReadonlyMap<string, Said> {
  const all = new Map<string, Said>();
  let before: Said = { always: [], also: [] };
  for (const [names, , cell = ''] of table('Metrics', 'metric')) {
    const [first = '', ...rest] = cell.split('; ');
    const repeats = /\b(those|same)\b(?! of)/.test(first);
    const also = rest.map((clause): readonly [string, string[]] => {
      const [condition = '', list = ''] = clause.split(' also ');
      return [bare(condition), labelsSaid(list, [], all)];
    });
    const said: Said = {
      always: labelsSaid(first, before.always, all),
      also: repeats ? [...before.also, ...also] : also,
    };
    for (const name of expand(bare(names))) all.set(name, said);
    before = said;
  }
  return all;
}

/** Whether what is said under it is about this series: a label's value, or a part of the metric's name. */
function holds(condition: string, name: string, labels: ReadonlyMap<string, string>): boolean {
  const [, label, value] = /^(\w+)="(\w+)"$/.exec(condition) ?? [];
  if (label !== undefined) return labels.get(label) === value;
  const part = { ours: 'sallyport_', "Linkerd's": 'proxy_' }[condition] ?? `_${condition}_`;
  return name.includes(part);
}

t.test('every metric has the labels that the page says, and no other', async (t) => {
  t.equal(oneOfTls.length, 3, 'the kinds of TLS are said');
  const said = saidOfLabels();
  const { families, samples } = await everything();
  t.ok(families.length > 60, 'metrics are found at all');
  for (const family of families) {
    const of = samples.filter(([name]) => name.replace(/_(bucket|sum|count)$/, '') === family || name === family);
    const { always, also } = said.get(family) ?? { always: ['a row'], also: [] };
    const odd = of
      .map(([, labels]) => {
        const wanted = [
          ...always,
          ...also.flatMap(([condition, more]) => (holds(condition, family, labels) ? more : [])),
        ];
        const kind = wanted.includes('tls') ? oneOfTls.filter((label) => labels.has(label)) : [];
        const sorted = (names: Iterable<string>): string => [...names].sort().join();
        const got = sorted([...labels.keys()].filter((label) => label !== 'le'));
        const isTold = !wanted.includes('tls') || kind.length === 1;
        return isTold && got === sorted([...wanted, ...kind]) ? '' : `${got}, and said: ${sorted(wanted)}`;
      })
      .filter((each) => each !== '');
    t.same([...new Set(odd)], [], family);
    if (always.length > 0) t.ok(of.length > 0, `${family} has a series`);
  }
});

/** What a row of the table of metrics says in its last cell. */
function saidOf(metric: string): string {
  return table('Metrics', 'metric').find(([names]) => expand(bare(names)).includes(metric))?.[3] ?? '';
}

const quotedIn = (text: string): string[] => [...text.matchAll(/`([^`]+)`/g)].flatMap(([, word = '']) => expand(word));

t.test('label values that are listed', async (t) => {
  const reasonsSaid = quotedIn(saidOf('sallyport_tls_failures_total')).filter((word) => !word.includes('inbound_'));
  t.same(reasonsSaid.filter((word) => word !== 'i/o').sort(), Object.keys(handshakeCodes).sort());
  const ofVariables = Object.keys(limitVariables).map((name) => name.replace('SALLYPORT_', '').toLowerCase());
  const [, without] = saidOf('sallyport_limit_reached_total').split('without the prefix, ');
  t.same([...ofVariables, ...quotedIn(without ?? '')].sort(), [...limitNames].sort());
  const [, reasons] = saidOf('sallyport_redirect_closed_total').split('nowhere: ');
  t.same(quotedIn(reasons ?? ''), strayReasons);
});

/** The texts that a type stands for, of those that are written out in a file of lib/. */
function union(file: string, type: string): string[] {
  const source = readFileSync(join(root, 'lib', file), 'utf8');
  const [, text = ''] = new RegExp(`type ${type} =([^;]+);`).exec(source) ?? [];
  return [...text.matchAll(/'([^']+)'/g)].map(([, each = '']) => each);
}

/** The kinds of a tagged union, of those that are written out in a file of lib/. */
function kindsIn(file: string): string[] {
  const source = readFileSync(join(root, 'lib', file), 'utf8');
  return [...source.matchAll(/^ {2}readonly kind: ([^;]+);/gm)].flatMap(([, kinds = '']) =>
    [...kinds.matchAll(/'([^']+)'/g)].map(([, each = '']) => each),
  );
}

t.test('the labels of candidate decisions, with their values', async (t) => {
  const rows = new Map(table('Candidate policy', 'label').map(([label, values = '']) => [label, quotedIn(values)]));
  const sorted = (values: Iterable<string> = []): string[] => [...new Set(values)].sort();
  t.same(rows.get('`subject`'), union('app/candidate/round.ts', 'Subject'));
  const agreements = [...union('policy/beside.ts', 'Agreement'), ...union('app/candidate/round.ts', 'ComparedAs')];
  const agreementSaid = rows.get('`agreement`')?.filter((value) => value !== 'error' && value !== 'unasked');
  t.same(agreementSaid, agreements);
  const kinds = ['policy/decision.ts', 'policy/carried.ts', 'policy/beside.ts'].flatMap(kindsIn);
  // What the candidate has not decided: app/candidate/containment.ts.
  const undecided = ['error', 'unasked'];
  t.same(sorted(rows.get('`enforced`, `candidate`')), sorted([...kinds, 'audit', ...undecided]));
});
