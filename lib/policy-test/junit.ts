import { oneLine } from '../printable.ts';
import { type CaseResult, expectedText, gotText, isPassed, resultTitle, type TestFormat } from './result.ts';

/** JUnit's XML as CI systems read it: a suite a file, a test case a question. Written whole, since counts come first. */
export class JunitFormat implements TestFormat {
  readonly #suites = new Map<string, CaseResult[]>();

  begin(): string {
    return '';
  }

  result(result: CaseResult): string {
    const suite = this.#suites.get(result.file);
    if (suite === undefined) this.#suites.set(result.file, [result]);
    else suite.push(result);
    return '';
  }

  end(): string {
    const all = [...this.#suites.values()].flat();
    const suites = [...this.#suites].map(
      ([file, results]) =>
        `  <testsuite name="${text(file)}" ${counts(results)}>\n${results.map(testCase).join('')}  </testsuite>\n`,
    );
    const head = '<?xml version="1.0" encoding="UTF-8"?>\n';
    return `${head}<testsuites name="sallyport test" ${counts(all)}>\n${suites.join('')}</testsuites>\n`;
  }
}

function counts(results: readonly CaseResult[]): string {
  return `tests="${results.length}" failures="${results.filter((one) => !isPassed(one)).length}" errors="0"`;
}

function testCase(result: CaseResult): string {
  const { file, line, answer } = result;
  const head = `    <testcase classname="${text(file)}" name="${text(resultTitle(result))}" file="${text(file)}" line="${line}"`;
  if (isPassed(result)) return `${head}/>\n`;
  const message = `expected ${expectedText(result)}; got ${gotText(result)}`;
  const body = `${file}:${line}: ${answer.reason}`;
  return `${head}>\n      <failure message="${text(message)}">${text(body)}</failure>\n    </testcase>\n`;
}

/** For attributes and content; what XML 1.0 has no place for (section 2.2) is escaped before as on a terminal. */
function text(raw: string): string {
  return oneLine(raw)
    .replace(/[\ufffe\uffff]/g, '\ufffd')
    .replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
