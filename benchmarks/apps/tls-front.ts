import { nginxCommand } from '../peers/nginx.ts';
import type { Workbench } from '../workbench.ts';

/**
 * The load's TLS: no load program at hand shows client certificates, so nginx stands behind wrk, takes plain connections
 * and opens one TLS connection for each, with a full handshake. It runs on the load's side; its cost is in nobody's
 * account. Yields the port for each of the proxies' ports.
 */
export async function startTlsFront(bench: Workbench, proxyPorts: readonly number[]): Promise<Map<number, number>> {
  const { files, serverName } = bench.credentials;
  const fronts = new Map<number, number>();
  for (const port of proxyPorts) fronts.set(port, await bench.freePort());
  const servers = [...fronts].map(
    ([proxy, front]) => `  server {
    listen 127.0.0.1:${front} backlog=4096;
    proxy_pass 127.0.0.1:${proxy};
    proxy_timeout 5m;
    proxy_ssl on;
    proxy_ssl_protocols TLSv1.3;
    proxy_ssl_session_reuse off;
    proxy_ssl_certificate ${files.clientCertificate};
    proxy_ssl_certificate_key ${files.clientKey};
    proxy_ssl_trusted_certificate ${files.trustAnchors};
    proxy_ssl_verify on;
    proxy_ssl_server_name on;
    proxy_ssl_name ${serverName};
  }`,
  );
  const ports = [...fronts.values()];
  const command = nginxCommand(bench, `tls-front-${ports[0]}`, `stream {\n${servers.join('\n')}\n}\n`);
  await bench.start('load', command, ports);
  return fronts;
}
