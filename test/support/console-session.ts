/*
 * Sessions as the pages show them: a `$` before what is typed, and `…` for what is left out.
 */

export interface Step {
  readonly command: string;
  readonly shown: string;
}

export function stepsOf(session: string): Step[] {
  return session
    .split(/^\$ /m)
    .slice(1)
    .map((step) => {
      const end = step.indexOf('\n');
      return { command: step.slice(0, end), shown: step.slice(end + 1) };
    });
}

/** What is shown, as a pattern: `…` is anything. */
export function patternOf(shown: string): RegExp {
  const parts = shown.split('…').map((part) => part.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&'));
  return new RegExp(`^${parts.join('[\\s\\S]*')}$`);
}
