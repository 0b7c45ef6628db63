/** EX_USAGE of sysexits.h: the command line or the environment is wrong, and nothing was done. */
export const usageExit = 64;

/** 1: what was asked for is not so, or could not be done. */
export type ExitStatus = 0 | 1 | typeof usageExit;

/** A command that has no status 1 has nothing that could be so or not. */
type Meanings = Readonly<Partial<Record<ExitStatus, string>>>;

const serving: Meanings = {
  0: 'after a drained stop',
  1: 'could not start, work was cut off by the grace period, or a second signal',
  64: 'bad configuration, all faults listed before any port opens',
};

/** What each status says, by command: its help and README print this. */
export const exitMeanings = {
  run: serving,
  demo: serving,
  check: { 0: 'clean or warnings only', 1: 'errors', 64: 'wrong usage' },
  explain: {
    0: 'permit (--requests: every line was answered)',
    1: 'refused',
    64: 'wrong usage, unreadable policy (--requests: a line that cannot be read; the others are answered)',
  },
  diff: {
    0: 'no difference, or none of those that --fail-on names',
    1: 'a difference',
    64: 'wrong usage, unreadable policy',
  },
  who: { 0: 'somebody can reach it', 1: 'nobody can', 64: 'wrong usage, unreadable policy' },
  can: { 0: 'the client may do something', 1: 'nothing', 64: 'wrong usage, unreadable policy' },
  replay: {
    0: 'nothing would be decided otherwise',
    1: 'something would',
    64: 'wrong usage, unreadable policy, a log or a line of it that cannot be read (the others are compared)',
  },
  test: {
    0: 'all cases passed',
    1: 'a case failed, or less is exercised than required',
    64: 'wrong usage, a broken test file or policy; no case is asked',
  },
  suggest: {
    0: 'all that was allowed is allowed, and nothing that was refused',
    1: 'not quite: standard error and the comments say what',
    64: 'wrong usage, unreadable log, or none of its lines can be read',
  },
  certs: { 0: 'written', 1: 'nothing could be written', 64: 'wrong usage' },
  inject: { 0: 'done', 1: 'errors, nothing is printed', 64: 'wrong usage' },
  iptables: { 0: 'done', 1: 'refused, nothing is half done', 64: 'wrong usage' },
  version: { 0: 'printed', 64: 'wrong usage' },
  help: { 0: 'printed', 64: 'wrong usage' },
  health: { 0: 'yes', 1: 'no, with the reason on stderr', 64: 'wrong usage' },
} as const satisfies Readonly<Record<string, Meanings>>;

/** `0 done; 1 errors; 64 wrong usage` */
export function exitText(command: keyof typeof exitMeanings): string {
  return Object.entries(exitMeanings[command])
    .map(([status, meaning]) => `${status} ${meaning}`)
    .join('; ');
}
