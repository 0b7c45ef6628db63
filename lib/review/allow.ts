import { problemCatalogue } from '../errors/problems.ts';
import { allowAnnotation, allowPath } from '../policy/documents/allowed.ts';
import { locate, type PolicyDocument, resourceOf } from '../policy/documents/types.ts';
import { didYouMean } from '../policy/nearest.ts';
import type { Problem } from '../problem.ts';

/** Problems but for those that an annotation of their document allows. */
export interface Allowed {
  readonly problems: readonly Problem[];
  readonly allowed: readonly Problem[];
}

/** What depends on the pod, its probes or the listing of a cluster: it is not there in every check. */
const dependent: ReadonlySet<string> = new Set<keyof typeof problemCatalogue>([
  'selects-no-pod',
  'probe-refused',
  'port-name-unknown',
  'port-taken',
  'pod-address-unknown',
  'service-account-unknown',
  'selects-no-known-pod',
  'no-pods-known',
  'peer-selects-nobody',
  'other-namespace',
]);

const allowable: readonly string[] = Object.entries(problemCatalogue)
  .filter(([code, { severity }]) => severity !== 'error' && !code.startsWith('allow-'))
  .map(([code]) => code);

/**
 * Takes away the warnings that their own documents allow, and adds those about annotations that name none.
 *
 * @param whole whether everything was examined: only then it is known that a warning is not there.
 */
export function withoutAllowed(
  documents: readonly PolicyDocument[],
  problems: readonly Problem[],
  whole: boolean,
): Allowed {
  const saying = documents.filter(({ allowed }) => allowed !== undefined);
  if (saying.length === 0) return { problems, allowed: [] };
  const codesOf = new Map(
    saying.map((document) => [keyOf({ ...resourceOf(document), file: document.file }), codesIn(document)]),
  );
  const used = new Set<string>();
  const isAllowed = ({ severity, code, resource, file }: Problem): boolean => {
    if (severity !== 'warning' || resource === null) return false;
    const key = keyOf({ ...resource, file });
    if (codesOf.get(key)?.includes(code) !== true) return false;
    used.add(`${key} ${code}`);
    return true;
  };
  const groups = Map.groupBy(problems, isAllowed);
  const more = saying.flatMap((document): Problem[] => {
    const key = keyOf({ ...resourceOf(document), file: document.file });
    return (codesOf.get(key) ?? []).flatMap((code): Problem[] => {
      const place = { ...locate(document, ...allowPath), resource: resourceOf(document) };
      if (!allowable.includes(code)) {
        const message = `${allowAnnotation} names "${code}", which is no warning`;
        return [{ severity: 'warning', code: 'allow-unknown', message, ...place, hint: didYouMean(code, allowable) }];
      }
      if (!whole || dependent.has(code) || used.has(`${key} ${code}`)) return [];
      const message = `${allowAnnotation} allows ${code}, and there is no such warning`;
      return [{ severity: 'warning', code: 'allow-unused', message, ...place, hint: '' }];
    });
  });
  return { problems: [...(groups.get(false) ?? []), ...more], allowed: groups.get(true) ?? [] };
}

function keyOf({ kind, namespace, name, file }: NonNullable<Problem['resource']> & { readonly file: string }): string {
  return `${kind} ${namespace}/${name} ${file}`;
}

/** The codes of `code: reason; code: reason`. */
function codesIn({ allowed = '' }: PolicyDocument): readonly string[] {
  const codes = allowed.split(/[;\n]/).map((entry) => entry.split(':', 1)[0]?.trim() ?? '');
  return [...new Set(codes.filter((code) => code !== ''))];
}
