import { startChild } from '../support/children.ts';
import { openServer, policyEnvironment } from '../support/open-policy.ts';
import { freePorts } from '../support/ports.ts';
import { startSallyport } from '../support/sallyport.ts';
import { goProgram, goPrograms, type Judge, run } from './stage.ts';

const version = 'v1.85.0';
const programs = [
  ['google.golang.org/grpc/interop/client', 'grpc'],
  ['google.golang.org/grpc/interop/server', 'grpc'],
] as const;
const [client, server] = programs.map(([path, name]) => goProgram(path, name, version)) as [string, string];

/** The interoperability cases that gRPC's own implementations run against each other, those without TLS or accounts. */
const cases = [
  ...['empty_unary', 'large_unary', 'client_streaming', 'server_streaming', 'ping_pong', 'empty_stream'],
  ...['timeout_on_sleeping_server', 'cancel_after_begin', 'cancel_after_first_response', 'custom_metadata'],
  ...['status_code_and_message', 'special_status_message', 'unimplemented_method', 'unimplemented_service'],
];

/** grpc-go's client and server, with the proxy between them, by the Server's word and by detection. */
export const grpcInterop: Judge = {
  name: 'grpc interop',
  prepare: () => goPrograms(programs, version),
  async judge(stage) {
    const [appPort = 0, ...ports] = await freePorts(3);
    await startChild(stage, server, [`--port=${appPort}`, '--use_tls=false']);
    const [declared = 0, detected = 0] = ports;
    const documents = openServer('declared', declared, 'gRPC') + openServer('detected', detected);
    await startSallyport(stage, {
      env: {
        ...policyEnvironment(stage.folder, documents),
        SALLYPORT_INBOUND_PORTS: ports.map((port) => `${port}=127.0.0.1:${appPort}`).join(','),
      },
    });
    const failed: string[] = [];
    for (const port of ports) {
      for (const name of cases) {
        const args = ['--use_tls=false', '--server_host=127.0.0.1', `--server_port=${port}`, `--test_case=${name}`];
        const { code, stderr } = await run(client, args, 30);
        if (code !== 0) failed.push(`${name}: ${stderr.trim().split('\n').at(-1)}`);
      }
    }
    const all = ports.length * cases.length;
    return { cases: all, passed: all - failed.length, failed };
  },
};
