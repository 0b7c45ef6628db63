import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { connect } from 'node:tls';
import t from 'tap';
import { mostIntermediates } from '../../../lib/reload/chain-depth.ts';
import { http1Request } from '../../support/attacked-routes.ts';
import { testCertificate, workloadName } from '../../support/certificates.ts';
import {
  type Crafted,
  type CraftedSubject,
  costlyChain,
  craft,
  extensions,
} from '../../support/crafted-certificate.ts';
import { identityEnvironment, temporaryFolder } from '../../support/files.ts';
import { openServer, policyEnvironment } from '../../support/open-policy.ts';
import { freePorts } from '../../support/ports.ts';
import { startSallyport } from '../../support/sallyport.ts';
import { startWitness } from '../../support/witness.ts';

/*
 * A certificate counts by the chain that comes with it: each of its links is held to what its issuer was allowed, and a
 * chain costs little, even one that was made up.
 */
const ownName = workloadName('web', 'shop');
const caller = workloadName('orders', 'shop');

t.setTimeout(900_000);

const { authority, dnsName, endEntity, keyUsage, permittedDns, unknown, usage } = extensions;
const root = craft({ cn: 'root', extensions: [authority()] });
const own = craft({ cn: 'web', extensions: [endEntity(), dnsName(ownName)] }, root);
const pem = (...chain: readonly Crafted[]): string => chain.map(({ certificate }) => certificate.toString()).join('');
const keyOf = ({ key }: Crafted): string => key.export({ type: 'pkcs8', format: 'pem' }) as string;

const folder = temporaryFolder(t);
const app = await startWitness(t);
const [open = 0] = await freePorts(1);
const sallyport = await startSallyport(t, {
  env: {
    ...policyEnvironment(folder, openServer('open', open)),
    SALLYPORT_INBOUND_PORTS: `${open}=127.0.0.1:${app.port}`,
    ...identityEnvironment(join(folder, 'identity'), {
      ...testCertificate({}),
      certificatePem: pem(own),
      keyPem: keyOf(own),
      trustAnchorsPem: pem(root),
    }),
  },
});

/** A status, or `ended`. */
function ask(cert: string, key: string): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect({
      port: open,
      servername: ownName,
      ca: pem(root),
      checkServerIdentity: () => undefined,
      cert,
      key,
    });
    socket.once('secureConnect', () => socket.write(http1Request('/')));
    socket.once('data', (data: Buffer) => {
      socket.destroy();
      resolve(data.toString('latin1').slice(9, 12));
    });
    // Whatever became of it, 'close' comes next.
    socket.on('error', () => {});
    socket.on('close', () => resolve('ended'));
  });
}

/** A workload's certificate below `intermediates`, the one next to the root first. */
function chained(leaf: Partial<CraftedSubject>, ...intermediates: readonly (readonly Buffer[] | CraftedSubject)[]) {
  let issuer = root;
  let chain = '';
  for (const [i, each] of intermediates.entries()) {
    const subject = 'cn' in each ? each : { cn: `issuer ${i}`, extensions: each };
    issuer = craft(subject, issuer);
    chain = pem(issuer) + chain;
  }
  const certificate = craft({ cn: 'orders', extensions: [endEntity(), dnsName(caller)], ...leaf }, issuer);
  return ask(pem(certificate) + chain, keyOf(certificate));
}

const dayMs = 864e5;
const plain = [authority()];
const leafOf = (...more: readonly Buffer[]) => ({ extensions: [endEntity(), dnsName(caller), ...more] });
const expired = { notBefore: new Date(Date.now() - 2 * dayMs), notAfter: new Date(Date.now() - dayMs) };
const early = { notBefore: new Date(Date.now() + dayMs), notAfter: new Date(Date.now() + 2 * dayMs) };

t.test('what a chain may claim', async (t) => {
  const rows: readonly (readonly [title: string, outcome: () => Promise<string>, wanted: string])[] = [
    ['the root alone', () => chained({}), '200'],
    ['an intermediate', () => chained({}, plain), '200'],
    ['as many as may be', () => chained({}, ...Array(mostIntermediates).fill(plain)), '200'],
    ['one more', () => chained({}, ...Array(mostIntermediates + 1).fill(plain)), 'ended'],
    ['an issuer that is no authority', () => chained({}, [endEntity()]), 'ended'],
    ['an issuer without basicConstraints', () => chained({}, []), 'ended'],
    ['an issuer that may not sign certificates', () => chained({}, [authority(), keyUsage(0x80)]), 'ended'],
    ['an issuer that may', () => chained({}, [authority(), keyUsage(0x04)]), '200'],
    ['a path as long as its issuer allows', () => chained({}, [authority(1)], plain), '200'],
    ['a longer one', () => chained({}, [authority(0)], plain), 'ended'],
    ['an expired issuer', () => chained({}, { cn: 'old', extensions: plain, ...expired }), 'ended'],
    ['an issuer that is not valid yet', () => chained({}, { cn: 'new', extensions: plain, ...early }), 'ended'],
    ['an expired certificate', () => chained({ ...expired }), 'ended'],
    ['one that is not valid yet', () => chained({ ...early }), 'ended'],
    ['a name that its issuer may give', () => chained({}, [authority(), permittedDns('cluster.local')]), '200'],
    ['a name that it may not', () => chained({}, [authority(), permittedDns('elsewhere.test')]), 'ended'],
    ['an issuer for servers only', () => chained({}, [authority(), usage('serverAuth')]), 'ended'],
    ['an issuer for clients', () => chained({}, [authority(), usage('clientAuth')]), '200'],
    ['a critical extension that nobody knows', () => chained(leafOf(unknown(true))), 'ended'],
    ['the same, not critical', () => chained(leafOf(unknown(false))), '200'],
    ['a critical one on the issuer', () => chained({}, [authority(), unknown(true)]), 'ended'],
    ['a key that may not sign', () => chained(leafOf(keyUsage(0x20))), 'ended'],
    ['a certificate for servers', () => chained(leafOf(usage('serverAuth'))), 'ended'],
  ];
  for (const [title, outcome, wanted] of rows) t.equal(await outcome(), wanted, title);
});

t.test('what a chain may cost', async (t) => {
  const cpuMs = (): number => {
    const [, fields = ''] = readFileSync(`/proc/${sallyport.pid}/stat`, 'utf8').split(') ');
    const [user, system] = fields.split(' ').slice(11, 13);
    // In hundredths of a second, on every Linux.
    return (Number(user) + Number(system)) * 10;
  };
  const rows = [
    { kind: 'rsa', count: 70 },
    { kind: 'dsa', count: 24 },
  ] as const;
  for (const { kind, count } of rows) {
    const chain = costlyChain(kind, count);
    await ask(chain.cert, chain.key);
    const before = cpuMs();
    t.equal(await ask(chain.cert, chain.key), 'ended', `${kind}: nobody vouches for it`);
    const spent = cpuMs() - before;
    // 600 and 300 ms where every signature is verified.
    t.ok(spent <= 200, `${kind}: ${count} signatures cost ${spent} ms`);
  }
});

t.test('the proxy is well', async (t) => {
  t.equal(sallyport.child.process.exitCode, null);
  t.match(await sallyport.stop(), { code: 0 });
});
