/** Calls back in the next turn of the event loop, once however often it is asked to in this one. */
export class NextTurn {
  #isDue = false;
  readonly #run: () => void;

  /** @param run guards what it does by itself. */
  constructor(run: () => void) {
    this.#run = run;
  }

  schedule(): void {
    if (this.#isDue) return;
    this.#isDue = true;
    setImmediate(this.#call);
  }

  readonly #call = (): void => {
    this.#isDue = false;
    this.#run();
  };
}
