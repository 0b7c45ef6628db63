import { jsonText, oneLine } from '../printable.ts';
import { type CaseResult, expectedText, gotText, isPassed, resultTitle, type TestFormat } from './result.ts';

/** TAP 14, a test point a question; the plan comes last. */
export class TapFormat implements TestFormat {
  #number = 0;

  begin(): string {
    return 'TAP version 14\n';
  }

  result(result: CaseResult): string {
    this.#number += 1;
    const point = `ok ${this.#number} - ${escaped(resultTitle(result))}`;
    if (isPassed(result)) return `${point}\n`;
    const { file, line, column, answer } = result;
    const fields = {
      expected: expectedText(result),
      got: gotText(result),
      reason: answer.reason,
      at: { file, line, column },
    };
    // JSON is YAML.
    const block = Object.entries(fields).map(([name, value]) => `  ${name}: ${jsonText(value)}`);
    return [`not ${point}`, '  ---', ...block, '  ...', ''].join('\n');
  }

  end(): string {
    return `1..${this.#number}\n`;
  }
}

/** `#` would begin a directive (TODO, SKIP), with which a failure counts as none. */
function escaped(description: string): string {
  return oneLine(description).replace(/[\\#]/g, '\\$&');
}
