import { dirname, isAbsolute, join } from 'node:path';
import { readWorkload } from '../lib/config/config.ts';
import { fileFault } from '../lib/config/file-fault.ts';
import { readManifest } from '../lib/config/manifest.ts';
import type { Flags } from '../lib/config/variables.ts';
import { hintOf } from '../lib/errors/problems.ts';
import { compileNow } from '../lib/policy/compile/compile.ts';
import type { PolicyIndex } from '../lib/policy/decide/policy-index.ts';
import type { SourceDocument } from '../lib/policy/documents/read.ts';
import type { PolicyDocument } from '../lib/policy/documents/types.ts';
import type { ExplainQuery } from '../lib/policy/explain.ts';
import type { Workload } from '../lib/policy/workload.ts';
import { podFields } from '../lib/policy-test/format.ts';
import { type CaseQuestion, questionCount, questionsOf } from '../lib/policy-test/questions.ts';
import type { FieldFault, TestPath } from '../lib/policy-test/shape.ts';
import { mostQuestions, type PolicySuite, readSuite, type SuiteCase } from '../lib/policy-test/suite.ts';
import type { Problem } from '../lib/problem.ts';
import { readRegularFile } from '../lib/regular-file.ts';
import type { PolicyLoad } from '../lib/reload/load.ts';
import { readYaml } from '../lib/yaml.ts';
import type { Io } from './arguments.ts';
import { BadQuestion, queryFrom } from './explain-query.ts';
import { type PrintedProblem, problemText } from './problem-text.ts';
import { loadGiven, standardInput } from './standard-input.ts';

/** Megabytes of a test file: a second of reading for each. */
const mostBytes = 4 * 1024 * 1024;

/** A document of a test file, with all that its cases are asked of. */
export interface LoadedSuite {
  readonly suite: PolicySuite;
  readonly workload: Workload;
  readonly index: PolicyIndex;
  readonly documents: readonly PolicyDocument[];
  /** Equal for suites about the same documents. */
  readonly policyKey: string;
  /** Questions, of all cases. */
  readonly size: number;
}

/** Reads test files with what they name. What is wrong is printed at once; null when any of it is. */
export class SuiteLoader {
  readonly #io: Io;
  /** Of the flag, in place of what the files name; empty where there is none. */
  readonly #policy: readonly string[];
  readonly #loads = new Map<string, PolicyLoad>();
  readonly #told = new Set<string>();
  #broken = false;

  constructor(policy: readonly string[], io: Io) {
    this.#policy = policy;
    this.#io = io;
  }

  async load(files: readonly string[]): Promise<readonly LoadedSuite[] | null> {
    const loaded: LoadedSuite[] = [];
    for (const file of new Set(files)) {
      for (const document of await this.#documents(file)) {
        const { suite, faults } = readSuite(document);
        this.#tell(document, faults);
        const whole = suite === null ? null : await this.#suite(suite);
        if (whole !== null) loaded.push(whole);
      }
    }
    return this.#broken ? null : loaded;
  }

  async #documents(file: string): Promise<readonly SourceDocument[]> {
    const top = { severity: 'error', file: file === '-' ? 'stdin' : file, line: 1, column: 1, resource: null } as const;
    let text: string;
    try {
      const bytes = file === '-' ? await standardInput(this.#io) : readRegularFile(file, mostBytes);
      text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    } catch (error) {
      const { why, remedy } = fileFault(file, error, 'Check the path.');
      this.#fault({ ...top, code: 'test-unreadable', message: `cannot be read: ${why}`, hint: remedy });
      return [];
    }
    const { documents, problems } = readYaml(text, top.file);
    for (const problem of problems) this.#fault(problem);
    if (documents.length === 0 && problems.length === 0) {
      const hint = 'Write policy: and cases:, as lib/policy-test/README.md shows.';
      this.#fault({ ...top, code: 'test-empty', message: 'the file holds no test', hint });
    }
    return documents;
  }

