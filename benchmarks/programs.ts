import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';

/** What the benchmark runs beside Node, and the Debian package that brings it. */
export const programs = {
  haproxy: { package: 'haproxy', version: ['-v'] },
  nginx: { package: 'nginx-light', version: ['-v'] },
  caddy: { package: 'caddy', version: ['version'] },
  wrk: { package: 'wrk', version: ['-v'] },
  ab: { package: 'apache2-utils', version: ['-V'] },
  h2load: { package: 'nghttp2-client', version: ['--version'] },
  taskset: { package: 'util-linux', version: ['--version'] },
  setpriv: { package: 'util-linux', version: ['--version'] },
} as const;
export type Program = keyof typeof programs;

export interface NginxModule {
  readonly package: string;
  readonly file: string;
}
const nginxModules = '/usr/lib/nginx/modules';
/** nginx speaks plain TCP, and TLS towards a server, by a module of its own package. */
export const nginxStream: NginxModule = {
  package: 'libnginx-mod-stream',
  file: `${nginxModules}/ngx_stream_module.so`,
};
/** What the gRPC app is made with; nginx-light depends on its package. */
export const nginxEcho: NginxModule = {
  package: 'libnginx-mod-http-echo',
  file: `${nginxModules}/ngx_http_echo_module.so`,
};

export function isInstalled(program: Program): boolean {
  return spawnSync('/bin/sh', ['-c', 'command -v "$1"', 'sh', program]).status === 0;
}

export function hasNginxModule(module: NginxModule): boolean {
  return existsSync(module.file);
}

/** What of these is not there, in words for a message. */
export function lacking(needs: readonly (Program | NginxModule)[]): string[] {
  return needs
    .filter((need) => (typeof need === 'string' ? !isInstalled(need) : !hasNginxModule(need)))
    .map((need) => (typeof need === 'string' ? need : need.package));
}

/** The first line that has a number in it of what the program says about itself. */
export function versionOf(program: Program): string {
  const { stdout, stderr } = spawnSync(program, programs[program].version, { encoding: 'utf8' });
  const line = `${stdout}\n${stderr}`.split('\n').find((text) => /\d+\.\d+/.test(text)) ?? '';
  return /\d+(?:\.\d+)+/.exec(line)?.[0] ?? 'unknown';
}

/** Packages that are missing for everything here to run. */
export function missingPackages(): string[] {
  const missing = new Set<string>();
  for (const name of Object.keys(programs) as Program[]) if (!isInstalled(name)) missing.add(programs[name].package);
  for (const module of [nginxStream, nginxEcho]) if (!hasNginxModule(module)) missing.add(module.package);
  return [...missing];
}

export function installCommand(packages: readonly string[]): string {
  return `apt-get install --no-install-recommends ${packages.join(' ')}`;
}

/** Debian and its like only. @throws when not root, or when apt-get fails. */
export function installPackages(packages: readonly string[]): void {
  if (packages.length === 0) return;
  if (process.getuid?.() !== 0) throw new Error(`--install needs root; run: ${installCommand(packages)}`);
  execFileSync('apt-get', ['install', '--yes', '--no-install-recommends', ...packages], {
    stdio: ['ignore', 'ignore', 'inherit'],
    // A benchmark wants the programs, not their services.
    env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive', RUNLEVEL: '1' },
  });
}
