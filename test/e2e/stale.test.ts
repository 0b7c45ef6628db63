import { rmSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { testCertificate, workloadName } from '../support/certificates.ts';
import { identityEnvironment, replaceFile, temporaryFolder } from '../support/files.ts';
import { scrape } from '../support/metrics.ts';
import { openAdmin, openServer, policyEnvironment } from '../support/open-policy.ts';
import { freePort } from '../support/ports.ts';
import { type LogLine, runSallyport, type Sallyport, startSallyport } from '../support/sallyport.ts';
import { patience, until } from '../support/until.ts';

/*
 * What is in force while its files are broken says so: in metrics, in /policy, and when it is mended for how long it was.
 * The lines in between are in test/unit/reload/standing.test.ts, whose clock does not have to be waited for.
 */
t.setTimeout(900_000);

const name = workloadName('web', 'shop');

interface Stale {
  readonly since: string;
  readonly seconds: number;
  readonly reason: string;
  readonly faults: readonly string[];
}

interface PolicyPage {
  readonly load: { readonly generation: number; readonly loadedAt: string | null; readonly stale: Stale | null };
  readonly podFacts: { readonly stale: Stale | null };
  readonly identity: { readonly notAfter: string; readonly stale: Stale | null } | null;
  readonly ports?: readonly unknown[];
}

function policyPage({ adminPort }: Sallyport): Promise<PolicyPage> {
  return new Promise((resolve, reject) => {
    const get = request({ host: '127.0.0.1', port: adminPort, path: '/policy', agent: false }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (chunk: string) => {
        text += chunk;
      });
      response.on('end', () => resolve(JSON.parse(text)));
      response.on('error', reject);
    });
    get.on('error', reject);
    get.end();
  });
}

const kinds = ['policy', 'identity', 'pod_facts'] as const;
type Kind = (typeof kinds)[number];

const staleOf = (page: PolicyPage, kind: Kind): Stale | null =>
  ({ policy: page.load, identity: page.identity ?? page.load, pod_facts: page.podFacts })[kind].stale;

async function staleKinds({ adminPort }: Sallyport): Promise<Kind[]> {
  const shown = await scrape(adminPort);
  return kinds.filter((kind) => shown.sum(`sallyport_${kind}_stale`) === 1);
}

interface Stage {
  readonly sallyport: Sallyport;
  readonly home: string;
  readonly documents: string;
}

async function started(t: Test): Promise<Stage> {
  const home = temporaryFolder(t);
  const port = await freePort();
  const documents = openServer('web', port);
  replaceFile(join(home, 'labels', 'labels'), 'app="web"\n');
  const sallyport = await startSallyport(t, {
    env: {
      ...policyEnvironment(home, documents),
      SALLYPORT_INBOUND_PORTS: `${port}=127.0.0.1:9`,
      SALLYPORT_POD_LABELS_FILE: join(home, 'labels', 'labels'),
      ...identityEnvironment(join(home, 'identity'), testCertificate({ dnsNames: [name] })),
    },
  });
  return { sallyport, home, documents: documents + openAdmin };
}

