import { styleText } from 'node:util';
import type { CoverageReport } from '../lib/policy-test/coverage.ts';
import {
  type CaseResult,
  expectedText,
  gotText,
  isPassed,
  questionText,
  type TestFormat,
  type TestTotals,
} from '../lib/policy-test/result.ts';
import { oneLine, wrapped } from '../lib/printable.ts';
import { refText } from '../lib/resource-ref.ts';
import { widthOf } from './help.ts';

type Format = Parameters<typeof styleText>[0];

/** Questions that are told of those that fail alike, besides the first. */
const mostAlike = 2;

/** Ports that are listed. */
const mostPorts = 8;

/** For people: each failure with its reason, then the sum and what was not exercised. */
export class PeopleFormat implements TestFormat {
  readonly #stream: NodeJS.WriteStream;
  readonly #details: boolean;
  /** The last failure that was told whole. */
  #told = '';
  /** How many have failed like it. */
  #alike = 0;

  /** `details`: whether what the cases leave out is listed, and not only counted. */
  constructor(stream: NodeJS.WriteStream, details: boolean) {
    this.#stream = stream;
    this.#details = details;
  }

  begin(): string {
    return '';
  }

  result(result: CaseResult): string {
    if (isPassed(result)) return '';
    const { name, file, line, column, answer } = result;
    const place = this.#paint('bold', `${oneLine(file)}:${line}:${column}`);
    // The next of a list that fails alike has only its question told.
    const alike = JSON.stringify([file, line, name, result.mismatches, answer.verdict]);
    if (alike === this.#told) {
      this.#alike += 1;
      return this.#alike > mostAlike ? '' : `${this.#row('also', questionText(result))}\n`;
    }
    const before = this.#rest();
    this.#told = alike;
    const lines = [`${place}: ${this.#paint('red', 'failed')}${name === null ? '' : `: ${oneLine(name)}`}`];
    const row = (label: string, value: string): void => void lines.push(this.#row(label, value));
    row('asked', questionText(result));
    row('expected', expectedText(result));
    row('got', gotText(result));
    row('reason', answer.reason);
    for (const { authz, granted, failed, detail } of answer.candidates) {
      const clause = granted ? 'grants' : `${failed}:${detail === '' ? '' : ` ${detail}`}`;
      lines.push(this.#wrapped('  -', `${refText(authz)} ${clause}`, 6));
    }
    return `${before}${lines.join('\n')}\n`;
  }

  /** How many more have failed like the last that was told. */
  #rest(): string {
    const rest = this.#alike - mostAlike;
    this.#alike = 0;
    return rest > 0 ? `  and ${rest} more\n` : '';
  }

  end({ passed, failed, files, portsWithoutServer }: TestTotals, coverage: CoverageReport): string {
    const sum = `${count(passed + failed, 'case')} in ${count(files, 'file')}: ${passed} passed, ${failed} failed`;
    const { authorizations, routes, rules } = coverage.counts;
    const of = ([some, all]: readonly [number, number], noun: string): string => `${some} of ${all} ${noun}`;
    const said = `exercised: ${of(authorizations, 'authorizations')}, ${of(routes, 'routes')}, ${of(rules, 'rules')}`;
    const width = widthOf(this.#stream);
    const lines = [this.#paint(failed === 0 ? 'green' : 'red', wrapped(sum, width, 2)), wrapped(said, width, 2)];
    const isWhole = authorizations[0] === authorizations[1] && rules[0] === rules[1];
    if (portsWithoutServer.length > 0) {
      const ports = portsWithoutServer.slice(0, mostPorts).join(', ');
      const more = portsWithoutServer.length > mostPorts ? ' and others' : '';
      lines.push(wrapped(`no Server of the pod has port ${ports}${more}: a default answered there`, width, 2));
    }
    if (this.#details) lines.push(...this.#detailLines(coverage));
    else if (!isWhole) lines.push('  (--coverage lists the others)');
    return `${this.#rest()}${lines.join('\n')}\n`;
  }

  #detailLines({ authorizations, routes }: CoverageReport): string[] {
    const lines: string[] = [];
    for (const { ref, file, line, admitted, refused } of authorizations) {
      if (admitted > 0 && refused > 0) continue;
      const seen = refused > 0 ? `it refused ${refused}` : 'it was not weighed';
      const what = admitted === 0 ? `admitted no case; ${seen}` : `admitted ${admitted}, and was never seen to refuse`;
      lines.push(this.#item(admitted === 0, `${file}:${line}`, `${refText(ref)} ${what}`));
    }
    for (const { ref, file, line, rules } of routes) {
      for (const [i, matched] of rules.entries()) {
        if (matched === 0)
          lines.push(this.#item(true, `${file}:${line}`, `${refText(ref)} rules[${i}]: no case belongs to it`));
      }
    }
    return lines;
  }

  #item(isMissing: boolean, place: string, text: string): string {
    return this.#wrapped(`  ${this.#paint(isMissing ? 'yellow' : 'dim', '-')}`, `${place}: ${text}`, 4);
  }

  #row(label: string, value: string): string {
    const width = widthOf(this.#stream);
    const indent = 12;
    const text = wrapped(' '.repeat(indent) + oneLine(value), width, indent);
    return `  ${label.padEnd(indent - 2)}${text.slice(indent)}`;
  }

  #wrapped(lead: string, text: string, hang: number): string {
    return wrapped(`${lead} ${oneLine(text)}`, widthOf(this.#stream), hang);
  }

  #paint(format: Format, text: string): string {
    return styleText(format, text, { stream: this.#stream });
  }
}

function count(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? '' : 's'}`;
}
