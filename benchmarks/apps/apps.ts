import { fileURLToPath } from 'node:url';
import { httpBlock, nginxCommand } from '../peers/nginx.ts';
import { hasNginxModule, nginxEcho } from '../programs.ts';
import { answers } from '../rule.ts';
import type { Workbench } from '../workbench.ts';
import { block, download } from './pattern.ts';

export type App = 'http1' | 'http2' | 'echo' | 'websocket' | 'bulk';

/** Starts the app behind the proxies, on the load's side; yields its port. */
export async function startApp(bench: Workbench, app: App): Promise<number> {
  const port = await bench.freePort();
  if (app === 'http1' || app === 'http2') {
    await bench.start('load', nginxCommand(bench, `app-${port}`, httpApp(bench, app, port)), [port]);
  } else {
    const main = fileURLToPath(new URL('./socket-app-main.ts', import.meta.url));
    await bench.start('load', { command: process.execPath, args: [main, app, String(port)] }, [port]);
  }
  return port;
}

/** nginx answering from its configuration: the least that an HTTP server can do. */
function httpApp(bench: Workbench, app: 'http1' | 'http2', port: number): string {
  const http2 = app === 'http2';
  // A gRPC server of its own would spend more on a call than any proxy here. This one is right on the wire: it reads
  // the request to its end, then sends a length-prefixed message and trailers. (`return` would answer before the
  // request's last frame, which makes nginx as a proxy fail some calls.)
  const grpc = `location ${answers.grpcPath} {
      default_type application/grpc;
      add_trailer grpc-status 0;
      echo_read_request_body;
      echo -n "${answers.grpcReply.toString('latin1')}";
    }`;
  const name = `app-${port}`;
  const folder = bench.subfolder(name);
  if (!http2) bench.write(`${name}${download.path}`, Buffer.concat(Array(download.bytes / block.length).fill(block)));
  return httpBlock(
    bench,
    name,
    `  server {
    listen 127.0.0.1:${port} backlog=4096${http2 ? ' http2' : ''};
    ${http2 && hasNginxModule(nginxEcho) ? grpc : ''}
    location ${download.path} { root ${folder}; sendfile on; }
    location / { return 200 "${answers.http}"; }
  }`,
  );
}
