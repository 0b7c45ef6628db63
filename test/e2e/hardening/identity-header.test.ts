import { join } from 'node:path';
import type { ConnectionOptions } from 'node:tls';
import t, { type Test } from 'tap';
import { closedServer, http1Request, lanes, openRoute, route } from '../../support/attacked-routes.ts';
import { meshClient, testCertificate, workloadCertificate, workloadName } from '../../support/certificates.ts';
import { identityEnvironment } from '../../support/files.ts';
import {
  type Fields,
  FrameClient,
  flag,
  frame,
  type as frameType,
  headerBlock,
  headersFrame,
  outcomeText,
  requestFields,
} from '../../support/http2-frames.ts';
import { openServer, policyEnvironment } from '../../support/open-policy.ts';
import { freePorts } from '../../support/ports.ts';
import { latin1, RawClient } from '../../support/raw-http.ts';
import { startSallyport } from '../../support/sallyport.ts';
import { until } from '../../support/until.ts';
import { startWitness, type Witness } from '../../support/witness.ts';

/*
 * The app believes `l5d-client-id`. Whatever a client sends under that name, or under one that a framework folds onto it,
 * must be gone on every way through the proxy; and no client can have ours removed or doubled.
 */

const forged = workloadName('admin', 'shop');

/** Header lines of the attacker, with where the trick comes from. */
const attacks: readonly (readonly [title: string, fields: Fields])[] = [
  ['the name itself (CVE-2023-27487, CVE-2024-45806)', [['l5d-client-id', forged]]],
  ['another case', [['L5D-Client-ID', forged]]],
  ['underscores (CVE-2026-54763)', [['l5d_client_id', forged]]],
  ['mixed', [['l5d-client_id', forged]]],
  ['dots (CVE-2026-88011)', [['l5d.client.id', forged]]],
  ...[..."|'~!*#^$%&+`"].map((c) => [`${c} for the hyphens`, [[`l5d${c}client${c}id`, forged]]] as const),
  ['promised as a trailer', [['Trailer', 'l5d-client-id']]],
  ['promised as a trailer among others, by another name', [['trailer', 'X-Digest, L5D_Client.Id']]],
  [
    'many at once',
    [
      ['l5d-client-id', forged],
      ['L5d_Client.Id', forged],
      ['l5d-client-id', ''],
    ],
  ],
];

/** HTTP/1 alone: HTTP/2 has no Connection header (RFC 9113 8.2.2). */
const hopByHop: readonly (readonly [title: string, fields: Fields])[] = [
  ['named in Connection (CVE-2024-45410)', [['Connection', 'l5d-client-id']]],
  [
    'named in Connection beside close',
    [
      ['Connection', 'close, L5D-CLIENT-ID'],
      ['l5d-client-id', forged],
    ],
  ],
  [
    'named in two Connection lines',
    [
      ['Connection', 'keep-alive'],
      ['Connection', 'l5d-client-id'],
    ],
  ],
];

const ownName = workloadName('web', 'shop');
const callerName = workloadName('orders', 'shop');

interface Stage {
  readonly app: Witness;
  readonly ports: readonly (readonly [kind: string, port: number])[];
  readonly mesh: ConnectionOptions;
}

async function startStage(t: Test, env: Readonly<Record<string, string>>): Promise<Stage> {
  const folder = t.testdir();
  const app = await startWitness(t);
  const [open = 0, routed = 0, probed = 0, audited = 0] = await freePorts(4);
  const ports = [
    ['the default route', open],
    ['an HTTPRoute', routed],
    ['a probe', probed],
    ['audit', audited],
  ] as const;
  await startSallyport(t, {
    env: {
      ...policyEnvironment(
        folder,
        openServer('open', open) +
          closedServer('routed', routed) +
          route('all', 'routed', '/') +
          openRoute('all') +
          closedServer('probed', probed) +
          closedServer('audited', audited, 'unknown', 'audit'),
      ),
      SALLYPORT_INBOUND_PORTS: ports.map(([, port]) => `${port}=127.0.0.1:${app.port}`).join(),
      SALLYPORT_PROBES: `${probed}/healthz`,
      ...identityEnvironment(join(folder, 'identity'), testCertificate({ dnsNames: [ownName] })),
      ...env,
    },
  });
  const mesh = meshClient(ownName, workloadCertificate('orders', 'shop'));
  return { app, ports, mesh };
}

const isIdentity = (name: string): boolean =>
  name
    .trim()
    .toLowerCase()
    .replace(/[^a-z0-9]/g, '-') === 'l5d-client-id';

