/**
 * A pure function of a text that is not computed again for the text it was last asked about. A request is decided by the
 * policy in force and by a candidate beside it, and both ask the same of the same text; clients ask for the same host and
 * path again and again. One answer is kept, whose text must not be unboundedly long.
 *
 * @param answer must depend on nothing but its argument, and its results must not be changed.
 */
export function remembered<Answer>(answer: (text: string) => Answer): (text: string) => Answer {
  let last: string | null = null;
  let known: Answer;
  return (text) => {
    if (text !== last) {
      known = answer(text);
      last = text;
    }
    return known;
  };
}
