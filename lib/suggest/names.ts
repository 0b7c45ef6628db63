/** Names of documents, each used once: DNS labels of at most 50 characters. */
export class Names {
  readonly #taken: Set<string>;

  /** @param taken names that documents have already. */
  constructor(taken: Iterable<string>) {
    this.#taken = new Set(taken);
  }

  unique(wanted: string): string {
    const label = labelOf(wanted);
    let name = label;
    for (let i = 2; this.#taken.has(name); i++) name = `${label}-${i}`;
    this.#taken.add(name);
    return name;
  }
}

function labelOf(text: string): string {
  const label = text
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .slice(0, 50)
    .replace(/^-+|-+$/g, '');
  return label === '' ? 'app' : label;
}
