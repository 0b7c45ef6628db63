import { hasNginxModule, nginxEcho, nginxStream } from '../programs.ts';
import { rule } from '../rule.ts';
import type { Command, Workbench } from '../workbench.ts';
import type { Peer, Site } from './peer.ts';

export const nginx: Peer = {
  name: 'nginx',
  program: 'nginx',
  // Towards the app nginx speaks HTTP/2 for gRPC alone.
  can: ({ carriage }) => carriage !== 'http2' && (carriage !== 'tcp' || hasNginxModule(nginxStream)),
  configure: async (site) => nginxCommand(site.bench, site.name, site.carriage === 'tcp' ? stream(site) : http(site)),
};

/** One process in the foreground, with a folder of its own for everything it writes. */
export function nginxCommand(bench: Workbench, name: string, body: string): Command {
  const folder = bench.subfolder(name);
  const modules = [nginxStream, nginxEcho].filter(hasNginxModule).map(({ file }) => `load_module ${file};\n`);
  const configuration = `${modules.join('')}daemon off;
master_process off;
worker_processes 1;
worker_rlimit_nofile 20000;
pid ${folder}/pid;
error_log stderr error;
events { worker_connections 10000; }
${body}`;
  return {
    command: 'nginx',
    args: ['-p', folder, '-e', 'stderr', '-c', bench.write(`${name}.conf`, latin1(configuration))],
  };
}

/** The gRPC answer holds bytes that are no text. */
function latin1(text: string): Buffer {
  return Buffer.from(text, 'latin1');
}

/** What every `http` block here needs: no logs per request, connections that last, a folder for its files. */
export function httpBlock(bench: Workbench, name: string, body: string): string {
  const folder = bench.subfolder(name);
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    (kind) => `${kind}_temp_path ${folder}/${kind};`,
  );
  return `http {
  access_log off;
  server_tokens off;
  default_type text/plain;
  keepalive_timeout 300s;
  keepalive_requests 1000000000;
  ${temporary.join('\n  ')}
${body}
}
`;
}

const access = `${rule.networks.map((network) => `allow ${network};`).join(' ')} deny all;`;

function stream({ listenPort, appPort }: Site): string {
  return `stream {
  server {
    listen 127.0.0.1:${listenPort} backlog=4096;
    ${access}
    proxy_pass 127.0.0.1:${appPort};
    proxy_timeout 5m;
  }
}
`;
}

function http({ bench, name, carriage, mutualTls, listenPort, appPort }: Site): string {
  const { files } = bench.credentials;
  const http2 = carriage === 'http2-to-http1' || carriage === 'grpc';
  const listen = `listen 127.0.0.1:${listenPort} backlog=4096${mutualTls ? ' ssl' : ''}${http2 ? ' http2' : ''};`;
  const tls = mutualTls
    ? `ssl_certificate ${files.serverCertificate};
    ssl_certificate_key ${files.serverKey};
    ssl_client_certificate ${files.trustAnchors};
    ssl_protocols TLSv1.2 TLSv1.3;
    ssl_verify_client on;`
    : '';
  const forward =
    carriage === 'grpc'
      ? 'grpc_pass grpc://app;'
      : `proxy_pass http://app;
      proxy_http_version 1.1;
      proxy_set_header Host $http_host;
      ${
        carriage === 'websocket'
          ? 'proxy_set_header Upgrade $http_upgrade;\n      proxy_set_header Connection upgrade;\n      proxy_read_timeout 5m;'
          : 'proxy_set_header Connection "";'
      }`;
  return httpBlock(
    bench,
    name,
    `  upstream app {
    server 127.0.0.1:${appPort};
    keepalive 256;
    keepalive_requests 1000000000;
  }
  server {
    ${listen}
    ${tls}
    location ${rule.pathPrefix} {
      ${access}
      ${forward}
    }
  }`,
  );
}
