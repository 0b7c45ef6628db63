import { fileURLToPath } from 'node:url';
import * as grpc from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';
import type { TestCertificate } from './certificates.ts';
import type { Teardown } from './children.ts';
import { patience } from './until.ts';

// Real gRPC, by the reference implementation for Node: the services of the emoji-voting shop and one of streams.

export interface Emoji {
  readonly shortcode: string;
  readonly unicode: string;
}
export interface Payload {
  readonly number: number;
  readonly data: Buffer;
}

type Service = new (target: string, credentials: grpc.ChannelCredentials, options?: grpc.ClientOptions) => grpc.Client;
interface Services {
  readonly [name: string]: Service & { readonly service: grpc.ServiceDefinition };
}

const definition = loadSync(fileURLToPath(new URL('./shop.proto', import.meta.url)));
const services = (grpc.loadPackageDefinition(definition).shop as unknown as { v1: Services }).v1;

function service(name: string): Services[string] {
  const found = services[name];
  if (found === undefined) throw new Error(`shop.proto has no service ${name}`);
  return found;
}

export const emojis: readonly Emoji[] = [
  { shortcode: ':doughnut:', unicode: '🍩' },
  { shortcode: ':cat2:', unicode: '🐈' },
];

type Unary<Q, R> = grpc.handleUnaryCall<Q, R>;

const listAll: Unary<object, { list: readonly Emoji[] }> = (_call, reply) => reply(null, { list: emojis });
const findByShortcode: Unary<{ shortcode: string }, { emoji: Emoji }> = ({ request }, reply) => {
  const emoji = emojis.find(({ shortcode }) => shortcode === request.shortcode);
  if (emoji === undefined) reply({ code: grpc.status.NOT_FOUND, details: 'no such emoji' });
  else reply(null, { emoji });
};

export function startEmojiService(t: Teardown): Promise<number> {
  return startGrpc(t, 'EmojiService', { ListAll: listAll, FindByShortcode: findByShortcode });
}

export function startVotingService(t: Teardown): Promise<number> {
  const votes = new Map<string, number>();
  const vote: Unary<{ shortcode: string }, object> = ({ request: { shortcode } }, reply) => {
    votes.set(shortcode, (votes.get(shortcode) ?? 0) + 1);
    reply(null, {});
  };
  const results: Unary<object, object> = (_call, reply) => {
    reply(null, { list: [...votes].map(([shortcode, count]) => ({ shortcode, votes: count })) });
  };
  return startGrpc(t, 'VotingService', { Vote: vote, Results: results });
}

/** Calls that the streaming service saw end by the client's cancellation. */
export interface StreamLog {
  cancelled: number;
}

export function startStreamService(t: Teardown, log: StreamLog = { cancelled: 0 }): Promise<number> {
  const echo: grpc.handleBidiStreamingCall<Payload, Payload> = (call) => {
    call.on('data', (payload: Payload) => call.write(payload));
    call.on('end', () => call.end());
    call.on('cancelled', () => {
      log.cancelled += 1;
    });
  };
  const count: grpc.handleServerStreamingCall<Payload, Payload> = (call) => {
    for (let number = 1; number <= call.request.number; number++) call.write({ number, data: Buffer.alloc(0) });
    call.end();
  };
  const sum: grpc.handleClientStreamingCall<Payload, Payload> = (call, reply) => {
    let number = 0;
    call.on('data', (payload: Payload) => {
      number += payload.number;
    });
    call.on('end', () => reply(null, { number, data: Buffer.alloc(0) }));
  };
  return startGrpc(t, 'StreamService', { Echo: echo, Count: count, Sum: sum });
}

function startGrpc(t: Teardown, name: string, implementation: grpc.UntypedServiceImplementation): Promise<number> {
  const server = new grpc.Server();
  server.addService(service(name).service, implementation);
  t.teardown(() => server.forceShutdown());
  return new Promise((resolve, reject) => {
    server.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(), (error, port) =>
      error === null ? resolve(port) : reject(error),
    );
  });
}

/** How a call ended: its reply, or the status that the client was told. */
export type CallResult<R> =
  | { readonly ok: true; readonly reply: R }
  | { readonly ok: false; readonly code: grpc.status; readonly details: string };

export interface GrpcTarget {
  readonly port: number;
  /** A mesh client: its certificate, and the name of the proxy to ask for. Plain text where absent. */
  readonly mesh?: { readonly certificate: TestCertificate; readonly servername: string };
}

/** A client of one service on one channel. */
export class GrpcClient {
  readonly #client: grpc.Client;

  constructor(t: Teardown, name: string, { port, mesh }: GrpcTarget) {
    const credentials =
      mesh === undefined
        ? grpc.credentials.createInsecure()
        : grpc.credentials.createSsl(
            Buffer.from(mesh.certificate.trustAnchorsPem),
            Buffer.from(mesh.certificate.keyPem),
            Buffer.from(mesh.certificate.certificatePem),
          );
    this.#client = new (service(name))(`127.0.0.1:${port}`, credentials, {
      ...(mesh === undefined ? {} : { 'grpc.ssl_target_name_override': mesh.servername }),
      // Channels to one address are shared otherwise, also between clients of different identities.
      'grpc.use_local_subchannel_pool': 1,
    });
    t.teardown(() => this.close());
  }

  close(): void {
    this.#client.close();
  }

  unary<R>(method: string, request: object): Promise<CallResult<R>> {
    return new Promise((resolve) => {
      this.#method(method)(request, this.#deadline(), (error: grpc.ServiceError | null, reply: R) =>
        resolve(error === null ? { ok: true, reply } : { ok: false, code: error.code, details: error.details }),
      );
    });
  }

  clientStream<R>(method: string, requests: Iterable<object>): Promise<CallResult<R>> {
    return new Promise((resolve) => {
      const call = this.#method(method)(this.#deadline(), (error: grpc.ServiceError | null, reply: R) =>
        resolve(error === null ? { ok: true, reply } : { ok: false, code: error.code, details: error.details }),
      ) as grpc.ClientWritableStream<object>;
      for (const request of requests) call.write(request);
      call.end();
    });
  }

  serverStream(method: string, request: object): grpc.ClientReadableStream<Payload> {
    return this.#method(method)(request, this.#deadline()) as grpc.ClientReadableStream<Payload>;
  }

  bidi(method: string): grpc.ClientDuplexStream<object, Payload> {
    return this.#method(method)(this.#deadline()) as grpc.ClientDuplexStream<object, Payload>;
  }

  #method(name: string): (...args: unknown[]) => unknown {
    const method = (this.#client as unknown as Record<string, (...args: unknown[]) => unknown>)[name];
    if (method === undefined) throw new Error(`no method ${name}`);
    return method.bind(this.#client);
  }

  #deadline(): grpc.CallOptions {
    return { deadline: Date.now() + 15_000 * patience() };
  }
}
