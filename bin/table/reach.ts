import { podFlagRows, podHeading } from './pod.ts';
import { command, once, repeated, toggle } from './row.ts';

const policy = repeated(
  'PATH',
  'file or folder of policy documents, - for standard input; may be repeated; SALLYPORT_POLICY where absent',
);
const words = { kind: 'none', instead: (word: string) => `write --policy ${word}` } as const;

export const whoCommand = command({
  does: 'who can reach a port, or some requests of it: identities, ServiceAccounts and networks, and by which document',
  brief: 'who --policy PATH --port N …',
  usage: ['who --policy PATH --port N|NAME [flags]'],
  about: [
    'All clients that a policy lets reach a port, whichever request they send, or those that may send requests as given; for each the document that lets them in, and one question with the command that explains it. What is not given is open: without --path, all paths are told apart that the policy tells apart.',
  ],
  words,
  headings: { policy: 'The requests:', namespace: podHeading, json: 'Output:' },
  flags: {
    policy,
    port: once('N|NAME', "by number or by the pod's name for it"),
    path: once('P', 'this one; with parameters of its query, if they are to be as given'),
    method: once('M', 'this one'),
    host: once('H', 'this one'),
    header: repeated("'K: V'", 'with this value and no other; may be repeated'),
    ...podFlagRows,
    json: toggle('one JSON object: { "reachable": …, "grants": [ … ] }'),
  },
  exits: 'who',
});

export const canCommand = command({
  does: 'all that one client may do: ports and requests, and by which document',
  brief: 'can --policy PATH --identity X …',
  usage: ['can --policy PATH [--identity NAME | --service-account [NS/]NAME | --tls KIND] [--client IP] [flags]'],
  about: [
    'All that a policy lets a client do at a pod: on which ports, with which requests, and from which networks where --client does not say; for each the document that lets it, and one question with the command that explains it.',
  ],
  words,
  headings: { policy: 'The client (without TLS, where nothing else is said):', namespace: podHeading, json: 'Output:' },
  flags: {
    policy,
    identity: once('NAME', 'the name in its certificate, DNS or spiffe://'),
    'service-account': once('[NS/]NAME', 'in place of its identity; of the namespace of the pod where none is named'),
    tls: once('KIND', 'none, anonymous (mesh TLS without a certificate) or passthrough (TLS for another name)'),
    client: once('IP', 'its address; all addresses where absent'),
    port: once('N|NAME', 'this port alone'),
    ...podFlagRows,
    json: toggle('one JSON object: { "reachable": …, "grants": [ … ] }'),
  },
  exits: 'can',
});
