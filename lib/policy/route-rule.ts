import type { HeaderChanges } from './decision.ts';

/*
 * What a route's document says of requests, by itself: plain data, which compilation takes from documents and matching reads.
 */

/** Text equal to, or a regular expression (RE2 syntax) matching the whole of, a value. */
export interface ValueMatch {
  readonly type: 'exact' | 'regex';
  readonly value: string;
}
export interface NamedMatch extends ValueMatch {
  /** Header names in lower case. */
  readonly name: string;
}

export interface HttpMatch {
  readonly path: { readonly type: 'exact' | 'prefix' | 'regex'; readonly value: string };
  readonly headers: readonly NamedMatch[];
  readonly query: readonly NamedMatch[];
  readonly method: string | null;
}

export interface GrpcMatch {
  /** Null matches any. */
  readonly service: string | null;
  readonly method: string | null;
  readonly headers: readonly NamedMatch[];
}

export interface RedirectFilter {
  readonly scheme: string | null;
  readonly hostname: string | null;
  readonly port: number | null;
  readonly path: { readonly type: 'full' | 'prefix'; readonly value: string } | null;
  readonly status: number;
}

export interface RouteRule<Match> {
  /** Any of them. Of a GRPCRoute none at all: every request, be it a call or not (Linkerd). */
  readonly matches: readonly Match[];
  readonly headerChanges: HeaderChanges | null;
  readonly redirect: RedirectFilter | null;
  /** Holds a field we do not know: what it matches is refused, whatever is authorized. */
  readonly sealed: boolean;
}

/** Routes of one document: every rule holds for every host name, and for any where none is named. */
export interface RoutesOf<Match> {
  readonly hostnames: readonly string[];
  readonly rules: readonly RouteRule<Match>[];
}
