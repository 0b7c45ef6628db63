/**
 * For what a timer calls that looks who is late: it runs behind the reads of the same turn of the event loop. Node calls timers
 * first, so after a pause of the whole process (a container without CPU, a machine that was moved) everybody would be late,
 * though the bytes have long been here.
 *
 * @param run guards what it does by itself.
 */
export function behindReads(run: () => void): () => void {
  return () => void setImmediate(run);
}
