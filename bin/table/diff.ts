import { podFlagRows, podHeading } from './pod.ts';
import { command, once, toggle } from './row.ts';

export const diffCommand = command({
  does: 'what a policy decides otherwise than another one for a pod, all of it, as sets with an example each',
  brief: 'diff OLD NEW [--fail-on …]',
  usage: ['diff OLD|- NEW|- [flags]'],
  about: [
    'Compares what two policies decide for a pod, not their texts: what is newly allowed, newly refused, answered otherwise (another status, audit, limits, redirects, changed headers) or credited to another authorization, as sets of ports, clients and requests. Each set has one question, with the command that explains it. Equal policies print nothing.',
    'Every question is in one of finitely many cells, which the ports, networks, identities, hosts, paths, methods, headers and parameters of the two policies divide; of each cell one question is put to the deciding function of the proxy.',
    'OLD and NEW are files or folders of policy documents; - is standard input.',
  ],
  words: { kind: 'paths' },
  insteadOfFlag: (flag) => (flag === 'policy' ? 'write the paths alone: sallyport diff OLD NEW' : ''),
  headings: { 'fail-on': 'As a gate:', namespace: podHeading, json: 'Output:' },
  flags: {
    'fail-on': once(
      'KIND',
      'exit 1 for what is widened (newly allowed), narrowed (newly refused), or any difference (any)',
    ),
    ...podFlagRows,
    json: toggle('one JSON object: { "equal": …, "changes": [ … ] }'),
  },
  notes: [
    'A path that servers could read in several ways (escapes, case, dots, a slash at its end) is decided in each of them, and refused where they disagree: other spellings of the paths shown may be answered otherwise, too. Not compared are requests that a rule cannot examine, which are answered 400: values longer than 4096 characters or not in UTF-8, more values or parameters than are searched, a second field of a header that may come once.',
  ],
  exits: 'diff',
});
