/**
 * Whatever words stand in a document, be they those of every JavaScript object, it is read or refused: one document that
 * could not be read at all would keep every other from being read.
 */
import t from 'tap';
import { compileNow } from '../../../../lib/policy/compile/compile.ts';
import { documentKinds } from '../../../../lib/policy/documents/kinds.ts';
import { readDocuments } from '../../../../lib/policy/documents/read.ts';
import { fieldsAt } from '../../../../lib/policy/documents/shape-fields.ts';
import { workload } from '../../../support/policy-fixtures.ts';
import fc from '../../../support/properties.ts';

const ofObjects = ['constructor', 'toString', '__proto__', 'hasOwnProperty', 'valueOf', 'length', 'then'];
const noPrimitive = { toString: 1, valueOf: 1 };
const values: readonly unknown[] = [noPrimitive, null, {}, [], 'x', [null], own('a', null), own('constructor', null)];

/** `{ [key]: value }`, also where the key is `__proto__`. */
function own(key: string, value: unknown): object {
  return Object.fromEntries([[key, value]]);
}

const versions = documentKinds.flatMap((type) => Object.keys(type.shapes).map((version) => ({ type, version })));

function documentOf({ type, version }: (typeof versions)[number], spec: unknown, metadata: unknown = { name: 'a' }) {
  return { apiVersion: type.group === '' ? version : `${type.group}/${version}`, kind: type.kind, metadata, spec };
}

/** Reads it and puts it in force. */
function read(value: unknown): ReturnType<typeof readDocuments> {
  const found = readDocuments([{ value, file: 'f', position: () => ({ line: 1, column: 1 }) }], { namespace: 'shop' });
  compileNow(structuredClone(found.documents), workload());
  return found;
}

const ref = { group: 'policy.linkerd.io', kind: 'Server', name: 'web' };
/** What makes a document one that is read to its end. */
const beginnings: Readonly<Record<string, object>> = {
  Server: { podSelector: {}, port: 80 },
  ServerAuthorization: { server: { name: 'web' }, client: { unauthenticated: true } },
  AuthorizationPolicy: { targetRef: ref, requiredAuthenticationRefs: [] },
  MeshTLSAuthentication: { identities: ['*'] },
  NetworkAuthentication: { networks: [{ cidr: '10.0.0.0/8' }] },
  HTTPRoute: { parentRefs: [ref] },
  GRPCRoute: { parentRefs: [ref] },
  HTTPLocalRateLimitPolicy: { targetRef: ref, total: { requestsPerSecond: 1 } },
  NetworkPolicy: { podSelector: {}, ingress: [{}] },
};

t.test('the words of objects, as fields and in them', async (t) => {
  for (const kind of versions) {
    const name = `${kind.type.kind} ${kind.version}`;
    const thrown: string[] = [];
    const tryTo = (value: object): void => {
      try {
        read(value);
      } catch (error) {
        thrown.push(`${JSON.stringify(value)}: ${error}`);
      }
    };
    const beginning = beginnings[kind.type.kind] ?? {};
    const known = fieldsAt(kind.type.fields ?? (kind.type.shapes[kind.version] as never), []);
    for (const word of ofObjects) {
      for (const value of values) {
        const field = own(word, value);
        const inner = known.flatMap((each) => [own(each, field), own(each, [field])]);
        for (const spec of [field, own(word, field), ...inner]) {
          tryTo(documentOf(kind, spec));
          tryTo(documentOf(kind, { ...beginning, ...spec }));
        }
        for (const each of ['name', 'namespace', 'labels', word]) {
          tryTo(documentOf(kind, beginning, { name: 'a', ...own(each, field) }));
          tryTo({ ...documentOf(kind, beginning), status: own(each, field) });
        }
        tryTo(documentOf(kind, beginning, { name: 'a', ...field }));
        tryTo({ ...documentOf(kind, beginning), ...field });
      }
      if (kind.type.group === '') continue;
      const said = read(documentOf(kind, { ...beginning, ...own(word, null) })).problems.map(({ message }) => message);
      t.match(said, [new RegExp(`^unknown field spec.${word}`)], `${name}: ${word}`);
    }
    t.same(thrown.slice(0, 3), [], `${name}: nothing is thrown`);
  }
});

t.test('any words at all, at any depth', async (t) => {
  const words = [
    ...ofObjects,
    ...'podSelector matchLabels matchExpressions key operator values port proxyProtocol accessPolicy'.split(' '),
    ...'server name selector client networks cidr except meshTLS identities identityRefs targetRef group kind'.split(
      ' ',
    ),
    ...'parentRefs hostnames rules matches path type value headers queryParams method service filters'.split(' '),
    ...'requestHeaderModifier add set remove requestRedirect total identity overrides clientRefs'.split(' '),
    ...'requestsPerSecond ingress from ports namespaceSelector ipBlock policyTypes protocol endPort'.split(' '),
  ];
  const key = fc.oneof(fc.constantFrom(...words), fc.string());
  const { any } = fc.letrec<{ any: unknown }>((tie) => ({
    any: fc.oneof(
      { maxDepth: 6, depthSize: 'large' },
      fc.constantFrom(null, null, undefined, '', 'x', 80, 'In', 'Server', '10.0.0.0/8', '/', true, new Date(0)),
      fc.array(tie('any'), { maxLength: 3 }),
      fc.array(fc.tuple(key, tie('any')), { maxLength: 4 }).map((entries) => Object.fromEntries(entries)),
    ),
  }));
  const property = fc.property(fc.nat(versions.length - 1), any, any, fc.boolean(), (i, spec, metadata, named) => {
    const kind = versions[i] as (typeof versions)[number];
    const { name: _, ...rest } = Object(metadata) as Record<string, unknown>;
    const beginning = named ? beginnings[kind.type.kind] : {};
    const whole = typeof spec === 'object' && !Array.isArray(spec) ? { ...beginning, ...spec } : spec;
    read(documentOf(kind, whole, named ? { ...rest, name: 'a' } : metadata));
  });
  t.doesNotThrow(() => fc.assert(property, { numRuns: 5_000 }));
});
