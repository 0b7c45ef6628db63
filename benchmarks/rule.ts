/**
 * The one rule that every proxy enforces here: this path prefix, from these networks. The load comes from an address
 * inside, the control probe from one outside, so that a proxy that enforces nothing is noticed.
 */
export const rule = {
  pathPrefix: '/',
  networks: ['127.0.0.1/32', '10.0.0.0/8'],
  allowedAddress: '127.0.0.1',
  forbiddenAddress: '127.0.0.2',
} as const;

export const answers = {
  /** What the HTTP applications answer to any GET. */
  http: 'hello from the app\n',
  grpcService: 'bench.Echo',
  grpcPath: '/bench.Echo/Say',
  /** One message each way: no compression, length, bytes (the gRPC protocol's length-prefixed message). */
  grpcRequest: grpcMessage('hello'),
  grpcReply: grpcMessage('hello yourself'),
} as const;

function grpcMessage(text: string): Buffer {
  const message = Buffer.alloc(5 + Buffer.byteLength(text));
  message.writeUInt32BE(Buffer.byteLength(text), 1);
  message.write(text, 5);
  return message;
}