/** Every field of the last request that some framework would take for the identity, or for the promise of one. */
function identitiesSeen({ requests }: Witness): string[] {
  const headers = requests.at(-1)?.headers ?? [];
  const promised = headers.filter(([name]) => name.toLowerCase() === 'trailer');
  return [
    ...headers.filter(([name]) => isIdentity(name)).map(([name, value]) => `${name.toLowerCase()}=${value}`),
    ...promised.flatMap(([, value]) => value.split(',').filter(isIdentity)),
  ];
}

async function http1(port: number, fields: Fields, tls: ConnectionOptions | undefined): Promise<number> {
  const client = await RawClient.open({ port, ...(tls === undefined ? {} : { tls }) });
  try {
    client.send(
      latin1(
        http1Request(
          '/healthz',
          fields.map(([name, value]) => `${name}: ${value}`),
        ),
      ),
    );
    const [response] = await client.responses(['GET']);
    return response?.status ?? 0;
  } finally {
    client.destroy();
  }
}

async function http2(port: number, fields: Fields, tls: ConnectionOptions | undefined): Promise<string> {
  const client = await FrameClient.open({ port, ...(tls === undefined ? {} : { tls }) });
  try {
    const lower = fields.map(([name, value]) => [name.toLowerCase(), value] as const);
    client.send(headersFrame(1, requestFields('/healthz', lower)));
    return outcomeText(await client.outcome(1));
  } finally {
    client.destroy();
  }
}

t.setTimeout(900_000);

for (const { name, env } of lanes) {
  t.test(name, async (t) => {
    const { app, ports, mesh } = await startStage(t, env);
    for (const [kind, port] of ports) {
      for (const [client, tls, wanted] of [
        ['no identity', undefined, []],
        ['an identity', mesh, [`l5d-client-id=${callerName}`]],
      ] as const) {
        for (const [title, fields] of [...attacks, ...hopByHop]) {
          const what = `${kind}, ${client}: ${title}`;
          const before = app.requests.length;
          t.equal(await http1(port, fields, tls), 200, `HTTP/1, ${what}`);
          t.equal(app.requests.length, before + 1);
          t.same(identitiesSeen(app), wanted, 'the app sees the verified identity and no other');
        }
        for (const [title, fields] of attacks) {
          const what = `${kind}, ${client}: ${title}`;
          t.equal(await http2(port, fields, tls), '200', `HTTP/2, ${what}`);
          t.same(identitiesSeen(app), wanted);
          const downgraded: Fields = [...fields, ['l5d-orig-proto', 'HTTP/1.1']];
          t.equal(await http2(port, downgraded, tls), '200', `HTTP/1 inside HTTP/2, ${what}`);
          t.equal(app.requests.at(-1)?.version, '1.1');
          t.same(identitiesSeen(app), wanted);
        }
      }
    }
    t.same(app.malformed, []);
  });
}

t.test('upgrades', async (t) => {
  const { app, ports, mesh } = await startStage(t, {});
  const [, port] = ports[0] as readonly [string, number];
  for (const protocol of ['websocket', 'chat/1']) {
    for (const [title, fields] of attacks) {
      const upgrade: Fields = [['Connection', 'Upgrade, l5d-client-id'], ['Upgrade', protocol], ...fields];
      t.equal(await http1(port, upgrade, undefined), 200, `${protocol}, no identity: ${title}`);
      t.same(identitiesSeen(app), []);
      t.equal(await http1(port, upgrade, mesh), 200, `${protocol}, an identity: ${title}`);
      t.same(identitiesSeen(app), [`l5d-client-id=${callerName}`]);
    }
  }
});

t.test('trailers', async (t) => {
  const { app, ports } = await startStage(t, {});
  const [, port] = ports[0] as readonly [string, number];
  const trailers: Fields = [...attacks.flatMap(([, fields]) => fields), ['x-digest', 'abc']];
  const client = await FrameClient.open({ port });
  const lower = trailers.map(([name, value]) => [name.toLowerCase(), value] as const);
  client.send(
    headersFrame(1, requestFields('/trailers', [['te', 'trailers']], 'POST'), false),
    frame(frameType.data, 0, 1, Buffer.from('body')),
    frame(frameType.headers, flag.endHeaders | flag.endStream, 1, headerBlock(lower)),
  );
  t.equal(outcomeText(await client.outcome(1)), '200');
  const seen = await until('the trailers', () => app.requests[0]?.trailers ?? undefined);
  t.same(seen, [['x-digest', 'abc']], 'HTTP/2: the honest one alone');
  client.destroy();
});
