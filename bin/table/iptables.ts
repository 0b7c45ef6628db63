import { command, flagsOnly, once, toggle } from './row.ts';

export const iptablesCommand = command({
  does: "the rules that send a pod's inbound traffic to the proxy, for an init container",
  brief: 'iptables [--print|--apply] [--remove] …',
  usage: ['iptables [--print | --apply] [--remove] [flags]'],
  about: [
    "The nat rules that send a pod's inbound TCP connections to the proxy, for an init container. They name chains of their own and touch no rule of anybody else; applied again they change nothing, and changed flags replace them in one step. While they are there and the proxy is not, connections are refused: the ports never open by themselves.",
  ],
  words: flagsOnly,
  flags: {
    print: toggle('the rules for a table without them, as input for iptables-restore --noflush (the default)'),
    apply: toggle('put them into force; takes root and the capability NET_ADMIN'),
    remove: toggle('with --apply, take them away again; with --print, the input that does'),
    'inbound-port': once('PORT', 'where redirected connections arrive, as in SALLYPORT_INBOUND_LISTEN (4143)'),
    'skip-inbound-ports': once('LIST', 'ports that are left alone, such as 25,9000-9100: no policy governs them'),
    'skip-subnets': once('LIST', 'clients that are left alone, such as 10.1.0.0/16,fd00::/64'),
    'admin-port': once('PORT|off', 'left alone: the admin server answers there itself, behind its own policy (4191)'),
    'health-port': once('PORT|off', 'left alone: the health server answers there itself (4192)'),
    'own-address': toggle(
      "also guard connections from inside the pod to its own addresses (not those to loopback); their client is the pod's own address, podClusterIp in policies",
    ),
    'proxy-uid': once(
      'UID',
      "the user of the proxy, whose connections --own-address leaves alone (2102); with SALLYPORT_APP_HOST=original another user's would come back for ever",
    ),
    ipv6: toggle(
      'for IPv6, too; the proxy must listen there: SALLYPORT_INBOUND_LISTEN=[::]:4143. With --print, one text for both programs, iptables-restore and ip6tables-restore',
    ),
    'ipv4-only': toggle(
      'leave IPv6 open; without this and without --ipv6, --apply refuses where an interface has IPv6, and sets the rules for it where none has it yet',
    ),
    backend: once('nft|legacy', 'which iptables; without it, the one that has the rules already or that takes them'),
    json: toggle('what was done, or the rules, as one JSON object'),
  },
  exits: 'iptables',
});
