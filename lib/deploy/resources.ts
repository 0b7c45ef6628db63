import { valueAt } from '../policy/field-path.ts';
import { type Quantity, quantity } from './option-values.ts';
import type { PodOptions } from './options.ts';
import { containersOf, type PodSpecValue } from './pod-template.ts';
import type { TemplateFault } from './settings.ts';

const kinds = ['cpu', 'memory', 'ephemeral-storage'] as const;
type Kind = (typeof kinds)[number];
type Part = 'proxy' | 'init';
type Side = 'requests' | 'limits';

/** Quantities by kind and side. */
type Amounts = Readonly<Partial<Record<Kind, Readonly<Partial<Record<Side, string>>>>>>;

/** Where nobody says anything. */
const always: Readonly<Record<Part, Amounts>> = {
  proxy: { cpu: { requests: '20m' }, memory: { requests: '96Mi', limits: '256Mi' } },
  init: { cpu: { requests: '10m' }, memory: { requests: '64Mi', limits: '128Mi' } },
};

/**
 * Where every container of the pod says it, too. A quota refuses a pod of which one container does not, so there they all
 * do; elsewhere a limit of the CPU would only slow the proxy down.
 */
const asTheOthers: Amounts = { cpu: { limits: '1' }, 'ephemeral-storage': { requests: '64Mi', limits: '256Mi' } };

/** With less the program itself has no room, and the kernel ends it over and over. */
const leastMemory: Readonly<Record<Part, string>> = { proxy: '128Mi', init: '64Mi' };

/** As a container has them. */
export type Resources = Readonly<Partial<Record<Side, Readonly<Partial<Record<Kind, string>>>>>>;

/**
 * What one of our two containers asks for and may use. A pod with resources of its own is one budget for all its
 * containers, ours included: of what it has, ours say nothing unless somebody has said it.
 */
export function containerResources(
  part: Part,
  stated: PodOptions,
  spec: PodSpecValue | null | undefined,
): { readonly resources: Resources; readonly faults: readonly TemplateFault[] } {
  const found: Record<Side, Partial<Record<Kind, string>>> = { requests: {}, limits: {} };
  const faults: TemplateFault[] = [];
  const whose = part === 'proxy' ? 'the sidecar' : 'the init container';
  for (const kind of kinds) {
    const names = { requests: `${part}-${kind}-request`, limits: `${part}-${kind}-limit` } as const;
    const said = { requests: stated[names.requests], limits: stated[names.limits] };
    let requests = amountOf(said.requests, () => otherwise(part, kind, 'requests', spec));
    let limits = amountOf(said.limits, () => otherwise(part, kind, 'limits', spec));
    if (requests !== null && limits !== null && requests.number > limits.number) {
      if (said.requests !== null && said.limits !== null) {
        const message = `${whose} would ask for ${requests.text} of ${kind} and may use ${limits.text}`;
        const hint = `Make ${names.limits} no less than ${names.requests}.`;
        faults.push({ severity: 'error', code: 'resources', path: ['metadata'], message, hint });
      }
      // What nobody has said gives way to what somebody has.
      if (said.limits === null) limits = requests;
      else requests = limits;
    }
    if (kind === 'memory' && limits !== null && limits.number < quantity(leastMemory[part]).number) {
      const message = `${whose} may use ${limits.text} of memory, and needs ${leastMemory[part]}`;
      const hint = `Raise ${names.limits}.`;
      faults.push({ severity: 'warning', code: 'little-memory', path: ['metadata'], message, hint });
    }
    if (requests !== null) found.requests[kind] = requests.text;
    if (limits !== null) found.limits[kind] = limits.text;
  }
  const resources = Object.fromEntries(Object.entries(found).filter(([, of]) => Object.keys(of).length > 0));
  return { resources, faults };
}

function amountOf(said: Quantity | 'none' | null, otherwise: () => Quantity | null): Quantity | null {
  return said === 'none' ? null : (said ?? otherwise());
}

function otherwise(part: Part, kind: Kind, side: Side, spec: PodSpecValue | null | undefined): Quantity | null {
  const states = (holder: unknown, sides: readonly Side[]): boolean =>
    sides.some((each) => (valueAt(holder, ['resources', each, kind]) ?? null) !== null);
  if (states(spec, ['requests', 'limits'])) return null;
  // A limit alone is a request as well.
  const counts = side === 'requests' ? (['requests', 'limits'] as const) : (['limits'] as const);
  const others = containersOf(spec);
  const text = always[part][kind]?.[side];
  const also = others.every(({ own }) => states(own, counts)) ? asTheOthers[kind]?.[side] : undefined;
  const amount = text ?? also;
  return amount === undefined ? null : quantity(amount);
}
