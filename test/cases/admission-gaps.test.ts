/** Documents that the real API server or Linkerd's webhook refuses: each is an error here too, and has no effect. */
import t from 'tap';
import { readDocuments } from '../../lib/policy/documents/read.ts';
import { forAllCases } from '../support/cases.ts';
import { readAdmissionGaps } from '../support/linkerd-cases.ts';

/** A deliberate extension: a list item with `except` alone subtracts from every network of the list. */
const extensions = ['delete spec.networks.1.cidr'];

await forAllCases(t, readAdmissionGaps(), async (t, gaps, whose) => {
  t.ok(gaps.length >= (whose === 'own' ? 12 : 74), `${gaps.length} documents`);
  for (const { what, refusal, document } of gaps) {
    const { documents, problems } = readDocuments(
      [{ value: document, file: 'gap.yaml', position: () => ({ line: 1, column: 1 }) }],
      { namespace: 'shop' },
    );
    const errors = problems.filter(({ severity }) => severity === 'error');
    const title = `${document.kind}: ${what}`;
    if (extensions.includes(what)) {
      t.same(errors, [], `${title}: read on purpose`);
      continue;
    }
    t.not(errors.length, 0, `${title}: ${errors[0]?.message ?? refusal}`);
    const granting = documents.filter(({ spec }) => !('refused' in spec) && !('sealed' in spec && spec.sealed));
    t.same(granting, [], `${title}: grants nothing`);
  }
});

t.test('lists are not bounded in length', async (t) => {
  const match = (i: number): object => ({ path: { type: 'PathPrefix', value: `/${i}` } });
  const rules = Array.from({ length: 17 }, () => ({ matches: Array.from({ length: 9 }, (_, i) => match(i)) }));
  const value = {
    apiVersion: 'policy.linkerd.io/v1beta3',
    kind: 'HTTPRoute',
    metadata: { name: 'long', namespace: 'shop' },
    spec: { parentRefs: [{ group: 'policy.linkerd.io', kind: 'Server', name: 'web' }], rules },
  };
  const source = { value, file: 'long.yaml', position: () => ({ line: 1, column: 1 }) };
  const { documents, problems } = readDocuments([source], { namespace: 'shop' });
  t.same([documents.length, problems], [1, []]);
});