t.test('each is told of by itself, until it is mended', async (t) => {
  const { sallyport, home, documents } = await started(t);
  const policyFile = join(home, 'policy', 'policy.yaml');
  const certFile = join(home, 'identity', 'own.crt');
  const labelsFile = join(home, 'labels', 'labels');
  const next = testCertificate({ dnsNames: [name] });
  const rows: readonly {
    readonly kind: Kind;
    readonly breaks: () => void;
    readonly fault: RegExp;
    readonly mends: () => void;
    readonly again: string;
  }[] = [
    {
      kind: 'policy',
      breaks: () => replaceFile(policyFile, documents.replace('kind: Server', 'kind: Sever')),
      fault: /policy\.yaml:\d+:\d+: .*\[near-miss\]/,
      mends: () => replaceFile(policyFile, documents),
      again: 'Policy files are good again',
    },
    {
      kind: 'policy',
      breaks: () => replaceFile(policyFile, 'a: [\n'),
      fault: /policy\.yaml:\d+:\d+: .*\[yaml-syntax\]/,
      mends: () => replaceFile(policyFile, `${documents}---\n# otherwise\n`),
      again: 'Policy files are good again',
    },
    {
      kind: 'identity',
      breaks: () => replaceFile(certFile, next.certificatePem),
      fault: /private key is not the one of the certificate.*\[foreign-key\]/,
      mends: () => replaceFile(join(home, 'identity', 'own.key'), next.keyPem),
      again: 'Identity files are good again',
    },
    {
      kind: 'pod_facts',
      breaks: () => replaceFile(labelsFile, 'app=web\nnonsense\n'),
      fault: /labels/,
      mends: () => replaceFile(labelsFile, 'app="web"\nmore="yes"\n'),
      again: 'The facts of the pod can be read again',
    },
  ];
  t.same(await staleKinds(sallyport), [], 'nothing at first');
  const page = await policyPage(sallyport);
  t.match(page, { load: { generation: 1, stale: null }, podFacts: { stale: null }, identity: { stale: null } });
  t.ok(Date.parse(page.load.loadedAt ?? '') <= Date.now(), 'when it was loaded');
  for (const { kind, breaks, fault, mends, again } of rows) {
    const { generation } = (await policyPage(sallyport)).load;
    const lines = sallyport.logs().length;
    breaks();
    await until(`${kind} to be stale`, async () => (await staleKinds(sallyport)).join() === kind);
    const broken = await policyPage(sallyport);
    t.match(staleOf(broken, kind), { since: /^20\d\d-/, reason: /./ }, kind);
    t.match(staleOf(broken, kind)?.faults.join('\n'), fault, `${kind}: what is wrong`);
    t.equal(broken.load.generation, generation, 'what was in force still is');
    t.ok((broken.ports?.length ?? 0) > 0);
    for (const other of kinds) if (other !== kind) t.equal(staleOf(broken, other), null, `${other} is not`);
    t.equal(await sallyport.health('/ready'), 200, 'the last good one is good enough to be ready');
    const text = await (await fetch(`http://127.0.0.1:${sallyport.healthPort}/ready`)).text();
    t.match(text, /^ready\n.+ on disk cannot be /, `${kind}: and yet /ready says it`);
    const health = await runSallyport(t, ['health'], { SALLYPORT_HEALTH_LISTEN: `127.0.0.1:${sallyport.healthPort}` });
    t.match(health, { code: 0, stderr: /warning: .* on disk cannot be .*\[stale-files\]/ });
    if (kind !== 'pod_facts') {
      t.match(
        text,
        /; a restart would (lose them, and authorize nothing while the files cannot be loaded|not start)\n$/,
      );
      const isTold = ({ msg }: LogLine): boolean => /^(Policy not loaded|Identity not reloaded)/.test(String(msg));
      const told = await until(`${kind}: its line`, () => sallyport.logs().slice(lines).find(isTold));
      t.match(
        told,
        {
          restart:
            /^A restart now would (lose that policy, and authorize nothing while the files cannot be loaded|not start)\.$/,
        },
        `${kind}: the line says what a restart would do`,
      );
    }
    mends();
    await until(`${kind} to be mended`, async () => (await staleKinds(sallyport)).length === 0);
    const mended = () =>
      sallyport
        .logs()
        .slice(lines)
        .filter(({ msg }) => msg === again);
    const line = await until(`${kind}: ${again}`, () => mended()[0]);
    t.type(line.seconds, 'number');
    t.match(line.lasted, /^\d+s$/, 'how long it lasted');
    t.equal(staleOf(await policyPage(sallyport), kind), null);
    t.equal(mended().length, 1, 'once');
  }
});

