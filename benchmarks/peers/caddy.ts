import { rule } from '../rule.ts';
import type { Peer, Site } from './peer.ts';

export const caddy: Peer = {
  name: 'caddy',
  program: 'caddy',
  // Debian's build has no module for plain TCP.
  can: ({ carriage }) => carriage !== 'tcp',
  configure: async (site) => ({
    command: 'caddy',
    args: [
      'run',
      '--adapter',
      'caddyfile',
      '--config',
      site.bench.write(`${site.name}.caddyfile`, configuration(site)),
    ],
    env: {
      GOMAXPROCS: '1',
      HOME: site.bench.folder,
      XDG_CONFIG_HOME: site.bench.folder,
      XDG_DATA_HOME: site.bench.folder,
    },
  }),
};

function configuration({ bench, carriage, mutualTls, listenPort, appPort }: Site): string {
  const { files, serverName } = bench.credentials;
  const h2Back = carriage === 'http2' || carriage === 'grpc';
  const tls = mutualTls
    ? `tls ${files.serverCertificate} ${files.serverKey} {
    client_auth {
      mode require_and_verify
      trusted_ca_cert_file ${files.trustAnchors}
    }
  }`
    : '';
  return `{
  admin off
  auto_https off
  log {
    level ERROR
  }
  servers {
    protocols h1 ${mutualTls ? 'h2' : 'h2c'}
  }
}
${mutualTls ? `https://${serverName}` : 'http://'}:${listenPort} {
  bind 127.0.0.1
  ${tls}
  @allowed {
    path ${rule.pathPrefix}*
    remote_ip ${rule.networks.join(' ')}
  }
  handle @allowed {
    reverse_proxy ${h2Back ? 'h2c://' : ''}127.0.0.1:${appPort} {
      flush_interval -1
    }
  }
  handle {
    respond 403
  }
}
`;
}
