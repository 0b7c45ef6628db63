import { readWorkload } from '../lib/config/config.ts';
import { readManifest } from '../lib/config/manifest.ts';
import { type Flags, faultText, type VariableName } from '../lib/config/variables.ts';
import type { Workload } from '../lib/policy/workload.ts';
import { type CommandLine, type Io, UsageError } from './arguments.ts';
import { warnOf } from './check.ts';
import type { PodFlag } from './table/pod.ts';

/** Flags that stand for a variable; several of one are a comma-separated list. */
const podFlags: readonly (readonly [PodFlag, VariableName])[] = [
  ['namespace', 'SALLYPORT_POD_NAMESPACE'],
  ['pod-label', 'SALLYPORT_POD_LABELS'],
  ['pod-port', 'SALLYPORT_POD_PORTS'],
  ['pod-ip', 'SALLYPORT_POD_IPS'],
  ['probe', 'SALLYPORT_PROBES'],
  ['default-policy', 'SALLYPORT_DEFAULT_INBOUND_POLICY'],
  ['opaque-ports', 'SALLYPORT_OPAQUE_PORTS'],
];

/** The pod's facts, from flags and the environment. @throws UsageError */
export function workloadOf<Flag extends string>(line: CommandLine<Flag | PodFlag>, io: Io): Workload {
  const given: Flags = new Map(
    podFlags
      .filter(([flag]) => line.has(flag))
      .map(([flag, name]) => [name, { flag: `--${flag}`, value: line.values(flag).join(',') }]),
  );
  const facts = readWorkload(io.env, { readManifest, answersForSidecar: true }, given);
  if (!facts.ok) throw new UsageError(facts.faults.map(faultText));
  warnOf(facts.warnings, io);
  return facts.workload;
}

/** Where the policy is: what `--policy` says, or else the environment. @throws UsageError */
export function policyPathsOf(given: readonly string[], io: Io): readonly string[] {
  const fromEnvironment = io.env.SALLYPORT_POLICY?.trim();
  const paths = given.length > 0 ? given : fromEnvironment ? [fromEnvironment] : [];
  if (paths.length > 0) return paths;
  throw new UsageError('missing-argument', 'no policy', 'write --policy PATH, or set SALLYPORT_POLICY');
}
