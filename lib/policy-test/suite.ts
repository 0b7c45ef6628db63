import type { SourceDocument } from '../policy/documents/read.ts';
import { policyTest } from '../policy/documents/types.ts';
import {
  type AskedFields,
  type AskedName,
  askedNames,
  type CaseFields,
  type ClientFields,
  type ExpectationFields,
  type FromField,
  identityNames,
  type PodSettings,
  type podFields,
  type SuiteFields,
  suiteShape,
} from './format.ts';
import { type FieldFault, FieldFaults, isMapping, type Located, type TestPath } from './shape.ts';

/** One document of a test file: a pod, its policy, and what is asked of it. */
export interface PolicySuite {
  readonly source: SourceDocument;
  readonly pod: readonly PodSetting[];
  /** As written; from the folder of the test. */
  readonly manifest: Located<string> | null;
  readonly policy: readonly Located<string>[];
  readonly cases: readonly SuiteCase[];
}

/** A fact of the pod as its variable has it. */
export interface PodSetting {
  readonly name: PodFieldName;
  readonly text: string;
}
export type PodFieldName = keyof typeof podFields;

export interface SuiteCase {
  readonly name: string | null;
  readonly path: TestPath;
  /** Each is asked by itself. */
  readonly variants: readonly CaseVariant[];
  readonly expect: Expectation;
  /** How often each question is asked at one instant. */
  readonly repeat: number;
}

/** One of `each of`, or the case itself, with what it does not say taken from the defaults. */
export interface CaseVariant {
  readonly name: string | null;
  readonly path: TestPath;
  /** Lists of values by field, which are combined. */
  readonly axes: readonly Axis[];
  readonly headers: Located<Readonly<Record<string, readonly string[]>>> | null;
  /** Null: the axes say who asks. */
  readonly from: readonly Located<CaseClient>[] | null;
}
export interface Axis {
  readonly name: AskedName;
  readonly values: readonly Located<unknown>[];
}
export type CaseClient =
  | { readonly kind: 'everyone' }
  | { readonly kind: 'client'; readonly name: string | null; readonly axes: readonly Axis[] };

/** Fields that are absent are not looked at. */
export type Expectation = ExpectationFields;

/** Questions that one case may stand for. */
export const mostQuestions = 100_000;

/** What a document of a test file says; null, with its faults, where any of it is not to be believed. */
export function readSuite(source: SourceDocument): {
  readonly suite: PolicySuite | null;
  readonly faults: readonly FieldFault[];
} {
  const faults = new FieldFaults();
  if (!isTest(source.value, faults)) return { suite: null, faults: faults.list };
  const fields = suiteShape.read(source.value, [], faults);
  if (fields === undefined || faults.list.length > 0) return { suite: null, faults: faults.list };
  const cases = new CaseReader(fields, faults).all();
  const settings = podSettings(fields.pod ?? {}, faults);
  if (faults.list.length > 0) return { suite: null, faults: faults.list };
  const { manifest } = fields.pod ?? {};
  const suite: PolicySuite = {
    source,
    pod: settings,
    manifest: manifest === undefined ? null : { value: manifest, path: ['pod', 'manifest'] },
    policy: fields.policy ?? [],
    cases,
  };
  return { suite, faults: [] };
}

/** A policy that is given for a test has nothing but unknown fields; it is said once. */
function isTest(value: unknown, faults: FieldFaults): boolean {
  if (!isMapping(value)) return true;
  const { apiVersion, kind } = value;
  if (typeof kind === 'string' && kind !== policyTest.kind) {
    faults.add(['kind'], 'test-value', `is ${kind}: this is no policy test`, 'Name the files of the tests.');
  } else if ((apiVersion === undefined) !== (kind === undefined)) {
    const hint = `Write apiVersion: ${policyTest.apiVersion} and kind: ${policyTest.kind}, or neither.`;
    faults.add([kind === undefined ? 'apiVersion' : 'kind'], 'test-missing', 'stands alone', hint);
  }
  return faults.list.length === 0;
}

/** The settings in the form of their variables, to be read and judged as those are. */
function podSettings(pod: PodSettings, faults: FieldFaults): PodSetting[] {
  const settings: PodSetting[] = [];
  for (const name of Object.keys(pod) as PodFieldName[]) {
    const value = pod[name];
    if (value === undefined || name === 'manifest') continue;
    const text = settingText(value, ['pod', name], faults);
    settings.push({ name, text: name === 'adminPort' ? `0.0.0.0:${text}` : text });
  }
  return settings;
}

function settingText(value: NonNullable<PodSettings[PodFieldName]>, path: TestPath, faults: FieldFaults): string {
  if (value instanceof Map) {
    const named = value as ReadonlyMap<string, string | readonly Located<number>[]>;
    const pairs = [...named].flatMap(([key, of]): string[] => {
      const texts = typeof of === 'string' ? [of] : of.map((each) => String(each.value));
      const bad = [key, ...texts].find((text) => /[,=\r\n]/.test(text));
      if (bad === undefined) return texts.map((text) => `${key}=${text}`);
      faults.add([...path, key], 'test-value', `holds ${JSON.stringify(bad)}, with a comma, "=" or a line end`, '');
      return [];
    });
    return pairs.join(',');
  }
  return Array.isArray(value) ? value.map((each) => String(each.value)).join(',') : String(value);
}

class CaseReader {
  readonly #fields: SuiteFields;
  readonly #faults: FieldFaults;

  constructor(fields: SuiteFields, faults: FieldFaults) {
    this.#fields = fields;
    this.#faults = faults;
  }

