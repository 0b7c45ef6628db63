import { logFlagRows, logHeading } from './log.ts';
import { podFlagRows, podHeading } from './pod.ts';
import { command, once, toggle } from './row.ts';

export const suggestCommand = command({
  does: 'the least policy that allows what a log shows, with the evidence for each part of it',
  brief: 'suggest LOG…|-|--from URL',
  usage: ['suggest LOG…|- [flags]', 'suggest --from URL [flags]', 'suggest LOG…|- --merge FILE [--in-place]'],
  about: [
    'Drafts Servers, routes and authorizations that allow what was allowed in the log, and nothing else but what the rules below make of it: for everything that an open or audited pod let in, the policy that somebody would write who had watched it. Clients are named by their ServiceAccount or identity, and by their address only where they have none. Comments say how often each was seen, since when, and by whom.',
    'LOG is a record of decisions (SALLYPORT_DECISIONS=all) or the log of Sallyport, compressed by gzip or not; - is standard input. A proxy that records counts its decisions in memory, too: two thousand different ones at most, for --from, on its own machine.',
    'A number, a UUID, sixteen hexadecimal digits or a token of twenty characters in a path stands for all of its kind where two different ones were seen in its place; so do sixteen names in one place with the same clients, for any name. Four addresses of one /24 (IPv6: /64) are a network, the smallest that holds them. Where such a rule would let in what the log shows as refused, it is not applied.',
  ],
  words: { kind: 'paths' },
  headings: { from: logHeading, exact: 'What is made of it:', namespace: podHeading, json: 'Output:' },
  flags: {
    ...logFlagRows,
    exact: toggle('each path and each address as it was seen: none of the rules above'),
    refused: toggle('allow what was refused, too'),
    merge: once('FILE', 'print this policy with what it lacks added at its end, and nothing else of it changed'),
    'in-place': toggle('write that to the file of --merge, instead of printing it'),
    ...podFlagRows,
    json: toggle('one JSON object on stdout, with the policy as text and what it could not do'),
  },
  notes: [
    'Probes of the pod are left to their own route, from every network that may probe; with SALLYPORT_PROBES_WITH_ROUTES they need none. The result is held against the whole log before it is printed.',
  ],
  exits: 'suggest',
});
