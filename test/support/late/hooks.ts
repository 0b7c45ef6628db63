// Loaded into every thread of a test and of the proxy under it (NODE_OPTIONS=--import).
import { registerHooks } from 'node:module';
import { relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { lateMs, rewritten } from './rewrite.ts';

const root = fileURLToPath(new URL('../../..', import.meta.url));
const seed = Number(process.env.LATE_SEED ?? 1);
const timesAt = new Map<string, number>();
// A test may put its own in the place of the global one.
const { setTimeout } = globalThis;

/** What `value` resolves or rejects to, now and then later. */
export async function late<T>(value: T, place: string): Promise<Awaited<T>> {
  try {
    return await value;
  } finally {
    const nth = timesAt.get(place) ?? 0;
    timesAt.set(place, nth + 1);
    const ms = lateMs(seed, place, nth);
    if (ms > 0) await new Promise((resolve) => setTimeout(resolve, ms));
  }
}

registerHooks({
  load(url, context, next) {
    const loaded = next(url, context);
    const file = url.startsWith('file:') ? relative(root, fileURLToPath(url)) : '';
    if (!/^lib\/.*\.ts$/.test(file)) return loaded;
    return { ...loaded, format: 'module', source: rewritten(String(loaded.source), file, import.meta.url) };
  },
});
