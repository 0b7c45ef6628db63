import { fileURLToPath } from 'node:url';
import * as grpc from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';
import type { GrpcCall, GrpcOutcome } from './pod-programs.ts';
import { patience } from './until.ts';

// A gRPC client that runs inside a network namespace: one call, as its argument says, and its outcome on stdout.

const { target, mesh } = JSON.parse(process.argv[2] ?? '') as GrpcCall;
const definition = loadSync(fileURLToPath(new URL('./shop.proto', import.meta.url)));
const loaded = grpc.loadPackageDefinition(definition) as unknown as {
  shop: { v1: { EmojiService: grpc.ServiceClientConstructor } };
};
const credentials =
  mesh === undefined
    ? grpc.credentials.createInsecure()
    : grpc.credentials.createSsl(
        Buffer.from(mesh.certificate.trustAnchorsPem),
        Buffer.from(mesh.certificate.keyPem),
        Buffer.from(mesh.certificate.certificatePem),
      );
const client = new loaded.shop.v1.EmojiService(target, credentials, {
  ...(mesh === undefined ? {} : { 'grpc.ssl_target_name_override': mesh.servername }),
});
type Reply = { readonly list: readonly unknown[] };
type Call = (
  request: object,
  options: grpc.CallOptions,
  done: (error: grpc.ServiceError | null, reply?: Reply) => void,
) => void;
const listAll = (client as unknown as { ListAll: Call }).ListAll.bind(client);
listAll({}, { deadline: Date.now() + 10_000 * patience() }, (error, reply) => {
  const code = error?.code ?? grpc.status.OK;
  const outcome: GrpcOutcome = { code, status: grpc.status[code], emojis: reply?.list.length ?? 0 };
  process.stdout.write(JSON.stringify(outcome));
  client.close();
});
