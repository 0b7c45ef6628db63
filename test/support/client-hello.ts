import { type HelloResult, HelloScan } from '../../lib/proxy/detect/client-hello.ts';

/** `HelloScan` for bytes that are all there. */
export function parseClientHello(stream: Buffer): HelloResult {
  return new HelloScan().look(stream);
}