  async #suite(suite: PolicySuite): Promise<LoadedSuite | null> {
    const workload = this.#workload(suite);
    if (workload === null) return null;
    const paths = this.#policy.length > 0 ? this.#policy : suite.policy.map(({ value }) => beside(suite, value));
    if (paths.length === 0) {
      const hint = 'Write policy: and a file or folder, or give --policy.';
      const fault = { path: [], code: 'test-missing', message: 'the document has no policy', hint } as const;
      this.#tell(suite.source, [fault]);
      return null;
    }
    const policyKey = JSON.stringify([workload.namespace, paths]);
    const load = this.#loads.get(policyKey) ?? (await this.#loadPolicy(paths, workload.namespace));
    this.#loads.set(policyKey, load);
    const { index, problems } = compileNow(load.documents, workload);
    for (const problem of [...load.problems, ...problems]) this.#print(inFields(problem, suite.source));
    // A running proxy would not take it: what is answered then is no answer of any policy that anybody wants.
    if (load.broken || load.problems.some(({ severity }) => severity === 'error')) this.#broken = true;
    const size = this.#check(suite, workload);
    return { suite, workload, index, documents: load.documents, policyKey, size };
  }

  /** Of standard input there is only one reading, whichever namespace its documents are in. */
  #loadPolicy(paths: readonly string[], namespace: string): Promise<PolicyLoad> {
    return loadGiven({ paths, namespace }, this.#io);
  }

  /** From the test alone, and from nothing of this machine: it must decide alike everywhere. */
  #workload(suite: PolicySuite): Workload | null {
    const settings = suite.pod.map(({ name, text }) => ({ name, value: text }));
    if (suite.manifest !== null) settings.push({ name: 'manifest', value: beside(suite, suite.manifest.value) });
    const flags: Flags = new Map(
      settings.map(({ name, value }) => [podFields[name][0], { flag: `pod.${name}`, value }]),
    );
    const host = {
      readManifest,
      answersForSidecar: true,
      hostname: () => 'pod',
      addresses: () => [],
      gateways: () => [],
    };
    const read = readWorkload({}, host, flags);
    const said = read.ok ? read.warnings : read.faults;
    const severity = read.ok ? 'warning' : 'error';
    for (const { variable, code, message, hint } of said) {
      const place = suite.source.position(variable.split('.'));
      const { file } = suite.source;
      this.#print({ severity, code, message: `${variable}: ${message}`, hint, file, ...place, resource: null });
    }
    if (!read.ok) this.#broken = true;
    return read.ok ? read.workload : null;
  }

  /** Every question is read once before the first is asked: a broken file fails whole, and not in its middle. */
  #check(suite: PolicySuite, workload: Workload): number {
    const faults: FieldFault[] = [];
    let size = 0;
    for (const one of suite.cases) {
      const count = questionCount(one, workload);
      size += count;
      if (count > mostQuestions) {
        const message = `the case stands for more than ${mostQuestions} questions`;
        faults.push({ path: one.path, code: 'test-too-large', message, hint: 'Shorten its lists, or divide it.' });
        continue;
      }
      for (const question of questionsOf(one, workload)) {
        const read = readQuestion(question, one, workload);
        if ('fault' in read) faults.push(read.fault);
      }
    }
    this.#tell(suite.source, faults);
    return size;
  }

  #tell(source: SourceDocument, faults: readonly FieldFault[]): void {
    for (const { path, code, message, hint } of faults) {
      const place = { file: source.file, ...source.position(path) };
      this.#fault({ severity: 'error', code, message, hint, ...place, resource: null });
    }
  }

  #fault(problem: PrintedProblem): void {
    this.#broken = true;
    this.#print(problem);
  }

  /** Once each: the cases of a list have their faults in common. */
  #print(problem: PrintedProblem): void {
    const text = problemText(problem, this.#io.stderr);
    if (this.#told.has(text)) return;
    this.#told.add(text);
    this.#io.stderr.write(`${text}\n`);
  }
}

const fieldOf = new Map<string, string>(Object.entries(podFields).map(([name, [variable]]) => [variable, name]));

/** No test reads a variable: what a remedy calls so, or a problem has for its file, is a field of the test's pod. */
function inFields(problem: Problem, source: SourceDocument): PrintedProblem {
  const variables = /\b(SALLYPORT_[A-Z_]+)(?:=([\w.-]+)(?:=([\w.-]+))?)?/g;
  const hint = hintOf(problem).replaceAll(variables, (whole, variable: string, value?: string, inner?: string) => {
    const name = fieldOf.get(variable);
    if (name === undefined) return whole;
    const given = inner === undefined ? value : `{ ${value}: ${inner} }`;
    return given === undefined ? `pod.${name}` : `pod.${name}: ${given}`;
  });
  const name = fieldOf.get(problem.file);
  const place = name === undefined ? {} : { file: source.file, ...source.position(['pod', name]) };
  return { ...problem, ...place, hint };
}

/** A path of a test file is one from that file's folder. */
function beside({ source }: PolicySuite, path: string): string {
  return isAbsolute(path) || source.file === 'stdin' ? path : join(dirname(source.file), path);
}

/** Notes on what is decided in place of what was asked: in a test each is a fault. Another trust domain is a question like any. */
const harmless = 'other-trust-domain';

/** The question as `explain` takes it, or what is wrong with it and where. */
export function readQuestion(
  { given, places, variant }: CaseQuestion,
  { path }: SuiteCase,
  workload: Workload,
): { readonly query: ExplainQuery } | { readonly fault: FieldFault } {
  const fault = (field: string, message: string, hint: string): { readonly fault: FieldFault } => {
    const at: TestPath = places.get(field) ?? variant.path ?? path;
    return { fault: { path: at, code: 'test-question', message, hint } };
  };
  try {
    const nameIt = (port: string): string => `name it in pod.ports: { ${port}: N }`;
    const { value, notes } = queryFrom(given, { workload, listeners: null, nameIt });
    const note = notes.find(({ code }) => code !== harmless);
    if (note === undefined) return { query: value };
    const field = note.code === 'client-network' ? 'client' : 'serviceAccount' in given ? 'serviceAccount' : 'identity';
    return fault(field, note.message, note.hint);
  } catch (error) {
    if (!(error instanceof BadQuestion)) throw error;
    return fault(error.field, `${error.field} ${error.message}`, '');
  }
}
