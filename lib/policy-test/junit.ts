import { oneLine } from '../printable.ts';
import {
  type CaseResult,
  expectedText,
  gotText,
  isPassed,
  resultTitle,
  type TestFormat,
  type TestTotals,
} from './result.ts';

/** JUnit's XML as CI systems read it: a suite a file, a test case a question. Written whole, since counts come first. */
export class JunitFormat implements TestFormat {
  readonly #suites = new Map<string, JunitSuite>();

  begin(): string {
    return '';
  }

  result(result: CaseResult): string {
    const suite = this.#suites.get(result.file) ?? { cases: [], failures: 0 };
    this.#suites.set(result.file, suite);
    suite.cases.push(testCase(result));
    if (!isPassed(result)) suite.failures += 1;
    return '';
  }

  end({ passed, failed }: TestTotals): string {
    const suites = [...this.#suites].map(([file, { cases, failures }]) => {
      const head = `<testsuite name="${text(file)}" ${counts(cases.length, failures)}>`;
      return `  ${head}\n${cases.join('')}  </testsuite>\n`;
    });
    const head = `<testsuites name="sallyport test" ${counts(passed + failed, failed)}>`;
    return `<?xml version="1.0" encoding="UTF-8"?>\n${head}\n${suites.join('')}</testsuites>\n`;
  }
}

/** As text already: of a hundred thousand cases the answers would fill the memory. */
interface JunitSuite {
  readonly cases: string[];
  failures: number;
}

function counts(tests: number, failures: number): string {
  return `tests="${tests}" failures="${failures}" errors="0"`;
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
