/**
 * Names of header fields that some software treats specially: the IANA registry's permanent ones for HTTP, and those of
 * proxies, CGI and JavaScript's own objects.
 */
export const fieldNames: readonly string[] = `A-IM Accept Accept-CH Accept-Charset Accept-Datetime Accept-Encoding
  Accept-Features Accept-Language Accept-Patch Accept-Post Accept-Ranges Access-Control-Request-Headers
  Access-Control-Request-Method Age Allow ALPN Alt-Svc Alt-Used Alternates Apply-To-Redirect-Ref Authentication-Control
  Authentication-Info Authorization Cache-Control Cache-Status CalDAV-Timezones Capsule-Protocol CDN-Cache-Control
  Cert-Not-After Cert-Not-Before Clear-Site-Data Client-Cert Client-Cert-Chain Close Connection Content-Digest
  Content-Disposition Content-Encoding Content-ID Content-Language Content-Length Content-Location Content-MD5
  Content-Range Content-Security-Policy Content-Type Cookie Cookie2 Cross-Origin-Opener-Policy DASL Date DAV
  Default-Style Delta-Base Depth Derived-From Destination Differential-ID Digest DNT DPoP DPoP-Nonce Early-Data ETag
  Expect Expect-CT Expires Forwarded From GetProfile Hobareg Host HTTP2-Settings If If-Match If-Modified-Since
  If-None-Match If-Range If-Schedule-Tag-Match If-Unmodified-Since IM Include-Referred-Token-Binding-ID Keep-Alive Label
  Last-Event-ID Last-Modified Link Location Lock-Token Max-Forwards Memento-Datetime Meter MIME-Version Negotiate NEL
  Origin Overwrite P3P Position Pragma Prefer Preference-Applied Priority Profile-Object Proxy Proxy-Authenticate
  Proxy-Authorization Proxy-Connection Proxy-Status Public Range Redirect-Ref Referer Refresh Replay-Nonce Repr-Digest
  Retry-After Safe Schedule-Reply Sec-Fetch-Dest Sec-Fetch-Mode Sec-Fetch-Site Sec-GPC Sec-Purpose Sec-Token-Binding
  Sec-WebSocket-Accept Sec-WebSocket-Extensions Sec-WebSocket-Key Sec-WebSocket-Protocol Sec-WebSocket-Version Server
  Server-Timing Set-Cookie Signature Signature-Input SLUG SoapAction Status Status-URI Sunset Surrogate-Capability TCN TE
  Timeout Topic Traceparent Tracestate Trailer Transfer-Encoding TTL Upgrade Urgency URI Use-As-Dictionary User-Agent
  Variant-Vary Vary Via Want-Content-Digest Want-Digest Warning WWW-Authenticate X-Content-Type-Options X-Forwarded-For
  X-Forwarded-Host X-Forwarded-Port X-Forwarded-Proto X-HTTP-Method-Override X-Original-URL X-Rewrite-URL X-Real-IP
  l5d-client-id l5d-dst-override l5d-dst-canonical l5d-remote-ip l5d-orig-proto l5d-proxy-error l5d-sent-date
  __proto__ constructor prototype toString hasOwnProperty length 0 1 -1 then toJSON`.split(/\s+/);
