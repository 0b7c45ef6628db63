import { type FaultRow, faultsOf } from './fault-row.ts';

const fault = faultsOf('command');

/** What `sallyport test` finds in a test file, before any case is decided. */
export const testFaults = {
  'test-unreadable': fault(
    'A test file cannot be read.',
    'Check the path, its permissions, and that it is UTF-8 text.',
  ),
  'test-field': fault('A policy test has a field that is not known.', 'Correct its spelling, or remove it.'),
  'test-value': fault('A field of a policy test has a value of another type or form.', 'Write what the message names.'),
  'test-empty': fault(
    'A list, a mapping or a text of a policy test is empty, or a file holds no test.',
    'Write its items, or remove the field; a case that asks nothing would pass.',
  ),
  'test-missing': fault('A policy test lacks what it cannot do without.', 'Add the field that the message names.'),
  'test-conflict': fault('Two fields of a policy test exclude each other.', 'Keep one of them.'),
  'test-too-large': fault('A case stands for more questions than are asked.', 'Shorten its lists, or divide the case.'),
  'test-question': fault(
    'A case asks what no request, or no client, can be.',
    'Correct the field; it is read as the flag of explain of that name.',
  ),
  'coverage-missed': fault(
    'The cases exercise less of the policy than --require-coverage asks for.',
    'Add cases for what --coverage lists, or remove it from the policy.',
  ),
  'report-lost': fault('The file of --junit cannot be written.', 'Check the path, and that its folder can be written.'),
} as const satisfies Readonly<Record<string, FaultRow>>;
