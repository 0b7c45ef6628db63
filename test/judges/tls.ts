import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { testCertificate, workloadName } from '../support/certificates.ts';
import { identityEnvironment } from '../support/files.ts';
import { openServer, policyEnvironment } from '../support/open-policy.ts';
import { freePort } from '../support/ports.ts';
import { startSallyport } from '../support/sallyport.ts';
import { startSniffingApp } from '../support/sniffing-app.ts';
import { installed, type Judge, run } from './stage.ts';

interface Finding {
  readonly id: string;
  readonly severity: string;
  readonly finding: string;
}

/** What a certificate of a mesh, short-lived and from a root of its own, cannot and need not have. */
const ofTheWeb =
  /^(cert_chain_of_trust|cert_revocation|cert_crlDistributionPoints|cert_ocspURL|OCSP_stapling|DNS_CAA|cert_validityPeriod|cert_expiration|cert_extlifeSpan|cert_notAfter|certificate_transparency|HSTS|engine_problem|old_fart)/;

/** What version 3.0 cannot tell of a server that ends a handshake which it does not like with an alert and a close. */
const undecided: ReadonlySet<string> = new Set(['CCS', 'sessionresumption_ticket']);

/** testssl.sh: protocols, ciphers, forward secrecy and the known vulnerabilities. */
export const testssl: Judge = {
  name: 'testssl',
  prepare: () => installed('testssl'),
  async judge(stage) {
    const app = await startSniffingApp(stage);
    const port = await freePort();
    const name = workloadName('web', 'shop');
    const certificate = testCertificate({ dnsNames: [name] });
    await startSallyport(stage, {
      env: {
        ...policyEnvironment(stage.folder, openServer('web', port)),
        ...identityEnvironment(join(stage.folder, 'identity'), certificate),
        SALLYPORT_INBOUND_PORTS: `${port}=127.0.0.1:${app.port}`,
      },
    });
    const anchors = join(stage.folder, 'anchors.pem');
    writeFileSync(anchors, certificate.trustAnchorsPem);
    const report = join(stage.folder, 'report.json');
    const flags = [
      '--quiet',
      '--color',
      '0',
      '--warnings',
      'off',
      '--nodns',
      'min',
      '--ip',
      '127.0.0.1',
      '--add-ca',
      anchors,
    ];
    const checks = ['--protocols', '--std', '--fs', '--server-defaults', '--server-preference', '--vulnerable'];
    const ran = await run('testssl', [...flags, ...checks, '--jsonfile', report, `${name}:${port}`], 180);
    let findings: readonly Finding[];
    try {
      findings = JSON.parse(readFileSync(report, 'utf8')) as Finding[];
    } catch (error) {
      return { cases: 0, passed: 0, failed: [`no report: ${error} ${ran.stderr.slice(-300)}`] };
    }
    const told = findings.filter(({ id, severity }) => !ofTheWeb.test(id) && severity !== 'INFO');
    const judged = told.filter(({ id, severity }) => !(undecided.has(id) && /^(WARN|DEBUG)$/.test(severity)));
    const failed = judged
      .filter(({ severity }) => severity !== 'OK')
      .map(({ id, severity, finding }) => `${severity} ${id}: ${finding}`);
    if (judged.length < 30) failed.push(`only ${judged.length} findings: ${ran.stdout.slice(-300)}`);
    return { cases: judged.length, passed: judged.length - failed.length, failed };
  },
};
