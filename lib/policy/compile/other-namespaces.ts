import type { PolicyDocument, ServerDocument } from '../documents/types.ts';
import { push } from '../lists.ts';
import { selects } from '../selectors.ts';
import { portsOfServer, type Workload } from '../workload.ts';
import { selectorFor } from './link-servers.ts';
import { byText, type Linking } from './linking.ts';

/** So many namespaces get a line each, and so many documents are named in it. */
const most = { namespaces: 5, named: 3 };

/** What works in its own namespace alone. Authentications, and what a cluster says of itself, are looked up in all. */
function staysHome({ kind }: PolicyDocument): boolean {
  return !['MeshTLSAuthentication', 'NetworkAuthentication', 'Pod', 'Namespace'].includes(kind);
}

/**
 * Says of documents that count for pods of another namespace alone that they do not count here. Where the pod's namespace was
 * stated and a Server of it has a port, those of others are most likely meant for others.
 */
export function checkNamespaces(documents: readonly PolicyDocument[], hasServer: boolean, linking: Linking): void {
  const { namespace: own, namespaceStated } = linking.workload;
  if (namespaceStated && hasServer) return;
  const others = new Map<string, PolicyDocument[]>();
  for (const document of documents) {
    if (document.namespace !== own && staysHome(document)) push(others, document.namespace, document);
  }
  const sorted = [...others].sort(([a], [b]) => byText(a, b));
  for (const [namespace, ignored] of sorted.slice(0, most.namespaces)) {
    const [first] = ignored;
    if (first === undefined) continue;
    const named = ignored.slice(0, most.named).map(({ kind, name }) => `${kind} ${name}`);
    const rest = ignored.length - named.length;
    const list = rest > 0 ? `${named.join(', ')} and ${rest} more` : named.join(', ');
    const more = sorted.length - most.namespaces;
    const andMore = more > 0 ? `; so are those of ${more} more namespaces` : '';
    linking.warn(
      first,
      ['metadata', 'namespace'],
      'other-namespace',
      `the pod is in namespace ${own}${namespaceStated ? '' : ' (not stated)'}, so what is for namespace ${namespace} is ignored: ${list}${andMore}`,
      `Set SALLYPORT_POD_NAMESPACE=${namespace} if the pod is there; a folder may hold documents for others too.`,
    );
  }
}

/** The first Server that would have the port if the pod were in its namespace; null where there is none. */
export function serverElsewhere(
  documents: readonly PolicyDocument[],
  workload: Workload,
  port: number,
): ServerDocument | null {
  const has = (document: PolicyDocument): document is ServerDocument => {
    if (document.kind !== 'Server' || document.namespace === workload.namespace) return false;
    const { port: wanted } = document.spec;
    const selector = selectorFor(document, workload);
    if (selector === null || !selects(selector, workload.labels)) return false;
    return typeof wanted === 'string' ? portsOfServer(workload, wanted).includes(port) : wanted === port;
  };
  return documents.find(has) ?? null;
}
