import type { CodedLog } from '../errors/complaint.ts';

/** Each worker says a warning of its doors once; so many kinds of them are then told. */
const mostKinds = 256;

/** Says each warning once, whichever worker has it. */
export function warnOnce(warn: CodedLog['warn']): CodedLog['warn'] {
  const told = new Set<string>();
  return (fields, message) => {
    const key = JSON.stringify([fields, message]);
    if (told.has(key) || told.size >= mostKinds) return;
    told.add(key);
    warn(fields, message);
  };
}
