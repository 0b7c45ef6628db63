/**
 * What a change of documents must never do, on every world recorded from Linkerd and all of its questions: let somebody in
 * by taking a grant away, by a field that nobody knows or that has no value, or by a document that is about something else.
 */
import t from 'tap';
import { readAll, workloadOf } from '../support/case-world.ts';
import { forAllCases } from '../support/cases.ts';
import { type RecordedWorld, readRecordedWorlds } from '../support/linkerd-cases.ts';
import { load, passes } from '../support/linkerd-worlds.ts';
import type { PolicyDocument } from '../support/policy-cases.ts';

/** Of the shared ones, every change with `all`; else one in so many, another with each run of the world's number. */
const every = process.env.SALLYPORT_RECORDED === 'all' ? 1 : 5;

const grants = ['AuthorizationPolicy', 'ServerAuthorization', 'MeshTLSAuthentication', 'NetworkAuthentication'];

interface Change {
  readonly what: string;
  readonly resources: readonly PolicyDocument[];
  /** Nothing at all may be decided otherwise. */
  readonly unrelated?: true;
  /** Nothing is asked where it is refused: it is in force nowhere but at a first load (stand-ins.test.ts). */
  readonly unlessRefused?: true;
}

/** Each grant, and each thing that a grant needs, taken away. */
function* withoutGrants({ resources }: RecordedWorld): Generator<Change> {
  for (const [i, { kind, metadata }] of resources.entries()) {
    if (!grants.includes(kind)) continue;
    yield { what: `without ${kind}/${metadata.name}`, resources: resources.filter((_, j) => j !== i) };
  }
}

type Path = readonly (string | number)[];

function* objectsIn(value: unknown, path: Path = []): Generator<Path> {
  if (typeof value !== 'object' || value === null) return;
  if (!Array.isArray(value)) yield path;
  for (const [key, inner] of Object.entries(value))
    yield* objectsIn(inner, [...path, Array.isArray(value) ? Number(key) : key]);
}

type Fields = Record<string | number, unknown>;

/** Each object of each spec, in a copy of all documents. */
function* copiesAt({ resources }: RecordedWorld): Generator<{
  readonly what: string;
  readonly document: PolicyDocument;
  readonly path: Path;
  copy(change: (holder: Fields) => void): readonly PolicyDocument[];
}> {
  for (const [i, document] of resources.entries()) {
    for (const path of objectsIn(document.spec)) {
      // Labels are the author's own words.
      if (path.includes('matchLabels')) continue;
      const copy = (change: (holder: Fields) => void): readonly PolicyDocument[] => {
        const changed = structuredClone(document);
        change(path.reduce((holder, key) => holder[key] as Fields, changed.spec as Fields));
        return resources.map((other, j) => (i === j ? changed : other));
      };
      const what = `${document.kind}/${document.metadata.name} with ${['spec', ...path].join('.')}`;
      yield { what, document, path, copy };
    }
  }
}

/** A field that nobody knows, in each object of each spec, with a value and without. */
function* withUnknownFields(world: RecordedWorld): Generator<Change> {
  for (const { what, copy } of copiesAt(world)) {
    for (const exceptFor of ['nobody', null]) {
      const resources = copy((holder) => Object.assign(holder, { exceptFor }));
      yield { what: `${what}.exceptFor: ${exceptFor}`, resources };
    }
  }
}

function isGateway(document: PolicyDocument): boolean {
  return (document as PolicyDocument & { readonly apiVersion: string }).apiVersion.startsWith('gateway.');
}

/** Each field without its value. */
function* withoutValues(world: RecordedWorld): Generator<Change> {
  for (const { what, document, path, copy } of copiesAt(world)) {
    const fields = Object.keys(path.reduce((holder, key) => holder[key] as Fields, document.spec as Fields));
    for (const field of fields) {
      // Without parents a route of the Gateway API is another's; with a section a Server's is refused.
      if (field === 'sectionName' || (field === 'parentRefs' && isGateway(document))) continue;
      const resources = copy((holder) => Object.assign(holder, { [field]: null }));
      yield { what: `${what}.${field}: null`, resources, unlessRefused: true };
    }
  }
}

