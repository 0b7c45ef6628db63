import { sourceOf } from '../../fairness/sources.ts';
import { readStream, serveApplication } from '../../http/application.ts';
import { outgoingFields } from '../../http/outgoing-fields.ts';
import { type Refusal, upstreamFailure } from '../../http/refuse.ts';
import type { HttpConnection, RequestPipeline } from '../../http/request-pipeline.ts';
import { appSender } from './app-sender.ts';
import { forwardHttp1 } from './forward.ts';
import type { LibraryExchange } from './library-exchange.ts';
import type { LibraryUpstreams } from './library-upstreams.ts';

/** Admits a request, then forwards it by HTTP/1, or to the application inside this process. */
export function serveExchange(
  pipeline: RequestPipeline,
  upstreams: LibraryUpstreams,
  connection: HttpConnection,
  exchange: LibraryExchange,
): void {
  const admitted = pipeline.admit(connection, exchange);
  if (admitted.kind === 'refused') {
    exchange.refuse(admitted.refusal);
    return;
  }
  exchange.admitted = admitted;
  exchange.onPermitted?.();
  const failed = (error: unknown): void => pipeline.fail(connection, admitted, exchange, upstreamFailure(error));
  const { destination } = connection;
  const fields = outgoingFields(connection.facts.client, admitted, exchange.forwardHeaders);
  if (destination.kind !== 'app') {
    const readBody = (maxBytes: number): Promise<Buffer> => readStream(exchange.body, maxBytes);
    serveApplication(admitted, exchange, readBody, destination.application, failed, fields);
    return;
  }
  const { endpoint } = destination;
  const asker = sourceOf(connection.facts.client.ip);
  const { version, saysConnection } = exchange;
  const awaitsContent = exchange.onPermitted !== null;
  const sender = appSender(upstreams.appPool(endpoint), { admitted, asker, version, saysConnection, awaitsContent });
  const refused = (): Refusal | null => {
    const late = pipeline.admitLate(connection, exchange, admitted);
    return late.kind === 'refused' ? late.refusal : null;
  };
  forwardHttp1(admitted, exchange, fields, sender, { failed, refused });
}
