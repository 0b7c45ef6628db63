import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { openServer, policyEnvironment } from '../support/open-policy.ts';
import { freePorts } from '../support/ports.ts';
import { startSallyport } from '../support/sallyport.ts';
import type { Ports } from './connect/client.ts';
import { goProgram, goPrograms, type Judge, type Ran, run, type Stage, type Verdict } from './stage.ts';

const version = 'v1.0.7';
const programs = ['connectconformance', 'referenceclient', 'referenceserver'].map(
  (name) => [`connectrpc.com/conformance/cmd/${name}`, 'connect'] as const,
);
const [runner, client, server] = programs.map(([path, name]) => goProgram(path, name, version)) as [
  string,
  string,
  string,
];

/**
 * All but HTTP/3: Connect, gRPC and gRPC-Web, every kind of stream, both codecs, with TLS and without. Of compressions,
 * which go through as any content, one.
 */
const features = `features:
  versions: [HTTP_VERSION_1, HTTP_VERSION_2]
  compressions: [COMPRESSION_IDENTITY, COMPRESSION_GZIP]
  supportsTlsClientCerts: true
  supportsHalfDuplexBidiOverHttp1: true
`;

const program = (name: string): string => new URL(`./connect/${name}.ts`, import.meta.url).pathname;

/**
 * The conformance suite of Connect, gRPC and gRPC-Web, twice. Its clients, grpc-go's among them, judge what a server
 * behind the proxy answers: what comes is detected, and TLS ends in the proxy. Then its servers judge what the proxy
 * forwards of a client, by the word of a Server; TLS goes through.
 */
export const conformance: Judge = {
  name: 'connect conformance',
  prepare: () => goPrograms(programs, version),
  async judge(stage) {
    const config = join(stage.folder, 'features.yaml');
    writeFileSync(config, features);
    const first = await run(
      runner,
      ['--conf', config, '-p', '16', '--mode', 'server', '--', process.execPath, program('server'), server],
      170,
    );
    const [appPort = 0, ...ports] = await freePorts(5);
    await startProxy(stage, appPort, ports);
    const [http1 = 0, http2 = 0, grpc = 0, tls = 0] = ports;
    const told: Ports = { http1, http2, grpc, tls };
    const flags = ['--conf', config, '--port', String(appPort), '--mode', 'client', '--', process.execPath];
    const second = await run(runner, [...flags, program('client'), client, JSON.stringify(told)], 170);
    return both(verdictOf(first), verdictOf(second));
  },
};

async function startProxy(stage: Stage, appPort: number, ports: readonly number[]): Promise<void> {
  const protocols = ['HTTP/1', 'HTTP/2', 'gRPC', 'TLS'];
  const documents = ports.map((port, i) => openServer(`web-${i}`, port, protocols[i]));
  await startSallyport(stage, {
    env: {
      ...policyEnvironment(stage.folder, documents.join('')),
      SALLYPORT_INBOUND_PORTS: ports.map((port) => `${port}=127.0.0.1:${appPort}`).join(','),
    },
  });
}

function verdictOf({ code, stdout, stderr }: Ran): Verdict {
  const said = stdout + stderr;
  const [, passed, failing] = /^(\d+) passed, (\d+) failed/m.exec(said) ?? [];
  const failed = [...said.matchAll(/^FAILED: (.*)\n\s*(.*)/gm)].map(([, name, why]) => `${name} ${why}`);
  if (passed === undefined) failed.push(`no summary: ${said.slice(-300)}`);
  else if (code !== 0 && failed.length === 0) failed.push(`status ${code}: ${said.slice(-300)}`);
  return { cases: Number(passed ?? 0) + Number(failing ?? 0), passed: Number(passed ?? 0), failed };
}

function both(first: Verdict, second: Verdict): Verdict {
  return {
    cases: first.cases + second.cases,
    passed: first.passed + second.passed,
    failed: [...first.failed, ...second.failed],
    note: `${first.passed} by its clients, ${second.passed} by its servers`,
  };
}
