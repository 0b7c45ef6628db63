import { podFlagRows, podHeading } from './pod.ts';
import { command, once, repeated, toggle } from './row.ts';

export const explainCommand = command({
  does: 'one decision with its reasons, or one for each line of a file, from files alone',
  brief: 'explain --policy PATH …',
  usage: ['explain --policy PATH --port N --client IP [flags]', 'explain --policy PATH --requests FILE|- [flags]'],
  about: [
    "One decision with its reasons, from policy files alone: the proxy's own deciding function, without a server. Where NetworkPolicies close the port to the client, they are the decision: nothing else is asked. Notes name what a client of the proxy could not be: a name that no certificate gives, an address that reaches no listener.",
  ],
  words: { kind: 'none', instead: (word) => `write --policy ${word}` },
  headings: {
    policy: 'The request (GET / HTTP/1.1 without TLS, where nothing else is said):',
    requests: 'Many requests:',
    namespace: podHeading,
    json: 'Output:',
  },
  flags: {
    policy: repeated(
      'PATH',
      'file or folder of policy documents, - for standard input; may be repeated; SALLYPORT_POLICY where absent',
    ),
    port: once('N|NAME', "the port that the client connects to, by number or by the pod's name for it"),
    client: once('IP', "the client's address; of a network, the one that is written"),
    identity: once('NAME', 'the name in its certificate, DNS or spiffe://'),
    'service-account': once('[NS/]NAME', 'in place of its identity; of the namespace of the pod where none is named'),
    tls: once('KIND', 'none, anonymous (mesh TLS without a certificate) or passthrough (TLS for another name)'),
    protocol: once('P', 'http1, http2, grpc, tcp (bytes, no HTTP) or connect (none: a TCP probe)'),
    method: once('M', 'GET, and POST for gRPC, where absent'),
    path: once('P', 'with its query; / where absent'),
    host: once('H', 'of the request'),
    header: repeated("'K: V'", 'may be repeated'),
    requests: once(
      'FILE|-',
      'one JSON object a line, { "port": 8080, "client": "10.1.2.3", "identity": "…" or "serviceAccount": "NS/NAME" or "tls": "…", "protocol": "…", "method": "…", "path": "…", "host": "…", "headers": { "k": "v" or ["v", …] } }; prints one JSON decision a line, in order. All are asked at one instant, so that equal lines spend a rate limit as a burst does. A line that cannot be read yields { "error": … }. Lines of the log (JSON or plain) and of the access log are taken as they are, and answered with what they say as "logged"; --port says where lines of an access log belong.',
    ),
    ...podFlagRows,
    json: toggle('one JSON object on stdout'),
  },
  exits: 'explain',
});
