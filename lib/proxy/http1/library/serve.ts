import type { HeaderList } from '../../../request-fields.ts';
import { sourceOf } from '../../fairness/sources.ts';
import type { Admitted, AdmittedNow, Refused } from '../../http/admitted.ts';
import { readStream, serveApplication } from '../../http/application.ts';
import { outgoingFields } from '../../http/outgoing-fields.ts';
import { upstreamFailure } from '../../http/refuse.ts';
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
  const { destination } = connection;
  const asking = {
    fields: (by: Admitted): HeaderList => outgoingFields(connection.facts.client, by, exchange.forwardHeaders),
    admitLate(before: Admitted): AdmittedNow | Refused {
      const late = pipeline.admitLate(connection, exchange, before);
      if (late.kind === 'admitted') exchange.admitted = late;
      return late;
    },
    failed: (error: unknown): void =>
      pipeline.fail(connection, exchange.admitted ?? admitted, exchange, upstreamFailure(error)),
  };
  if (destination.kind !== 'app') {
    const readBody = (maxBytes: number): Promise<Buffer> => readStream(exchange.body, maxBytes);
    serveApplication(admitted, exchange, destination.application, { ...asking, readBody });
    return;
  }
  const { endpoint } = destination;
  const asker = sourceOf(connection.facts.client.ip);
  const { version, saysConnection } = exchange;
  const awaitsContent = exchange.onPermitted !== null;
  const sender = appSender(upstreams.appPool(endpoint), { admitted, asker, version, saysConnection, awaitsContent });
  forwardHttp1(admitted, exchange, sender, asking);
}
