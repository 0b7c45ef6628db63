import { logFlagRows, logHeading } from './log.ts';
import { podFlagRows, podHeading } from './pod.ts';
import { command, repeated, toggle } from './row.ts';

export const replayCommand = command({
  does: 'what a policy would have decided otherwise of the decisions in a log, grouped by cause, worst first',
  brief: 'replay LOG…|-|--from URL --policy NEW [--against OLD]',
  usage: ['replay LOG…|- --policy NEW [--against OLD] [flags]', 'replay --from URL --policy NEW [flags]'],
  about: [
    'Decides each recorded decision again, by the function of the proxy itself, and shows what comes out otherwise: what was refused and would be allowed, what was allowed and would be refused (with the clause that fails), what would be answered otherwise, and what would be credited to another document. Without --against, the comparison is with what was recorded; with it, with what OLD would decide.',
    'LOG is a record of decisions (SALLYPORT_DECISIONS), a log or an access log of Sallyport, or lines as explain --requests takes them; compressed by gzip or not; - is standard input. Where a line lacks what the decision depends on, it is counted as such and not guessed.',
  ],
  words: { kind: 'paths' },
  headings: { policy: 'The policies:', from: logHeading, namespace: podHeading, json: 'Output:' },
  flags: {
    policy: repeated('PATH', 'file or folder of policy documents; may be repeated; SALLYPORT_POLICY where absent'),
    against: repeated('PATH', 'compare with what these decide, rather than with what was recorded; may be repeated'),
    ...logFlagRows,
    ...podFlagRows,
    json: toggle('one JSON object on stdout'),
  },
  notes: [
    'Rate limits are not replayed: what was over one counts as what it would have been below it. A difference in the document alone does not change the exit status.',
  ],
  exits: 'replay',
});
