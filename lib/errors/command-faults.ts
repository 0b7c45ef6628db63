import { type FaultRow, faultsOf } from './fault-row.ts';

const fault = faultsOf('command');

/** The command line, and what `certs`, `iptables`, `health`, `demo` and the launcher find. */
export const commandFaults = {
  'unknown-command': fault('There is no such command.', 'Write sallyport --help for those that there are.'),
  'unknown-flag': fault('The command has no such flag.', 'Write --help behind the command for its flags.'),
  'flag-value': fault(
    'A flag lacks its value, or has one and takes none.',
    'Write --flag=value where the value begins with "-".',
  ),
  'flag-repeated': fault('A flag that counts once is given twice.', 'Keep one of them.'),
  'flags-conflict': fault('Flags exclude each other, or one has no meaning beside the others.', 'Leave one out.'),
  'unexpected-argument': fault('The command takes no such argument.', 'Remove it, or write the flag it belongs to.'),
  'missing-argument': fault('Something is missing without which there is nothing to do.', 'Add what is named.'),
  'bad-question': fault(
    'A question to explain holds what no request has, or lacks what every request has.',
    'Write the fields that explain --help lists, each of its type.',
  ),
  'requests-unreadable': fault(
    'The file of --requests, or a log, cannot be read.',
    'Check the path and its permissions.',
  ),
  'bad-line': fault(
    'A line of a log is no decision, or not whole; a warning. The others are read.',
    'Give logs of Sallyport, whole, of this version or an older one.',
  ),
  'no-proxy': fault(
    'Where --from says there is no admin server of a Sallyport that shows its decisions.',
    'Give the address of the admin server of a proxy of this version, as http://127.0.0.1:4191.',
  ),
  'proxy-refuses': fault(
    'The proxy of --from shows its decisions to nobody but callers on its own machine, or its policy refuses them.',
    'Ask from there by an address or as localhost; in Kubernetes through kubectl port-forward.',
  ),
  'not-recording': fault('The proxy of --from records no decisions.', 'Set SALLYPORT_DECISIONS=all for it.'),
  'other-version': fault(
    'The proxy of --from records decisions in another version of the format.',
    'Use the sallyport of the same version as the proxy, or a newer one.',
  ),
  suggestion: fault(
    'A suggested policy does not do all that the log shows, or does more; a warning that says what.',
    'Read what it names, and write that part by hand; see the rest with replay.',
  ),
  'unread-field': fault('A line of --requests has a field that is not read; a warning.', 'Correct its spelling.'),
  'line-lacks': fault(
    'A line of --requests, from a log, does not hold what the policy looks at; a note beside its answer, which is a guess.',
    'Record decisions with SALLYPORT_DECISIONS=all, or ask with --header, --path and the others what was meant.',
  ),
  'log-lines': fault(
    'Lines of a log among the requests hold no header fields, and some of them no request; a warning.',
    'Write the headers into a line of JSON where a route or a grant depends on them.',
  ),
  'identity-spelling': fault(
    'A name in a certificate becomes another identity, in lower case; a note of explain.',
    'Write it in lower case.',
  ),
  'no-identity-name': fault(
    'A name is none that a certificate gives a client; explain decides for one without an identity.',
    'Write a DNS name without wildcard, or a SPIFFE ID.',
  ),
  'other-trust-domain': fault(
    'An identity is of another trust domain or control plane than this proxy; a note of explain.',
    'See whether its CA is among the trust anchors, and that policies name it in full; or set SALLYPORT_TRUST_DOMAIN.',
  ),
  'client-network': fault(
    'The client is written as a network; explain decides for one address of it.',
    'Write one address; others of the network may be decided otherwise.',
  ),
  'no-listener': fault(
    'The configuration has no listener for the port; a note of explain.',
    'Add the port to SALLYPORT_INBOUND_PORTS, or set SALLYPORT_INBOUND_LISTEN.',
  ),
  'other-family': fault(
    "The listener does not take the client's address family; a note of explain.",
    'Let it listen on [::], which takes IPv4 as well.',
  ),
  'untried-selectors': fault(
    'There are more selectors than check tries pods for; a warning.',
    'Set SALLYPORT_POD_LABELS to check for one pod.',
  ),
  'unexamined-rules': fault(
    'There are more rules of routes than check looks for requests for, or a pattern is too large; a warning.',
    'Check fewer documents at once, or set SALLYPORT_POD_LABELS to check for one pod.',
  ),
  'no-workload': fault('The YAML given to inject holds no workload; a warning.', 'Name the files of the workloads.'),
  'other-environment': fault(
    "The environment of the command is not the running proxy's.",
    'Set the variables as for sallyport run, which lists their faults.',
  ),
  'no-health-server': fault('SALLYPORT_HEALTH_LISTEN is off, so there is nobody to ask.', 'Give it a port.'),
  unhealthy: fault(
    'The health server does not answer, or says that the proxy is not ready.',
    "See the proxy's log; its metrics name the latch that it waits for.",
  ),
  'stale-files': fault(
    'The proxy is ready, and decides by an earlier state of files that cannot be used as they are now; a warning of `health`.',
    'Mend the files that its log names before anything restarts it.',
  ),
  'output-lost': fault(
    'What the command prints cannot be written.',
    'Make room where standard output leads, or keep its reader running.',
  ),
  'node-too-old': fault(
    'This Node is too old.',
    'Install the version that the message names, or give the path of another Node.',
  ),
  'node-flags': fault(
    'This Node has no longer a flag that saves memory or time; a warning.',
    'Run it with the Node that npm installs beside it.',
  ),
  'not-installed': fault('Nothing is installed in this checkout yet.', 'Run npm ci.'),
  'ca-absent': fault('The files of the development CA cannot be read.', 'Make it with sallyport certs init.'),
  'ca-unusable': fault('Two files are no development CA.', 'Make a new one with sallyport certs init --force.'),
  'ca-expired': fault('The development CA has expired.', 'Make a new one with sallyport certs init --force.'),
  'bad-certificate-name': fault(
    'A name is none that a certificate of a workload can have.',
    'Write a DNS name or one SPIFFE ID, spiffe://TRUST-DOMAIN/PATH.',
  ),
  'bad-file-name': fault('A name cannot name files.', "Use letters, digits, '.', '_' and '-', and not ca."),
  'files-exist': fault('Files would be overwritten.', 'Use --force to replace them, or --out for another place.'),
  'not-written': fault(
    'Files cannot be written; what was begun is removed.',
    'Choose a place that can be written with --out.',
  ),
  'bad-user-id': fault('A number is no user id.', 'Write a number, such as 2102.'),
  'every-address': fault(
    'A network that is left alone is every address, or all such networks together are every address of a client.',
    'Leave the rules out where nothing shall be guarded.',
  ),
  'every-port': fault(
    'Every port but that of the redirect is left alone.',
    'Leave the rules out where nothing shall be guarded.',
  ),
  'not-linux': fault(
    'There are no netfilter rules on this system.',
    'Set them inside the Linux container or host that runs the pod.',
  ),
  'no-net-admin': fault(
    'The capability NET_ADMIN is missing, or NET_RAW for the legacy programs.',
    'Run it as root; in Kubernetes as an init container with NET_ADMIN.',
  ),
  'no-iptables': fault(
    'No iptables is installed, or not the one that was asked for.',
    "Use Sallyport's own image, or install the package iptables whole.",
  ),
  'ipv6-open': fault(
    'An interface has IPv6, or may get it, and the rules do not guard it; a warning with --ipv4-only.',
    'Add --ipv6, with SALLYPORT_INBOUND_LISTEN=[::]:4143; or --ipv4-only, if that is meant.',
  ),
  'no-ipv6': fault('The kernel has no IPv6, so there are no rules for it; a note.', 'Nothing, or leave --ipv6 out.'),
  'unreadable-proc': fault(
    'The kernel does not tell what the rules must guard, because /proc cannot be read.',
    'Run it as root, and mount a /proc that root may read.',
  ),
  'xtables-lock': fault(
    'The legacy programs cannot make their lock file.',
    'Mount a writable /run, or use --backend nft.',
  ),
  'kernel-modules': fault(
    'The kernel lacks a part that the rules need.',
    'Load ip_tables and iptable_nat on the node, or for nft nft_compat, nf_nat and xt_REDIRECT.',
  ),
  'iptables-refused': fault('A program of iptables refuses, for its own reason.', 'See what it says.'),
} as const satisfies Readonly<Record<string, FaultRow>>;
