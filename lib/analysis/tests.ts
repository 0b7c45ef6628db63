import type { NamedMatch } from '../policy/route-rule.ts';

/** What a rule asks of a request, one thing at a time, besides host and literal path. */
export type Test =
  | { readonly kind: 'method'; readonly method: string }
  /** A regular expression on the whole path. */
  | { readonly kind: 'path'; readonly pattern: string }
  | { readonly kind: 'header' | 'query'; readonly match: NamedMatch }
  /** On the verified identity. */
  | { readonly kind: 'identity'; readonly match: NamedMatch }
  /** Nothing comes with the head: no content, no upgrade. */
  | { readonly kind: 'bare' }
  | { readonly kind: 'grpc' }
  /** A header that servers which fold names take for this one (CGI), and which is not spelled so. */
  | { readonly kind: 'alias'; readonly name: string };

/** Of tests that many leaves have. */
const keys = new WeakMap<Test, string>();

/** Equal for equal tests. */
export function testKey(test: Test): string {
  let key = keys.get(test);
  if (key === undefined) {
    key = madeKey(test);
    keys.set(test, key);
  }
  return key;
}

function madeKey(test: Test): string {
  switch (test.kind) {
    case 'method':
      return `m ${test.method}`;
    case 'path':
      return `p ${test.pattern}`;
    case 'alias':
      return `a ${test.name}`;
    case 'bare':
    case 'grpc':
      return test.kind;
    default: {
      const { name, type, value } = test.match;
      return `${test.kind[0]} ${JSON.stringify([name, type, value])}`;
    }
  }
}

/** The verified identity, which routes ask for as for a header. */
export function isIdentityName(name: string): boolean {
  return name === 'l5d-client-id';
}

export function headerTest(match: NamedMatch): Test {
  return { kind: isIdentityName(match.name) ? 'identity' : 'header', match };
}
