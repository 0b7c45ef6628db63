import { type OptionName, optionNames, options } from '../../lib/deploy/options.ts';
import { command, type FlagRow, once, repeated, toggle } from './row.ts';

type OptionFlags = { readonly [Name in OptionName]: FlagRow };

/** One for each option, with what holds where it is not said. */
const optionFlags = Object.fromEntries(
  optionNames.map((name) => {
    const { value, says, shown } = options[name];
    return [name, value === null ? toggle(says) : once(value, `${says} (${shown})`)];
  }),
) as unknown as OptionFlags;

export const injectCommand = command({
  does: 'Sallyport as a native sidecar, put into workload YAML or taken out again',
  brief: 'inject FILE…|- …',
  usage: [
    'inject FILE…|- [flags]',
    'inject FILE…|- --uninject',
    'inject --print-policy-configmap FOLDER [--name NAME] [--namespace NS]',
    'inject --print-pod-monitor [--name NAME] [--namespace NS]',
  ],
  about: [
    'Puts Sallyport as a native sidecar (Kubernetes 1.29 or later) before the app of every workload in the YAML, and prints the result. Everything else stays as it is written, comments and order too. Done again it changes nothing; another version or other flags replace what is there. With an error nothing is printed, so that half a stream is never applied.',
  ],
  words: { kind: 'paths' },
  flags: {
    ...optionFlags,
    namespace: once('NS', 'of what names none (default)'),
    name: once('NAME', 'of what --print-policy-configmap and --print-pod-monitor print'),
    'pod-template': repeated(
      'KIND.GROUP=PATH',
      'where a kind of yours keeps its pod template, such as Widget.example.com=spec.template, or spec.tasks.*.template in each item of a list',
    ),
    'allow-unguarded': toggle('pods of kinds that are not known are left as they are, with a warning'),
    json: toggle('the report on standard error as one JSON object'),
    uninject: toggle('take Sallyport out again, whichever version and flags put it in'),
    'print-policy-configmap': once('FOLDER', 'the policy files of a folder as a ConfigMap, if check finds no error'),
    'print-pod-monitor': toggle('a PodMonitor for the Prometheus operator'),
  },
  headings: {
    'proxy-cpu-request': 'Resources of the sidecar and of the init container (none: no amount at all):',
    namespace: 'Of the command itself:',
  },
  notes: [
    'Each flag above those of the command itself is an annotation as well, of a pod or else of its Namespace in the same YAML, which wins over the flag: config.linkerd.io/NAME where Linkerd has one of that name and meaning, else sallyport.dev/NAME. Another annotation of these prefixes is a warning. sallyport.dev/inject: disabled, on either, leaves pods as they are.',
  ],
  exits: 'inject',
  page: ['In Kubernetes', 'lib/deploy/README.md'],
});
