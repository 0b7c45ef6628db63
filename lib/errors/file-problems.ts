import { either, error, type ProblemRow, warning } from './row.ts';

/** Problems of files, of YAML, and of documents before their kind is known. */
export const fileProblems = {
  unreadable: error(
    'A file or folder that was named cannot be read.',
    'Check the path, its permissions, and that it is a regular file of UTF-8 text.',
  ),
  'too-large': error(
    'A file, or all of them together, is larger than what is read.',
    'Keep only policy documents in the folder, and one listing of the cluster.',
  ),
  'too-deep': error('Values lie deeper inside one another than anything here reads.', 'Write it flatter.'),
  'yaml-syntax': error(
    'The text is not YAML, or holds what kubectl refuses or reads otherwise: tags, keys that are no text, aliases without an anchor.',
    'Fix the line; look for an unclosed quote or bracket, a tab, or a missing ":" above it.',
  ),
  'duplicate-key': error('A key is written twice in one mapping, and readers differ in which counts.', 'Keep one.'),
  'no-policy-files': warning(
    'The folder holds no policy file, so that every port follows the default inbound policy.',
    'Name files *.yaml, *.yml or *.json.',
  ),
  'no-documents': warning('The file holds no document.', 'Write its documents, or remove the file.'),
  emptied: error(
    'A file that held documents holds none, which is no way to remove them.',
    'Write them again, to a new file that is renamed over it; to do without them, remove the file.',
  ),
  'not-a-document': error('A YAML document without apiVersion and kind.', 'Write it as for kubectl apply.'),
  'other-file': warning(
    'A file of another tool (kustomize, Helm, Compose, npm) is no policy, and is ignored; nothing of it changes the files beside it.',
    'Take it out of the folder; of templates and kustomizations give what they are rendered to.',
  ),
  'not-a-list': error('The items of a List are no list.', 'Write items: [] for none.'),
  duplicate: warning(
    'Two documents have the same kind, namespace and name; the last one counts.',
    'Remove one of them.',
  ),
  'unknown-version': error('The kind has no such version.', 'Write one of the versions under Policy documents.'),
  'near-miss': error(
    'Group and kind are nothing that is known, but nearly what is.',
    'Correct the spelling of apiVersion and kind.',
  ),
  'unknown-kind': error(
    "A kind of Linkerd's policy group that nobody here knows, and so nobody knows what it may refuse.",
    'Write one of the kinds under Policy documents, or take the document out of the file.',
  ),
  'ignored-kind': warning('The document is no policy, and is ignored.', 'Nothing, unless it was meant as policy.'),
  'unknown-field': either(
    'A field that the kind does not have; an error where the document might grant more without it.',
    'Correct its spelling and its place, or remove it.',
  ),
  'null-field': either(
    'A field has no value (null); an error where more might be let in than was meant, were it absent.',
    'Write its value, be it an empty one ([], {}), or take the field away.',
  ),
  'missing-field': error('A field that the kind needs is absent.', 'Write the field.'),
  'invalid-field': error('A field has a value of a type or form that it cannot have.', 'Write it as the message says.'),
} as const satisfies Readonly<Record<string, ProblemRow>>;