t.test('before the first good load there is a page, and it says why there is nothing else', async (t) => {
  const home = temporaryFolder(t);
  const port = await freePort();
  replaceFile(join(home, 'policy', 'policy.yaml'), 'a: [\n');
  const sallyport = await startSallyport(t, {
    awaitReady: false,
    env: {
      SALLYPORT_POLICY: join(home, 'policy'),
      SALLYPORT_POD_NAMESPACE: 'shop',
      SALLYPORT_INBOUND_PORTS: `${port}=127.0.0.1:9`,
    },
  });
  await sallyport.waitForLog('the refusal', ({ msg }) => msg === 'Policy not loaded; nothing is authorized');
  replaceFile(join(home, 'policy', 'policy.yaml'), openServer('web', port) + openAdmin);
  const line = await sallyport.waitForLog('the end of it', ({ msg }) => msg === 'Policy files are good again');
  t.match(line, { generation: 1 });
  await until('readiness', async () => (await sallyport.health('/ready')) === 200);
});

t.test('a certificate that is not valid yet is taken when it is, though nothing touches its file again', async (t) => {
  const { sallyport, home } = await started(t);
  // Not before it has been read, and refused.
  const soon = new Date(Math.ceil(Date.now() / 1000 + 3 * patience()) * 1000);
  const next = testCertificate({ dnsNames: [name], notBefore: soon });
  writeFileSync(join(home, 'identity', 'own.key'), next.keyPem);
  replaceFile(join(home, 'identity', 'own.crt'), next.certificatePem);
  const refused = ({ msg, code }: { msg?: unknown; code?: unknown }): boolean =>
    msg === 'Identity not reloaded; the last good one stays in use' && code === 'certificate-not-yet-valid';
  await sallyport.waitForLog('the refusal', refused);
  const isNew = ({ msg, notAfter }: { msg?: unknown; notAfter?: unknown }): boolean =>
    msg === 'Identity loaded' && notAfter === new Date(soon.getTime() + 864e5).toISOString();
  await sallyport.waitForLog('the new one', isNew, 20_000);
  t.ok(Date.now() >= soon.getTime());
  await sallyport.waitForLog('the end of it', ({ msg }) => msg === 'Identity files are good again');
});

t.test('our own certificate, and an anchor, expire in the log', async (t) => {
  const home = temporaryFolder(t);
  // It must outlive the start of the proxy.
  const seconds = Math.min(50, Math.ceil(4 * patience()));
  const notBefore = new Date(Date.now() - 3_600_000);
  const short = testCertificate({ dnsNames: [name], notBefore, days: (3600 + seconds) / 86_400 });
  const port = await freePort();
  const sallyport = await startSallyport(t, {
    env: {
      ...policyEnvironment(home, openServer('web', port)),
      SALLYPORT_INBOUND_PORTS: `${port}=127.0.0.1:9`,
      ...identityEnvironment(join(home, 'identity'), short),
    },
  });
  const ahead = await sallyport.waitForLog('a warning', ({ code }) => code === 'certificate-expiring');
  t.match(ahead, { level: 'warn', msg: 'Identity certificate expires soon', subject: `DNS:${name}`, left: /^\d\d?s$/ });
  const end = await sallyport.waitForLog('the end', ({ code }) => code === 'certificate-expired', 20_000);
  t.match(end, { level: 'error', msg: 'Identity certificate has expired', notAfter: ahead.notAfter });
  const expires = (await scrape(sallyport.adminPort)).sum('control_identity_cert_expiration_timestamp_seconds');
  t.equal(expires, Date.parse(String(end.notAfter)) / 1000, 'as the gauge says');
  t.equal(await sallyport.health('/ready'), 200, 'requests without TLS are served as before');
  const anchors = (await scrape(sallyport.adminPort)).find('sallyport_trust_anchor_expiration_timestamp_seconds');
  t.same(
    anchors.map(({ labels }) => labels.get('subject')),
    ['CN=Sallyport test authority'],
  );
  rmSync(join(home, 'identity'), { recursive: true });
});
