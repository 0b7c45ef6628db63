import { createHmac } from 'node:crypto';
import { byteText, isAscii } from '../policy/bytes.ts';
import type { PolicyDocument } from '../policy/documents/types.ts';
import type { DecisionRecord, RecordedQuestion } from '../records/record.ts';

/** A value that no rule looks for: no field of a request can hold it. */
const noSuchValue = '\0';

/** What the routes of a policy want of one header field. */
interface WantedField {
  readonly exact: Set<string>;
  /** A rule would have to look at the value itself. */
  examined: boolean;
}

/**
 * Hashed values of a record, told by those that a policy looks for: who knows what is asked for knows whether a hash is of
 * it, and needs to know no more.
 */
export class WantedValues {
  readonly #byName = new Map<string, WantedField>();

  readonly #isKnown: boolean;

  /** @param documents null: nothing is known of what is wanted. */
  constructor(documents: readonly PolicyDocument[] | null) {
    this.#isKnown = documents !== null;
    if (documents === null) return;
    for (const document of documents) {
      if (document.kind !== 'HTTPRoute' && document.kind !== 'GRPCRoute') continue;
      for (const { matches } of document.spec.rules) {
        for (const { headers } of matches) for (const { name, type, value } of headers) this.#want(name, type, value);
      }
    }
  }

  /** Null where the hash does not tell what is decided on it. */
  valueOf(name: string, salt: string, hash: string): string | null {
    const wanted = this.#byName.get(name);
    if (wanted === undefined) return this.#isKnown ? noSuchValue : null;
    for (const value of wanted.exact) if (hashedValue(salt, value) === hash) return value;
    return wanted.examined ? null : noSuchValue;
  }

  #want(name: string, type: string, value: string): void {
    const wanted = this.#byName.get(name) ?? { exact: new Set<string>(), examined: false };
    this.#byName.set(name, wanted);
    if (type === 'exact') wanted.exact.add(byteText(value));
    // Of text beyond ASCII a second spelling is refused: see `decide/value-match.ts`.
    if (type !== 'exact' || !isAscii(value)) wanted.examined = true;
  }
}

export const noValues = new WantedValues(null);

/** What a record asks: with the values behind hashes, where these tell them, and with the fields of which it has but the names. */
export function questionOfRecord({ question, salt }: DecisionRecord, wanted: WantedValues): RecordedQuestion {
  const { names, ...asked } = question;
  if (names === undefined && salt === null) return question;
  const told = Object.entries(asked.headers ?? {}).map(([name, values]): [string, readonly string[]] => [
    name,
    salt === null ? values : values.map((hash) => wanted.valueOf(name, salt, hash) ?? hash),
  ]);
  const withheld = (names ?? []).map((name): [string, readonly string[]] => [name, ['']]);
  return { ...asked, headers: Object.fromEntries([...withheld, ...told]) };
}

/** As the record has it. `bytes`: one character each. */
function hashedValue(salt: string, bytes: string): string {
  return createHmac('sha256', salt).update(bytes, 'latin1').digest('hex').slice(0, 32);
}
