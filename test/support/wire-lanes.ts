import { join } from 'node:path';
import type { Test } from 'tap';
import { testCertificate } from './certificates.ts';
import { temporaryFolder } from './files.ts';
import { createNamespace } from './namespace.ts';
import { adminPort, type CaseLane, CaseRun, Certificates, sourceOf } from './policy-case-run.ts';
import { allChecks, type PolicyCase, type PolicyCases } from './policy-cases.ts';
import { mapBounded } from './until.ts';
import { startDriver } from './wire-driver.ts';

/** Proxies at one time, each with a namespace to itself: the cases want fixed ports. */
const lanes = 3;

/** Every case over real connections, each with a proxy of its own, in namespaces that have all addresses. */
export async function runCasesOnTheWire(t: Test, cases: PolicyCases): Promise<void> {
  const everyCheck = cases.cases.flatMap(allChecks);
  const podAddresses = cases.defaults.pod.status.podIPs.map(({ ip }) => ip);
  const addresses = [...everyCheck.map(({ client }) => sourceOf(client)), ...podAddresses].map(canonical);
  const ports = new Set(everyCheck.map(({ request }) => request.port).filter((port) => port !== adminPort));
  const appCertificate = testCertificate({ dnsNames: ['db.example.com'] });
  const rows: CaseLane[] = [];
  for (let number = 0; number < lanes; number++) {
    const namespace = await createNamespace(
      t,
      [...new Set(addresses)].filter((address) => address !== '::1' && !/^127\./.test(address)),
    );
    const driver = await startDriver(t, namespace.within);
    const apps = new Map<number, number>();
    for (const port of ports) {
      const tls = { cert: appCertificate.certificatePem, key: appCertificate.keyPem };
      apps.set(port, await driver.startApp({ tls }));
    }
    rows.push({ namespace, driver, apps });
  }
  const folder = temporaryFolder(t);
  const certificates = new Certificates();
  const results = await mapBounded(cases.cases, lanes, async (policyCase, lane) => {
    const run = new CaseRun(t, {
      cases,
      policyCase,
      lane: rows[lane] as CaseLane,
      folder: join(folder, policyCase.id),
      certificates,
    });
    return run.faults();
  });
  for (const [index, faults] of results.entries()) {
    const { id, title } = cases.cases[index] as PolicyCase;
    t.same(faults, [], `${id} ${title}`);
  }
}

/** One spelling for each address, so that none is added to a device twice. */
function canonical(address: string): string {
  return address.includes(':') ? new URL(`http://[${address}]`).hostname.slice(1, -1) : address;
}
