/** How a worker is told what takes more than one message, and how long an answer is waited for. */
import { Slices } from '../../reload/slices.ts';
import type { Member } from './member.ts';
import type { JointChange } from './messages.ts';

/** Documents a message: small enough that a thread receives one in a millisecond. */
const batchSize = 50;
/** Milliseconds that an answer takes at most where nobody waits for anything but the worker's event loop. */
const promptMs = 1000;

/**
 * Undefined where the worker stands still: a stop does not wait for it.
 *
 * @param waitMs that the answer may take of itself.
 */
export async function promptly<T>(answer: Promise<T>, waitMs = 0): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => resolve(undefined), waitMs + promptMs);
  });
  const first = await Promise.race([answer, late]);
  clearTimeout(timer);
  return first;
}

/** Resolves when the worker has prepared the change, or is gone. */
export async function prepare(member: Member, id: number, change: JointChange): Promise<void> {
  if (change.kind === 'identity') {
    await member.call<'prepare'>({ kind: 'prepare', change: id, what: change });
    return;
  }
  const { documents, pod } = change;
  const slices = new Slices();
  for (let start = 0; start < documents.length; start += batchSize) {
    member.tell({ kind: 'documents', change: id, documents: documents.slice(start, start + batchSize) });
    await slices.rest();
  }
  await member.call<'prepare'>({ kind: 'prepare', change: id, what: { kind: change.kind, pod } });
}

/** What was answered promptly, without those that have nothing to say. */
export async function told<T>(asked: readonly Promise<T | null | undefined>[]): Promise<T[]> {
  return (await Promise.all(asked.map((each) => promptly(each)))).filter((each) => each !== undefined && each !== null);
}
