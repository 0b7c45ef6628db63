/** Who can be on a roster, and on one at a time. */
export interface Rostered {
  /** Where on the roster; -1 off it. The roster's own. */
  rosterPlace: number;
}

/**
 * Who is here, for members that come and go by the thousand. A Set would do the same, but each time it makes room it
 * leaves a table behind that still refers to its members and to the table that followed. Once one such table is old, the
 * later ones, and their members, no longer die young: 5 % of the CPU of a short connection.
 */
export class Roster<T extends Rostered> implements Iterable<T> {
  readonly #members: T[] = [];

  get size(): number {
    return this.#members.length;
  }

  /** The member at that place; undefined beyond the end. */
  at(place: number): T | undefined {
    return this.#members[place];
  }

  add(member: T): void {
    if (member.rosterPlace !== -1) return;
    member.rosterPlace = this.#members.length;
    this.#members.push(member);
  }

  /** False when it was not on it. */
  delete(member: T): boolean {
    const place = member.rosterPlace;
    if (place === -1) return false;
    member.rosterPlace = -1;
    const last = this.#members.pop() as T;
    if (last !== member) {
      this.#members[place] = last;
      last.rosterPlace = place;
    }
    return true;
  }

  /** In no order. The member that is being looked at may leave meanwhile; for more, copy first. */
  *[Symbol.iterator](): Iterator<T> {
    for (let at = this.#members.length - 1; at >= 0; at--) yield this.#members[at] as T;
  }
}