/** Documents for other Servers, other pods and other namespaces, and grants that nobody refers to. */
function* withUnrelated({ resources }: RecordedWorld): Generator<Change> {
  const linkerd = 'policy.linkerd.io';
  const document = (kind: string, spec: object, namespace = 'shop', version = 'v1alpha1'): PolicyDocument =>
    ({
      apiVersion: `${linkerd}/${version}`,
      kind,
      metadata: { name: 'zz-unrelated', namespace },
      spec,
    }) as PolicyDocument;
  const server = { group: linkerd, kind: 'Server', name: 'zz-unrelated' };
  const added: readonly PolicyDocument[] = [
    document('Server', { podSelector: { matchLabels: { app: 'zz' } }, port: 8080 }, 'shop', 'v1beta3'),
    document('Server', { podSelector: {}, port: 8080, accessPolicy: 'all-unauthenticated' }, 'other', 'v1beta3'),
    document('AuthorizationPolicy', { targetRef: server, requiredAuthenticationRefs: [] }),
    document(
      'AuthorizationPolicy',
      { targetRef: { kind: 'Namespace', name: 'other' }, requiredAuthenticationRefs: [] },
      'other',
    ),
    document(
      'ServerAuthorization',
      { server: { name: 'zz-unrelated' }, client: { unauthenticated: true } },
      'shop',
      'v1beta1',
    ),
    document('NetworkAuthentication', { networks: [{ cidr: '0.0.0.0/0' }, { cidr: '::/0' }] }),
    document('MeshTLSAuthentication', { identities: ['*'] }),
    document('HTTPRoute', { parentRefs: [server], rules: [{}] }, 'shop', 'v1beta3'),
    document('HTTPRoute', { parentRefs: [{ ...server, name: 'web' }], rules: [{}] }, 'other', 'v1beta3'),
    document('HTTPLocalRateLimitPolicy', { targetRef: server, total: { requestsPerSecond: 1 } }),
  ];
  for (const one of added) {
    const what = `with ${one.kind} in ${one.metadata.namespace}: ${JSON.stringify(one.spec)}`;
    yield { what, resources: [...resources, one], unrelated: true };
  }
}

t.setTimeout(every === 1 ? 600_000 : 120_000);
await forAllCases(t, readRecordedWorlds(), async (t, worlds, whose) => {
  let tried = 0;
  let narrowed = 0;
  for (const [number, world] of worlds.entries()) {
    const faults: string[] = [];
    const checks = world.checks.filter(({ request }) => request.dst_ip === undefined);
    const { ask } = load(world);
    const before = checks.map((check) => ask(check));
    const workload = workloadOf(world.id, world.pod, world.settings);
    const errorsOf = (resources: readonly PolicyDocument[]): number =>
      readAll(resources, workload).problems.filter(({ severity }) => severity === 'error').length;
    const errors = errorsOf(world.resources);
    const changes = [
      ...withoutGrants(world),
      ...withUnknownFields(world),
      ...withoutValues(world),
      ...withUnrelated(world),
    ];
    for (const [i, { what, resources, unrelated, unlessRefused }] of changes.entries()) {
      if (whose === 'shared' && (i + number) % every !== 0) continue;
      if (unlessRefused && errorsOf(resources) > errors) continue;
      const after = load({ ...world, resources });
      for (const [j, check] of checks.entries()) {
        tried++;
        const [was, is] = [before[j]?.verdict ?? '', after.ask(check).verdict];
        if (passes(was) && !passes(is)) narrowed++;
        if (unrelated === true ? was !== is : passes(is) && !passes(was))
          faults.push(`${check.id} ${what}: ${was}, then ${is}`);
      }
    }
    t.same(faults.slice(0, 5), [], world.id);
  }
  const [leastTried, leastNarrowed] = whose === 'own' ? [100, 10] : [10_000, 100];
  t.ok(tried > leastTried, `${tried} answers`);
  t.ok(narrowed > leastNarrowed, `${narrowed} of them narrower`);
});
