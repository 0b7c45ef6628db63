import type { ExplainQuery } from '../policy/explain.ts';

/** A question in one line, for people: `GET /orders/7 to port 8080 from 10.1.2.3 as web.shop.…`. */
export function askedText(query: ExplainQuery): string {
  const { port, ip, identity, tls = 'none', protocol = 'http1', host, headers = [] } = query;
  const who = identity === undefined ? tlsTexts[tls] : ` as ${identity}`;
  const sent = headers.length === 0 ? '' : ` with ${headers.map(([name, value]) => `${name}: ${value}`).join(', ')}`;
  return `${whatText(protocol, query)} to port ${port}${host === undefined ? '' : ` of ${host}`} from ${ip.text}${who}${sent}`;
}

const tlsTexts = {
  none: '',
  anonymous: ' in TLS without a certificate',
  passthrough: ' in TLS for another name',
} as const;

function whatText(protocol: NonNullable<ExplainQuery['protocol']>, { method, path = '/' }: ExplainQuery): string {
  switch (protocol) {
    case 'tcp':
      return 'bytes';
    case 'connect':
      return 'a connection';
    case 'grpc':
      return method === undefined || method === 'POST' ? `gRPC ${path}` : `gRPC ${method} ${path}`;
    case 'http2':
      return `HTTP/2 ${method ?? 'GET'} ${path}`;
    case 'http1':
      return `${method ?? 'GET'} ${path}`;
  }
}
