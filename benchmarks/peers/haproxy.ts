import { rule } from '../rule.ts';
import type { Peer, Site } from './peer.ts';

export const haproxy: Peer = {
  name: 'haproxy',
  program: 'haproxy',
  can: () => true,
  configure: async (site) => ({
    command: 'haproxy',
    args: ['-db', '-f', site.bench.write(`${site.name}.cfg`, configuration(site))],
  }),
};

function configuration({ carriage, mutualTls, listenPort, appPort, bench }: Site): string {
  const { files } = bench.credentials;
  const tls = mutualTls ? ` ssl crt ${files.serverBoth} ca-file ${files.trustAnchors} verify required` : '';
  const h2Front = carriage === 'http2' || carriage === 'http2-to-http1' || carriage === 'grpc';
  const h2Back = carriage === 'http2' || carriage === 'grpc';
  return `global
  nbthread 1
  maxconn 4096
defaults
  mode ${carriage === 'tcp' ? 'tcp' : 'http'}
  timeout connect 5s
  timeout client 5m
  timeout server 5m
  timeout tunnel 5m
frontend front
  bind 127.0.0.1:${listenPort} backlog 4096${tls}${h2Front ? ' proto h2' : ''}
  acl allowed_network src ${rule.networks.join(' ')}
${
  carriage === 'tcp'
    ? '  tcp-request connection reject unless allowed_network'
    : `  acl allowed_path path_beg ${rule.pathPrefix}
  http-request deny deny_status 403 unless allowed_path allowed_network`
}
  default_backend app
backend app
  ${carriage === 'tcp' ? '' : 'http-reuse always'}
  server app 127.0.0.1:${appPort}${h2Back ? ' proto h2' : ''}
`;
}
