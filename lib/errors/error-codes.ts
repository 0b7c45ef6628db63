/** One code of an error that happens while the proxy starts or runs. */
export interface ErrorRow {
  /**
   * `start`: the proxy does not start (exit status 1). `request`: one request is refused, and `Request failed` logged; or its
   * response ends within it, and `Response broken off` is logged.
   * `handshake`: one connection is closed, and `TLS handshake failed` logged.
   */
  readonly ends: 'start' | 'request' | 'handshake';
  readonly meaning: string;
  readonly remedy: string;
}

function request(meaning: string, remedy: string): ErrorRow & { readonly ends: 'request' } {
  return { ends: 'request', meaning, remedy };
}

function start(meaning: string, remedy: string): ErrorRow & { readonly ends: 'start' } {
  return { ends: 'start', meaning, remedy };
}

function handshake(meaning: string, remedy: string): ErrorRow & { readonly ends: 'handshake' } {
  return { ends: 'handshake', meaning, remedy };
}

/**
 * Every code of an error, in the log's field `code`. Only lib/errors/README.md and tests read the text; all others import
 * types alone.
 */
export const errorCatalogue = {
  ERR_SALLYPORT_UNREACHABLE: request(
    'The application cannot be connected to: it refuses connections, or nothing is there.',
    'See that it runs, and listens where the connection leads (SALLYPORT_INBOUND_PORTS, SALLYPORT_APP_HOST).',
  ),
  ERR_SALLYPORT_APP_CLOSED: request(
    'The application had taken the request, and ended the connection before it had answered, or within its answer.',
    'Look into its log for its end at that time (a crash, a kill, no memory) or a timeout of its own; `waitedMs` says how long it took.',
  ),
  ERR_SALLYPORT_CONNECT_TIMEOUT: request(
    'Connecting to the application took longer than SALLYPORT_CONNECT_TIMEOUT.',
    'Look for a full accept queue or a firewall; raise the limit where the application is slow to accept.',
  ),
  ERR_SALLYPORT_BAD_RESPONSE: request(
    'The application sent what is no HTTP response.',
    'Fix the application; see that it speaks the HTTP, 1 or 2, that it is asked in: HTTP/2, and so gRPC, is handed on as HTTP/2.',
  ),
  ERR_SALLYPORT_NOT_PROCESSED: request(
    'An HTTP/2 application refused the stream unprocessed, and so does Sallyport (REFUSED_STREAM).',
    'The client may repeat the request; raise the number of streams that the application allows.',
  ),
  ERR_SALLYPORT_CANCELLED: request(
    'An HTTP/2 application cancelled a gRPC call, as it does at its deadline, and so does Sallyport (CANCEL).',
    'Find out why the call took so long; it may have been carried out.',
  ),
  ERR_SALLYPORT_HEAD_TOO_LARGE: request(
    'The request head is larger than the HTTP/2 application says it takes.',
    "Raise the application's SETTINGS_MAX_HEADER_LIST_SIZE, or send fewer fields.",
  ),
  ERR_SALLYPORT_REQUEST_TIMEOUT: request(
    'No response had begun, or was complete, when SALLYPORT_REQUEST_TIMEOUT was over, or the application has read no content for SALLYPORT_STALL_TIMEOUT.',
    'Find out why the application, or the client with its content, is slow; raise the limit where that is meant.',
  ),
  ERR_SALLYPORT_OVERLOAD: request(
    'As many requests are in flight as SALLYPORT_MAX_IN_FLIGHT allows, or large heads of as many bytes as SALLYPORT_MAX_BUFFERED_BYTES.',
    'Find out why the application answers slowly; raise the limit only if there is memory for more.',
  ),
  ERR_SALLYPORT_OTHER_FILTERS: request(
    'While a request waited for its content, its route was given other header filters, which its head could no longer be.',
    'The client may repeat the request: nothing of it has reached the application.',
  ),
  ERR_SALLYPORT_CONNECTS: request(
    'Too many connects are under way, or HTTP/2 clients have too many connections to the application.',
    'See why it accepts slowly; raise SALLYPORT_MAX_PENDING_CONNECTS or SALLYPORT_MAX_CONNECTIONS.',
  ),
  ERR_SALLYPORT_DESCRIPTORS: request(
    'The process, or the machine, has no file descriptor left.',
    'Raise the limit of the process (ulimit -n), or lower SALLYPORT_MAX_CONNECTIONS.',
  ),
  ERR_SALLYPORT_LOOP: request(
    "The application's address is one on which Sallyport itself listens.",
    'Give the application a port or an address of its own.',
  ),
  ERR_SALLYPORT_LOOPBACK: request(
    "The application's name leads to loopback, where nothing declares this port.",
    'Declare the port in the Pod or by a Server, or add it to SALLYPORT_LOOPBACK_PORTS.',
  ),
  ERR_SALLYPORT_NO_UPGRADE: request(
    'An upgrade was permitted on the admin port, which has none.',
    'Ask without Upgrade.',
  ),
  ERR_SALLYPORT_UNEXPECTED: request(
    'A fault in Sallyport itself.',
    'Report it, with the line "Internal error" that has its stack.',
  ),
  ERR_SALLYPORT_LISTEN: start(
    'An address of the configuration cannot be listened on.',
    'Stop what listens there, or choose another; ports below 1024 need CAP_NET_BIND_SERVICE.',
  ),
  ERR_SALLYPORT_NODE: start(
    'This Node lacks something undocumented of it that nothing can replace.',
    'Run it with the Node that npm installs beside it, and report which one has failed.',
  ),
  ERR_SALLYPORT_IDENTITY: start(
    'Certificate, key and trust anchors cannot be used at the first load.',
    'Fix the files that the message names; a later rotation that fails keeps the last good ones.',
  ),
  ERR_SALLYPORT_TLS_UNKNOWN_ISSUER: handshake(
    "The client's certificate leads to none of our trust anchors.",
    'Compare its authority and key with the anchors; add its root to SALLYPORT_IDENTITY_TRUST_ANCHORS, or let it send its intermediates.',
  ),
  ERR_SALLYPORT_TLS_CLIENT_EXPIRED: handshake(
    "The client's certificate, or one of its issuers', has expired by our clock.",
    "Renew it at the client; compare the line's clock with the client's.",
  ),
  ERR_SALLYPORT_TLS_CLIENT_NOT_YET_VALID: handshake(
    "The client's certificate, or one of its issuers', is not valid yet by our clock.",
    'Set the clocks of this machine and of the issuer.',
  ),
  ERR_SALLYPORT_TLS_CLIENT_INVALID: handshake(
    "The client's certificate cannot be one of a client, or its chain is not sound.",
    'Issue it with the key usage clientAuth and a chain of at most three intermediates; the line has what OpenSSL found.',
  ),
  ERR_SALLYPORT_TLS_CLIENT_TOO_COSTLY: handshake(
    "The client's certificates would take more work to read or to verify than a handshake may; the line says which bound it was.",
    'Give it a key of ECDSA P-256, or of RSA with at most 4,096 bits, and a chain of few certificates and names.',
  ),
  ERR_SALLYPORT_TLS_CLIENT_DISTRUSTS_US: handshake(
    'The client has refused our certificate: it does not know our issuer, or expects another name.',
    "Give the client the root of the line's issuer (curl --cacert), and let it call us by a name of our certificate.",
  ),
  ERR_SALLYPORT_TLS_OWN_EXPIRED: handshake(
    'Our own certificate has expired, and the client went away.',
    'Renew the files of SALLYPORT_IDENTITY_CERT and SALLYPORT_IDENTITY_KEY; they are read again by themselves.',
  ),
  ERR_SALLYPORT_TLS_NO_SHARED_VERSION: handshake(
    'The client does not speak TLS 1.3.',
    'Update its TLS library, or let it offer TLS 1.3.',
  ),
  ERR_SALLYPORT_TLS_NO_SHARED_CIPHER: handshake(
    'The client offers none of the three cipher suites of TLS 1.3 that are spoken here.',
    'Let it offer TLS_AES_128_GCM_SHA256.',
  ),
  ERR_SALLYPORT_TLS_NO_SHARED_GROUP: handshake(
    'The client offers no key exchange that is spoken here.',
    'Let it offer X25519 or P-256.',
  ),
  ERR_SALLYPORT_TLS_NO_SHARED_SIGNATURE: handshake(
    'The client takes no signature that our key can make.',
    'Let it take ecdsa_secp256r1_sha256, or issue our certificate with a key that it takes.',
  ),
  ERR_SALLYPORT_TLS_CLIENT_ALERT: handshake(
    'The client ended the handshake with an alert that is not about our certificate.',
    "The line has the alert's name (RFC 8446 section 6.2); look in the client's own log.",
  ),
  ERR_SALLYPORT_TLS_MALFORMED: handshake(
    'What followed the ClientHello is no TLS.',
    'See what the client really is; a device between may have rewritten its bytes.',
  ),
  ERR_SALLYPORT_TLS_CLOSED: handshake(
    'The client closed the connection in the middle of the handshake.',
    "Look in the client's own log: many that do not trust a certificate close without a word.",
  ),
  ERR_SALLYPORT_TLS_TIMEOUT: handshake(
    'The handshake was not over after ten seconds.',
    'Look for a client that stands still, or a network that loses packets.',
  ),
  ERR_SALLYPORT_TLS_OTHER: handshake(
    'The handshake failed for a reason that has no code of its own.',
    'The line has what OpenSSL says of it.',
  ),
} as const satisfies Readonly<Record<string, ErrorRow>>;

type Catalogue = typeof errorCatalogue;

export type ErrorCode = keyof Catalogue;

type CodesThatEnd<Ends> = {
  [Code in ErrorCode]: Catalogue[Code]['ends'] extends Ends ? Code : never;
}[ErrorCode];

/** Codes for which there is a response to the client. */
export type RequestErrorCode = CodesThatEnd<'request'>;

export type HandshakeErrorCode = CodesThatEnd<'handshake'>;