  all(): SuiteCase[] {
    const path = ['clients', 'everyone'];
    if (this.#fields.clients?.has('everyone') === true)
      this.#faults.add(path, 'test-conflict', 'has a name that means all kinds of clients', 'Choose another name.');
    return (this.#fields.cases ?? []).flatMap(({ value, path }) => this.#case(value, path) ?? []);
  }

  #case(fields: CaseFields, path: TestPath): SuiteCase | undefined {
    const expect = this.#expectation(fields, path);
    const alternatives = fields['each of'] ?? [{ value: {}, path }];
    const variants = alternatives.map((one) => this.#variant(fields, path, one.value, one.path));
    if (expect === undefined) return undefined;
    return { name: fields.name ?? null, path, variants, expect, repeat: fields.repeat ?? 1 };
  }

  #expectation({ expect }: CaseFields, path: TestPath): Expectation | undefined {
    if (typeof expect === 'string') return { verdict: expect };
    if (typeof expect === 'number') return { status: expect };
    if (expect === undefined) return undefined;
    const { verdict, status, grpcStatus, authorization, failing } = expect;
    const at = [...path, 'expect'];
    if (verdict === undefined && status === undefined && grpcStatus === undefined) {
      return this.#faults.add(
        at,
        'test-missing',
        'has neither verdict nor status nor grpcStatus',
        'Write verdict: permit, or deny.',
      );
    }
    const permits = verdict === 'permit';
    if (permits && (status ?? grpcStatus) !== undefined) {
      const hint = 'Leave the status out: the answer to what is permitted is the application’s.';
      return this.#faults.add(at, 'test-conflict', 'permits, and has the status of a refusal', hint);
    }
    if (verdict === 'deny' && authorization !== undefined && authorization !== 'none') {
      const hint = 'Write failing: and below it the authorization with the clause that fails.';
      return this.#faults.add(at, 'test-conflict', 'denies, and names what admits', hint);
    }
    if (permits && failing !== undefined && authorization !== undefined && failing.has(authorization)) {
      const message = 'names one authorization as what admits and as what fails';
      return this.#faults.add(at, 'test-conflict', message, 'Leave one out.');
    }
    return expect;
  }

  #variant(own: CaseFields, path: TestPath, other: CaseFields, otherPath: TestPath): CaseVariant {
    const said = { ...own, ...other };
    for (const name of [...askedNames, 'from'] as const) {
      if (own === other || own[name] === undefined || other[name] === undefined) continue;
      const hint = 'Write it in one of the two places.';
      this.#faults.add([...otherPath, name], 'test-conflict', 'is said by the case as well', hint);
    }
    const pathOf = (name: AskedName | 'from'): TestPath => [...(other[name] === undefined ? path : otherPath), name];
    if (said.from !== undefined) {
      for (const name of ['client', ...identityNames] as const) {
        if (said[name] === undefined) continue;
        const message = 'stands beside from, which says who asks';
        this.#faults.add(pathOf(name), 'test-conflict', message, 'Write one of the two.');
      }
    }
    const { defaults = {} } = this.#fields;
    const asked = withDefaults(said, defaults);
    const headers = asked.headers;
    const at = said.headers === undefined ? ['defaults', 'headers'] : pathOf('headers');
    return {
      name: other.name ?? null,
      path: otherPath,
      axes: axesOf(asked),
      headers: headers === undefined ? null : { value: headersOf(headers), path: at },
      from: asked.from === undefined ? null : this.#clients(asked.from),
    };
  }

  #clients(from: FromField): readonly Located<CaseClient>[] {
    return from.flatMap(({ value, path }): Located<CaseClient>[] => {
      if (value === 'everyone') return [{ value: { kind: 'everyone' }, path }];
      if (typeof value !== 'string')
        return [{ value: { kind: 'client', name: null, axes: this.#clientAxes(value, path) }, path }];
      const fields = this.#fields.clients?.get(value);
      if (fields !== undefined) {
        const axes = this.#clientAxes(fields, ['clients', value]);
        return [{ value: { kind: 'client', name: value, axes }, path }];
      }
      const known = ['everyone', ...(this.#fields.clients?.keys() ?? [])];
      const hint = `Write one of ${known.join(', ')}, or add the name to clients.`;
      this.#faults.add(path, 'test-value', `names ${JSON.stringify(value)}, which clients do not hold`, hint);
      return [];
    });
  }

  #clientAxes(fields: ClientFields, path: TestPath): readonly Axis[] {
    const axes = axesOf(fields);
    if (axes.length === 0) this.#faults.add(path, 'test-empty', 'says nothing of a client', 'Write client: IP.');
    return axes;
  }
}

/** Who asks is one thing: a case that says who it is takes no identity from the defaults, and what it says wins. */
function withDefaults(
  said: AskedFields & { readonly from?: FromField },
  defaults: AskedFields & { readonly from?: FromField },
): AskedFields & { readonly from?: FromField } {
  const saysWho = said.from !== undefined || identityNames.some((name) => said[name] !== undefined);
  if (!saysWho && said.client === undefined) return { ...defaults, ...said };
  const { from: _, ...rest } = defaults;
  if (!saysWho) return { ...rest, ...said };
  const { identity, serviceAccount, tls, ...others } = rest;
  return { ...others, ...said };
}

function axesOf(fields: AskedFields): Axis[] {
  return askedNames.flatMap((name) => {
    const values = name === 'headers' ? undefined : fields[name];
    return values === undefined ? [] : [{ name, values: values as readonly Located<unknown>[] }];
  });
}

function headersOf(headers: NonNullable<AskedFields['headers']>): Readonly<Record<string, readonly string[]>> {
  return Object.fromEntries([...headers].map(([name, values]) => [name, values.map(({ value }) => value)]));
}
