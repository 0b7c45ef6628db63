import { type ProblemCode, problemCatalogue } from '../../errors/problems.ts';
import type { Problem } from '../../problem.ts';
import { didYouMean } from '../nearest.ts';
import { allowAnnotation, allowPath, codesAllowed, documentOf } from './allowed.ts';
import { locate, type PolicyDocument, resourceOf } from './types.ts';

/*
 * What annotations allow that is not there. It needs the catalogue of problems, which the proxy's main thread does not load.
 */

/** What depends on the pod, its probes or the listing of a cluster: it is not there in every check. */
const dependent: ReadonlySet<string> = new Set<ProblemCode>([
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

/** Codes that are none of a warning. */
export function unknownAllowed(documents: readonly PolicyDocument[]): readonly Problem[] {
  return documents.flatMap((document) =>
    codesAllowed(document)
      .filter((code) => !allowable.includes(code))
      .map((code): Problem => {
        const message = `${allowAnnotation} names "${code}", which is no warning`;
        const place = { ...locate(document, ...allowPath), resource: resourceOf(document) };
        return { severity: 'warning', code: 'allow-unknown', message, ...place, hint: didYouMean(code, allowable) };
      }),
  );
}

/** Codes of warnings that there are not, where everything was examined: `allowed` is all that was found and is allowed. */
export function unusedAllowed(documents: readonly PolicyDocument[], allowed: readonly Problem[]): readonly Problem[] {
  const used = new Set(
    allowed.flatMap(({ code, resource, file }) => (resource === null ? [] : [`${documentOf(resource, file)} ${code}`])),
  );
  return documents.flatMap((document) => {
    const resource = resourceOf(document);
    return codesAllowed(document)
      .filter((code) => allowable.includes(code) && !dependent.has(code))
      .filter((code) => !used.has(`${documentOf(resource, document.file)} ${code}`))
      .map((code): Problem => {
        const message = `${allowAnnotation} allows ${code}, and there is no such warning`;
        const place = { ...locate(document, ...allowPath), resource };
        return { severity: 'warning', code: 'allow-unused', message, ...place, hint: '' };
      });
  });
}
