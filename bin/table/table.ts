import { certsCommand } from './certs.ts';
import { diffCommand } from './diff.ts';
import { explainCommand } from './explain.ts';
import { injectCommand } from './inject.ts';
import { iptablesCommand } from './iptables.ts';
import { canCommand, whoCommand } from './reach.ts';
import { replayCommand } from './replay.ts';
import { type CommandRow, command, flagsOnly, once, toggle } from './row.ts';
import { suggestCommand } from './suggest.ts';
import { testCommand } from './test.ts';

const byEnvironment = 'its configuration is the environment';

/** Every command with its flags. Help, hints, what is accepted and README's table come from here. */
export const commandTable = {
  run: command({
    does: 'the proxy, from the environment',
    usage: ['run'],
    about: [
      'Runs the proxy, configured by the environment (README, "Environment"). It logs to stdout, one JSON object a line.',
      'SIGTERM or SIGINT drains: /ready turns 503, requests in flight finish, then it exits 0. A second one ends it at once.',
    ],
    words: {
      kind: 'none',
      instead: (word) => `${byEnvironment}: write SALLYPORT_POLICY=${word} sallyport run`,
    },
    insteadOfFlag: (flag) =>
      `${byEnvironment}${flag === 'policy' ? ': write SALLYPORT_POLICY=PATH sallyport run' : ''}`,
    flags: {},
    exits: 'run',
    serves: true,
  }),
  demo: command({
    does: 'the proxy before a small app, with throw-away certificates and an example policy, to try',
    usage: ['demo [--open]'],
    about: [
      'A small app on 127.0.0.1:3000, Sallyport before it on 127.0.0.1:8080, admin on 4191, health on 4192, throw-away certificates and an example policy; ports that are taken give way to free ones. Prints what to try. Ctrl-C ends it and leaves nothing behind; it also ends with its terminal and with the program that started it.',
    ],
    words: { kind: 'none', instead: () => 'it has an app and a policy of its own; sallyport run is for yours' },
    flags: {
      open: toggle("without a policy for the app, recording what it decides: the way to a policy of one's own"),
    },
    exits: 'demo',
    serves: true,
  }),
  check: command({
    does: 'errors and warnings in policy files (default: SALLYPORT_POLICY) with file, line, column, document and remedy',
    brief: 'check [PATH…|-] [--json]',
    usage: ['check [PATH…|-] [--json]'],
    about: [
      'Validates policy documents as sallyport run does when it loads them, and names each problem with its file, line and column, the document, and a remedy. Several files or folders are one set of documents, so references among them resolve.',
      'PATH is a file, or a folder of *.yaml, *.yml and *.json; - is standard input; SALLYPORT_POLICY where none is given.',
    ],
    words: { kind: 'paths' },
    insteadOfFlag: (flag) => (flag === 'policy' ? 'write the path alone: sallyport check PATH' : ''),
    flags: { json: toggle('one object: { "ok": …, "problems": [ … ] }, and "allowed" where there are such') },
    notes: [
      "The pod's facts (SALLYPORT_POD_*, SALLYPORT_PROBES, …) are used where the environment has them. Where it does not say which labels or named ports the pod has, the documents are checked for every pod that their Servers and NetworkPolicies select.",
      'A warning that is meant is allowed by an annotation of its document: sallyport.dev/allow: "CODE: reason; CODE: reason". One that allows nothing is a warning itself.',
    ],
    exits: 'check',
  }),
  explain: explainCommand,
  diff: diffCommand,
  who: whoCommand,
  can: canCommand,
  replay: replayCommand,
  test: testCommand,
  suggest: suggestCommand,
  certs: certsCommand,
  inject: injectCommand,
  iptables: iptablesCommand,
  health: command({
    does: 'whether the proxy in this container is ready, for a health check without an HTTP client',
    usage: ['health [--live] [--wait DURATION] [--json]'],
    about: [
      "Asks the health server of the proxy in this container, found by the same environment: for a container's health check or an exec probe where no HTTP client is installed. Says nothing when all is well.",
    ],
    words: flagsOnly,
    flags: {
      live: toggle('whether it runs, rather than whether it is ready'),
      wait: once('DURATION', 'ask again and again, for so long at most, until it is: after a start'),
      json: toggle('the last answer as one object: { "ok": …, "url": …, "said": … }'),
    },
    exits: 'health',
  }),
  version: command({
    does: 'the version of Sallyport, with --json of the Node that runs it, too; --version after any command is the same',
    usage: ['version [--json]'],
    about: ['Prints what runs here. Short: -v.'],
    words: flagsOnly,
    flags: { json: toggle('one object: { "version": …, "node": … }') },
    exits: 'version',
  }),
  help: command({
    does: 'what a command takes, or what a code means; --help after any command is the same',
    usage: ['help [COMMAND|CODE]'],
    about: ['Lists the commands, or says of one what it takes. Short: -h.'],
    words: { kind: 'topic' },
    flags: {},
    exits: 'help',
  }),
} as const satisfies Readonly<Record<string, CommandRow>>;
