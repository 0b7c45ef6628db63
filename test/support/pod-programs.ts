import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { TestCertificate } from './certificates.ts';
import { type Child, startChild, type Teardown } from './children.ts';
import { replaceFile } from './files.ts';
import { at, curl, type Place, type PodNetwork } from './pod-network.ts';
import { until } from './until.ts';

/** A connection as the app saw it. */
export interface SeenConnection {
  readonly port: number;
  readonly peer: string;
}

export interface PodApp {
  readonly child: Child;
  readonly grpcPort: number;
  connections(): SeenConnection[];
  /** Those that did not come through the sidecar, which forwards to loopback. */
  unguarded(): SeenConnection[];
}

const appProgram = fileURLToPath(new URL('./pod-app.ts', import.meta.url));
const grpcProgram = fileURLToPath(new URL('./pod-grpc-client.ts', import.meta.url));

/** Starts the app of pod-app.ts inside the pod. */
export async function startPodApp(t: Teardown, { pod }: PodNetwork): Promise<PodApp> {
  const [command = '', ...within] = pod.namespace.within;
  const child = await startChild(t, command, [...within, process.execPath, appProgram]);
  const lines = (): Record<string, unknown>[] =>
    child
      .stdout()
      .split('\n')
      .slice(0, -1)
      .map((line) => JSON.parse(line));
  const grpcPort = await until(
    'the app of the pod',
    () => {
      if (child.process.exitCode !== null) throw new Error(`the app ended: ${child.stderr()}`);
      const port = lines().find((line) => 'grpc' in line)?.grpc;
      return typeof port === 'number' ? port : undefined;
    },
    { lastSeen: () => child.stderr() },
  );
  const connections = (): SeenConnection[] => lines().filter((line) => 'peer' in line) as unknown as SeenConnection[];
  const loopback = new Set(['127.0.0.1', '::1', '::ffff:127.0.0.1']);
  return {
    child,
    grpcPort,
    connections,
    unguarded: () => connections().filter(({ peer }) => !loopback.has(peer)),
  };
}

export interface GrpcCall {
  readonly target: string;
  /** Plain text where absent. */
  readonly mesh?: { readonly certificate: TestCertificate; readonly servername: string };
}

/** What became of EmojiService.ListAll: the status's number and name, and how many emojis came. */
export interface GrpcOutcome {
  readonly code: number;
  readonly status: string;
  readonly emojis: number;
}

export async function callEmojis(from: Place, call: GrpcCall): Promise<GrpcOutcome> {
  const { code, stdout, stderr } = await from.run(process.execPath, grpcProgram, JSON.stringify(call));
  if (code !== 0) throw new Error(`the gRPC client failed: ${stderr}`);
  return JSON.parse(stdout) as GrpcOutcome;
}

const prometheusPort = 9091;

export interface PodPrometheus {
  /** What to scrape from now on, `host:port`. */
  target(...addresses: readonly string[]): void;
  /** Resolves once Prometheus itself calls the target up. */
  up(address: string): Promise<void>;
}

/** A Prometheus beside the app, in the pod. */
export async function startPrometheus(t: Teardown, { pod }: PodNetwork, folder: string): Promise<PodPrometheus> {
  const [targets, config] = [join(folder, 'targets.json'), join(folder, 'prometheus.yml')];
  replaceFile(
    config,
    `
global: {scrape_interval: 500ms, scrape_timeout: 500ms}
scrape_configs:
  - job_name: own-pod
    file_sd_configs: [{files: ['${targets}'], refresh_interval: 1s}]
`,
  );
  const target: PodPrometheus['target'] = (...addresses) =>
    replaceFile(targets, JSON.stringify([{ targets: addresses }]));
  target();
  const [command = '', ...within] = pod.namespace.within;
  await startChild(t, command, [
    ...[...within, 'prometheus', `--config.file=${config}`, `--storage.tsdb.path=${join(folder, 'prometheus')}`],
    `--web.listen-address=127.0.0.1:${prometheusPort}`,
  ]);
  let seen = '';
  const isUp = async (address: string): Promise<boolean> => {
    seen = (await curl(pod, at('127.0.0.1', prometheusPort, '/api/v1/targets'))).body;
    if (!seen.startsWith('{')) return false;
    const { data } = JSON.parse(seen) as { data: { activeTargets: { scrapeUrl: string; health: string }[] } };
    return data.activeTargets.some(({ scrapeUrl, health }) => scrapeUrl.includes(`//${address}/`) && health === 'up');
  };
  return {
    target,
    up: async (address) => {
      const patience = { timeoutMs: 20_000, everyMs: 200, lastSeen: () => seen };
      await until(`Prometheus to find ${address} up`, () => isUp(address), patience);
    },
  };
}
