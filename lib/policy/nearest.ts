/** Insertions, deletions, substitutions and swaps of neighbours between two names, counted no further than `limit`. */
function distance(a: string, b: string, limit: number): number {
  if (Math.abs(a.length - b.length) > limit) return limit + 1;
  let beforePrevious: readonly number[] = [];
  let previous: readonly number[] = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    let least = i;
    for (let j = 1; j <= b.length; j++) {
      const substituted = (previous[j - 1] as number) + (a[i - 1] === b[j - 1] ? 0 : 1);
      let cost = Math.min(substituted, (previous[j] as number) + 1, (row[j - 1] as number) + 1);
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      if (swapped) cost = Math.min(cost, (beforePrevious[j - 2] as number) + 1);
      row.push(cost);
      if (cost < least) least = cost;
    }
    // A swap reaches two rows back, by one: hence not yet at `limit` itself.
    if (least > limit + 1) return limit + 1;
    beforePrevious = previous;
    previous = row;
  }
  return previous[b.length] as number;
}

/** How many names one hint may look through: a hint is a courtesy and may not make a load slow. */
const mostCompared = 500;

/** The known name that a mistyped one most likely meant; undefined where none is close. Case alone never counts as far. */
export function nearestName(typed: string, known: Iterable<string>): string | undefined {
  // A short name has many neighbours, and a long one may hold several slips but not many.
  const limit = Math.min(4, Math.max(1, Math.floor(typed.length / 3)));
  let best: string | undefined;
  let bestDistance = limit + 1;
  let compared = 0;
  for (const name of known) {
    if (++compared > mostCompared) break;
    if (name === typed) return name;
    const d = distance(typed.toLowerCase(), name.toLowerCase(), bestDistance - 1);
    if (d < bestDistance) {
      best = name;
      bestDistance = d;
    }
  }
  return best;
}

/** `Did you mean "web"?`, or `otherwise` where nothing is close. */
export function didYouMean(typed: string, known: Iterable<string>, otherwise = ''): string {
  const name = nearestName(typed, known);
  return name === undefined ? otherwise : `Did you mean "${name}"?`;
}

/** What to do where a text still has the placeholder of a template (`${NAME:=…}`, `{{ .Values.name }}`, `$(NAME)`); null where it has none. */
export function templateHint(text: string): string | null {
  const placeholder = /\$\{[^{}]{0,200}\}|\{\{[^{}]{0,200}\}\}|\$\([A-Za-z_][\w-]{0,100}\)/.exec(text)?.[0];
  return placeholder === undefined
    ? null
    : `A template was not filled in: ${placeholder.slice(0, 64)}. Put in the value, or have the tool write the file that knows it.`;
}
