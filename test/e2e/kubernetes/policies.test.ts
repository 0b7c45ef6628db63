import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { parseAllDocuments } from 'yaml';
import { demoPolicy } from '../../../bin/demo-policy.ts';
import { readDocuments } from '../../../lib/policy/documents/read.ts';
import { bothOf } from '../../support/cases.ts';
import { type Kubernetes, kubernetesUnavailable, startKubernetes } from '../../support/kubernetes.ts';
import { readAdmissionGaps, readRecordedWorlds } from '../../support/linkerd-cases.ts';
import { readPolicyCases } from '../../support/policy-cases.ts';
import { pages, textOf } from '../../support/readme-page.ts';
import { checkout } from '../../support/sallyport.ts';
import { until } from '../../support/until.ts';

// The policy documents that are shown and tested here, before an API server with Linkerd's own definitions of them
// (test/fixtures/crds/): what is read here without an error, Linkerd's users can apply.

const unavailable = await kubernetesUnavailable(t);

interface Document {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string };
}

t.test('policy documents', { skip: unavailable }, async (t) => {
  const cluster = await startKubernetes(t);
  await define(cluster);

  await t.test('of the pages and the demo', async (t) => {
    const texts: [where: string, text: string][] = [['the demo', demoPolicy]];
    for (const page of [...pages, 'lib/deploy/README.md', 'certs/README.md']) {
      const fences = textOf(page).matchAll(/```yaml\n(.*?)```/gs);
      for (const [, text = ''] of fences) texts.push([page, text]);
    }
    let count = 0;
    for (const [where, text] of texts) {
      for (const document of documentsIn(text)) {
        count++;
        t.same(await refusalOf(cluster, plain(document)), null, `${where}: ${document.kind} ${document.metadata.name}`);
      }
    }
    t.ok(count > 10, `${count} documents`);
  });

  await t.test('of the cases: what is read without an error is accepted', async (t) => {
    const counts = { accepted: 0, refused: 0 };
    for (const { cases } of bothOf(readPolicyCases())) {
      for (const { id, resources } of cases) {
        for (const document of resources as unknown as readonly Document[]) {
          const refusal = await refusalOf(cluster, plain(document));
          counts[refusal === null ? 'accepted' : 'refused']++;
          if (refusal === null || errorsOf(document) > 0) continue;
          t.fail(`${id}: ${document.kind} ${document.metadata.name}: ${refusal}`);
        }
      }
    }
    t.ok(counts.accepted > 10, JSON.stringify(counts));
  });

  await t.test('of recorded worlds: accepted, or refused where the recording says so', async (t) => {
    let count = 0;
    for (const worlds of bothOf(readRecordedWorlds())) {
      for (const { id, resources, refused } of worlds) {
        for (const document of resources as unknown as readonly Document[]) {
          const name = `${document.kind}/${document.metadata.name}`;
          const bySchema = refused.some(({ doc, by }) => doc === name && /^(schema|kube-apiserver)/.test(by));
          const said = await refusalOf(cluster, document);
          count++;
          if ((said !== null) !== bySchema && !byRule.test(said ?? '')) t.fail(`${id}: ${name}: ${said ?? 'accepted'}`);
        }
      }
    }
    t.ok(count > 5, `${count} documents`);
  });

  await t.test('that are refused: by the schema, or by a rule of it', async (t) => {
    for (const gaps of bothOf(readAdmissionGaps())) {
      for (const { what, refusal, document } of gaps) {
        const said = await refusalOf(cluster, document as unknown as Document);
        const bySchema = /^(kube-apiserver|the schema)/.test(refusal);
        t.equal(said !== null, bySchema, `${document.kind}: ${what}: ${said ?? 'accepted, as far as the schema goes'}`);
      }
    }
  });
});

/** Of the Gateway API's, a rule in CEL, without which the worlds were recorded: Linkerd answers such a request with 500. */
const byRule = /path\.replacePrefixMatch, exactly one PathPrefix match must be specified/;

/** Linkerd's resources, known to the API server and served. */
async function define(cluster: Kubernetes): Promise<void> {
  const lines = readFileSync(join(checkout, 'test/fixtures/crds/linkerd.jsonl'), 'utf8').trimEnd().split('\n');
  for (const line of lines) {
    const { name } = (JSON.parse(line) as Document).metadata;
    const path = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';
    await cluster.expect('POST', path, line);
    await until(`${name} to be served`, async () => {
      const { status } = (await cluster.expect('GET', `${path}/${name}`)) as {
        status?: { conditions?: { type: string; status: string }[] };
      };
      return status?.conditions?.some(({ type, status }) => type === 'Established' && status === 'True');
    });
  }
  for (const namespace of ['shop', 'demo']) await cluster.namespace(namespace);
}

function documentsIn(text: string): Document[] {
  const values = parseAllDocuments(text).map((document) => document.toJS() as Document | null);
  return values.filter(
    (value) => value !== null && /^(policy\.linkerd|gateway\.networking\.k8s)\.io\//.test(value.apiVersion),
  ) as Document[];
}

/** What Sallyport reads beyond Linkerd, as Linkerd would want it: README's table of differences has it. */
function plain(document: Document): Document {
  return JSON.parse(JSON.stringify(document).replaceAll('"podClusterIp"', '{"cidr":"10.0.0.1/32"}'));
}

/** Null where it is accepted. */
async function refusalOf(cluster: Kubernetes, document: Document): Promise<string | null> {
  const namespace = document.metadata.namespace ?? 'shop';
  const { status, body } = await cluster.create(JSON.stringify(document), namespace, true);
  if (status === 404 && /namespaces .* not found/.test(String(body.message))) {
    await cluster.namespace(namespace);
    return refusalOf(cluster, document);
  }
  return status < 300 ? null : `${status} ${String(body.message)}`;
}

/** How many Sallyport finds. */
function errorsOf(value: Document): number {
  const source = { value, file: 'case.yaml', position: () => ({ line: 1, column: 1 }) };
  return readDocuments([source], { namespace: 'shop' }).problems.filter(({ severity }) => severity === 'error').length;
}
