/** Where a person meets a fault: `variable` the environment, `command` the command line and what a command does. */
export type FaultPlace = 'variable' | 'command' | 'identity' | 'log';

/** One code of a fault outside documents: what it says, and what to do about it. Both one sentence. */
export interface FaultRow {
  readonly place: FaultPlace;
  readonly meaning: string;
  readonly remedy: string;
}

/** Rows of one place. */
export function faultsOf(place: FaultPlace): (meaning: string, remedy: string) => FaultRow {
  return (meaning, remedy) => ({ place, meaning, remedy });
}
