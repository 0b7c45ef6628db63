export type Labels = ReadonlyMap<string, string>;

export interface Expression {
  readonly key: string;
  readonly operator: 'In' | 'NotIn' | 'Exists' | 'DoesNotExist';
  /** Absent and empty differ: see `holds`. */
  readonly values: readonly string[] | null;
}

/** A Kubernetes label selector: labels AND expressions. */
export interface Selector {
  readonly matchLabels: readonly (readonly [string, string])[];
  readonly matchExpressions: readonly Expression[];
}

/** An empty selector selects everything, as in Kubernetes; a malformed expression selects nothing. */
export function selects(selector: Selector, labels: Labels): boolean {
  return (
    selector.matchLabels.every(([key, value]) => labels.get(key) === value) &&
    selector.matchExpressions.every((expression) => holds(expression, labels))
  );
}

/** Whether an expression can ever hold (Linkerd: `In` needs values, `Exists` must not have the key at all). */
export function isWellFormed({ operator, values }: Expression): boolean {
  return operator === 'In' || operator === 'NotIn' ? values !== null && values.length > 0 : values === null;
}

function holds(expression: Expression, labels: Labels): boolean {
  if (!isWellFormed(expression)) return false;
  const value = labels.get(expression.key);
  switch (expression.operator) {
    case 'In':
      return value !== undefined && (expression.values as readonly string[]).includes(value);
    case 'NotIn':
      return value === undefined || !(expression.values as readonly string[]).includes(value);
    case 'Exists':
      return value !== undefined;
    case 'DoesNotExist':
      return value === undefined;
  }
}

/** As kubectl writes it: `(app=web,tier in (a,b),!old)`. */
export function selectorText({ matchLabels, matchExpressions }: Selector): string {
  const terms = [...matchLabels.map(([key, value]) => `${key}=${value}`), ...matchExpressions.map(expressionText)];
  return terms.length === 0 ? '(all)' : `(${terms.join(',')})`;
}

function expressionText({ key, operator, values }: Expression): string {
  const list = (values ?? []).join(',');
  switch (operator) {
    case 'In':
      return `${key} in (${list})`;
    case 'NotIn':
      return `${key} notin (${list})`;
    case 'Exists':
      return key;
    case 'DoesNotExist':
      return `!${key}`;
  }
}

/** What the API server takes for the key of a label, and for its value. */
export function isLabelKey(key: string): boolean {
  return /^(?:[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?\/)?[A-Za-z0-9](?:[\w.-]{0,61}[A-Za-z0-9])?$/.test(key);
}
export function isLabelValue(value: string): boolean {
  return /^(?:[A-Za-z0-9](?:[\w.-]{0,61}[A-Za-z0-9])?)?$/.test(value);
}
