import { jsonText } from '../printable.ts';
import { askedText } from './asked-text.ts';
import type { CoverageReport } from './coverage.ts';
import { type CaseResult, isPassed, type TestFormat, type TestTotals } from './result.ts';

/** One object, written as it comes: `{ "cases": [ … ], "coverage": …, "passed": …, "failed": …, "ok": … }`. */
export class JsonFormat implements TestFormat {
  #isFirst = true;

  begin(): string {
    return '{"cases":[';
  }

  result(result: CaseResult): string {
    const { name, file, line, column, query, who, repeat, answer, mismatches } = result;
    const comma = this.#isFirst ? '\n' : ',\n';
    this.#isFirst = false;
    const fields = { ok: isPassed(result), name, asked: askedText(query), who, repeat, file, line, column };
    return `${comma}${jsonText({ ...fields, mismatches, answer })}`;
  }

  end({ passed, failed, files, portsWithoutServer }: TestTotals, coverage: CoverageReport): string {
    const rest = jsonText({ coverage, portsWithoutServer, files, passed, failed, ok: failed === 0 });
    return `\n],${rest.slice(1)}\n`;
  }
}
