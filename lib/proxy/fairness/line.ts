/** Who can stand in a line, and in one at a time. */
export interface InLine<T extends InLine<T>> {
  /** The line's own. */
  line: Line<T> | null;
  earlier: T | null;
  later: T | null;
}

/** In the order in which they came. Linked, because a Set would leave tables behind that keep those who have left. */
export class Line<T extends InLine<T>> {
  first: T | null = null;
  size = 0;
  #last: T | null = null;

  append(member: T): void {
    if (member.line !== null) return;
    member.line = this;
    member.earlier = this.#last;
    if (this.#last === null) this.first = member;
    else this.#last.later = member;
    this.#last = member;
    this.size++;
  }

  /** It comes before all others. */
  prepend(member: T): void {
    if (member.line !== null) return;
    member.line = this;
    member.later = this.first;
    if (this.first === null) this.#last = member;
    else this.first.earlier = member;
    this.first = member;
    this.size++;
  }

  /** Does nothing to one that is not in it. */
  remove(member: T): void {
    if (member.line !== this) return;
    const { earlier, later } = member;
    if (earlier === null) this.first = later;
    else earlier.later = later;
    if (later === null) this.#last = earlier;
    else later.earlier = earlier;
    member.earlier = null;
    member.later = null;
    member.line = null;
    this.size--;
  }
}
