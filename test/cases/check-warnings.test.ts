/**
 * What `check` says never applies, over every policy that there is: what it says of routes, rules, authorizations and names is so
 * for each decision that was recorded from Linkerd, that a case expects, and that the policy's own documents speak of.
 */
import t from 'tap';
import { linkingProblems } from '../../bin/check-pods.ts';
import { authorizerOf } from '../../lib/policy/authorizer.ts';
import { compileNow } from '../../lib/policy/compile/compile.ts';
import { type ExplainJson, type ExplainQuery, explain } from '../../lib/policy/explain.ts';
import type { Problem } from '../../lib/problem.ts';
import type { ResourceRef } from '../../lib/resource-ref.ts';
import { readAll } from '../support/case-world.ts';
import type { PolicyDocument } from '../support/policy-cases.ts';
import { account } from '../support/policy-fixtures.ts';
import { type WarnedWorld, warnedWorlds } from '../support/warned-worlds.ts';

t.setTimeout(900_000);

type Answer = readonly [question: ExplainQuery, answer: ExplainJson];

interface Asked {
  readonly world: WarnedWorld;
  readonly answers: readonly Answer[];
  /** The same questions to other documents. */
  without(changed: readonly PolicyDocument[]): readonly Answer[];
}

function answersOf(documents: readonly PolicyDocument[], { workload, questions }: WarnedWorld): readonly Answer[] {
  let nowMs = 0;
  const { index } = compileNow(readAll(documents, workload).documents, workload);
  const authorizer = authorizerOf(index, () => (nowMs += 3_600_000));
  return questions.map((question) => [question, explain(authorizer, question)]);
}

type Resource = NonNullable<Problem['resource']>;
type Warning = Problem & { readonly resource: Resource };
/** What shows that a warning is not true; null where nothing does. */
type Disproof = (warning: Warning, asked: Asked) => string | null;

const isNamed = (ref: { readonly kind: string; readonly name: string } | null, { kind, name }: Resource): boolean =>
  ref !== null && ref.kind.toLowerCase() === kind.toLowerCase() && ref.name === name;
const recordedAs = ({ kind, name }: Resource): string => `/${kind}/${name}`.toLowerCase();
const shown = (answer: Answer | undefined): string | null => (answer === undefined ? null : JSON.stringify(answer));
const isDocument =
  (resource: Resource) =>
  ({ kind, metadata }: PolicyDocument): boolean =>
    kind === resource.kind && metadata.name === resource.name && metadata.namespace === resource.namespace;

const outcomeOf = ({ verdict, httpStatus, tcp, audit, server, route, rule }: ExplainJson): string =>
  JSON.stringify([verdict, httpStatus, tcp, audit, server, route, rule]);

/** Where the documents decide otherwise, in anything but who is credited. */
function otherwise({ answers, without }: Asked, changed: readonly PolicyDocument[]): string | null {
  const after = without(changed);
  const at = answers.findIndex(([, answer], i) => outcomeOf(answer) !== outcomeOf(after[i]?.[1] ?? answer));
  return at === -1 ? null : JSON.stringify([answers[at], after[at]?.[1]]);
}

const accessPolicyOf = (message: string): string => /^accessPolicy: ([\w-]+) /.exec(message)?.[1] ?? '';
/** What a warning is about among those that admit: an authorization, or a Server's access policy. */
const isAbout =
  ({ resource, message }: Warning) =>
  (authz: ResourceRef, server: ResourceRef): boolean =>
    resource.kind === 'Server'
      ? isNamed(server, resource) && authz.kind === 'default' && authz.name === accessPolicyOf(message)
      : isNamed(authz, resource);

const neverGrants: Disproof = (warning, { world, answers }) => {
  const { resource } = warning;
  const recorded = world.recorded.find(({ authz }) => authz?.toLowerCase().endsWith(recordedAs(resource)));
  if (recorded !== undefined) return JSON.stringify(recorded);
  const isIt = isAbout(warning);
  return shown(
    answers.find(([, { candidates, server }]) =>
      candidates.some(({ authz, granted }) => granted && isIt(authz, server)),
    ),
  );
};

const changesNothing: Disproof = ({ resource }, asked) =>
  otherwise(
    asked,
    asked.world.documents.filter((document) => !isDocument(resource)(document)),
  );

/** It refuses nobody of some kind; of a Server that is its access policy. What is no HTTP may be refused whoever sends it. */
const admits =
  (whom: (question: ExplainQuery) => boolean): Disproof =>
  (warning, { answers }) => {
    const isIt = isAbout(warning);
    const refuses = ([question, { candidates, server }]: Answer): boolean =>
      whom(question) && candidates.some(({ authz, granted }) => !granted && isIt(authz, server));
    return shown(answers.find(refuses));
  };

