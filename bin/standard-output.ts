/** Resolves when more may be written; and, too, when the reader has gone: there will be no drain then. */
export function drained(stream: NodeJS.WriteStream): Promise<void> {
  return new Promise((resolve) => {
    stream.once('drain', resolve);
    stream.once('close', resolve);
    if (stream.destroyed) resolve();
  });
}