const disproofs: Readonly<Record<string, Disproof>> = {
  'route-never-found': ({ resource }, { world, answers }) => {
    const recorded = world.recorded.find(({ route }) => route?.toLowerCase().endsWith(recordedAs(resource)));
    if (recorded !== undefined) return JSON.stringify(recorded);
    return shown(answers.find(([, { route }]) => isNamed(route, resource)));
  },
  'rule-never-found': ({ resource, message }, { answers }) => {
    const [, number] = /finds rule (\d+):/.exec(message) ?? [];
    if (number === undefined) return `no rule is named: ${message}`;
    return shown(answers.find(([, { route, rule }]) => isNamed(route, resource) && rule === Number(number) - 1));
  },
  'authorization-never-applies': neverGrants,
  'authorization-redundant': changesNothing,
  'authentication-unused': changesNothing,
  'identity-impossible': ({ message }, { world }) => {
    const [, text = ''] = /has the identity "(.*?)": /.exec(message) ?? [];
    const { controlPlaneNamespace, trustDomain } = world.workload;
    const end = `.serviceaccount.identity.${controlPlaneNamespace}.${trustDomain}`;
    const isOf = (name: string): boolean => (text.startsWith('*') ? name.endsWith(text.slice(1)) : name === text);
    const isAccount = (name: string): boolean =>
      name.endsWith(end) && /^[^.]+\.[^.]+$/.test(name.slice(0, -end.length));
    return shown(
      world.questions
        .map((question): Answer => [question, {} as ExplainJson])
        .find(([{ identity = '' }]) => isAccount(identity) && isOf(identity)),
    );
  },
  'admits-everyone': admits(() => true),
  // A SPIFFE ID is admitted by its whole name alone, as with Linkerd.
  'admits-every-identity': admits(({ identity }) => identity !== undefined && !identity.includes('://')),
  'audit-left-on': admits(() => true),
  'network-covered': ({ resource, message }, asked) => {
    const [, network = ''] = /^the exceptions of (\S+) leave/.exec(message) ?? [];
    // Another network that is none of anybody's, in its place.
    const changed = asked.world.documents.map((document) =>
      isDocument(resource)(document)
        ? JSON.parse(JSON.stringify(document).replaceAll(`"cidr":"${network}"`, '"cidr":"255.255.255.255/32"'))
        : document,
    );
    return otherwise(asked, changed);
  },
};

/** What is checked of one world: with the pod as it is, and with any pod that the documents select. */
const views: readonly Readonly<Record<string, string>>[] = [
  { SALLYPORT_POD_NAMESPACE: 'known', SALLYPORT_POD_LABELS: 'known', SALLYPORT_POD_PORTS: 'known' },
  {},
];

function warningsOf(world: WarnedWorld): Warning[] {
  const { documents } = readAll(world.documents, world.workload);
  const found = views.flatMap(
    (env) => linkingProblems({ documents, broken: false }, world.workload, env, () => {}).problems,
  );
  const own = found.filter(
    (problem): problem is Warning =>
      problem.severity === 'warning' &&
      problem.code in disproofs &&
      problem.resource?.namespace === world.workload.namespace,
  );
  return [
    ...new Map(
      own.map((problem) => [`${problem.code} ${problem.message} ${JSON.stringify(problem.resource)}`, problem]),
    ).values(),
  ];
}

function askedOf(world: WarnedWorld): Asked {
  return { world, answers: answersOf(world.documents, world), without: (changed) => answersOf(changed, world) };
}

/** No policy of these has what it is about. */
const neverGiven = ['network-covered'];

const worlds = warnedWorlds();

/** Warnings about the demo's policy that are not true. */
const untrue: readonly (readonly [code: Problem['code'], kind: string, name: string, message: string])[] = [
  ['route-never-found', 'HTTPRoute', 'orders-api', 'no request finds this route: it matches no request'],
  ['rule-never-found', 'HTTPRoute', 'orders-api', 'no request finds rule 1: it matches no request'],
  ['authorization-never-applies', 'AuthorizationPolicy', 'orders-only', ''],
  ['authorization-redundant', 'AuthorizationPolicy', 'orders-only', ''],
  ['authentication-unused', 'NetworkAuthentication', 'this-pod', ''],
  [
    'identity-impossible',
    'AuthorizationPolicy',
    'orders-only',
    `no ServiceAccount has the identity "${account('checkout')}": because`,
  ],
  ['admits-everyone', 'AuthorizationPolicy', 'orders-only', ''],
  ['admits-every-identity', 'AuthorizationPolicy', 'orders-only', ''],
  ['audit-left-on', 'AuthorizationPolicy', 'orders-only', ''],
];

t.test('a warning that is not true is found', (t) => {
  const demo = worlds.find(({ name }) => name.startsWith('demo'));
  if (demo === undefined) throw new Error('the demo has a policy');
  const asked = askedOf(demo);
  for (const [code, kind, name, message] of untrue) {
    const resource = { kind, namespace: demo.workload.namespace, name };
    t.ok(demo.documents.some(isDocument(resource)), `there is ${kind} ${name}`);
    const warning = { severity: 'warning', code, message, resource, file: '', line: 1, column: 1, hint: '' } as const;
    t.ok(disproofs[code]?.(warning as Warning, asked), code);
  }
  t.end();
});

t.test('each warning is true', (t) => {
  const seen = new Map<string, number>();
  let questions = 0;
  for (const world of worlds) {
    const warnings = warningsOf(world);
    if (warnings.length === 0) continue;
    const asked = askedOf(world);
    questions += asked.answers.length + world.recorded.length;
    const faults = warnings.flatMap((warning) => {
      seen.set(warning.code, (seen.get(warning.code) ?? 0) + 1);
      const disproof = disproofs[warning.code]?.(warning, asked) ?? null;
      return disproof === null
        ? []
        : [`[${warning.code}] ${JSON.stringify(warning.resource)}: ${warning.message}: but ${disproof}`];
    });
    t.same(faults, [], world.name);
  }
  const codes = Object.keys(disproofs).filter((code) => !seen.has(code));
  if (worlds.length > 200) t.same(codes, neverGiven, 'the codes of which there is no warning');
  t.comment(`${worlds.length} policies, ${questions} decisions: ${JSON.stringify([...seen])}`);
  t.end();
});
