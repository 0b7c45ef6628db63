/**
 * What decided: a document (`policy.linkerd.io/server/web`) or a named default (`/default/all-authenticated`).
 * It travels unchanged from the policy file into decisions, metrics labels and logs.
 */
export interface ResourceRef {
  /** API group; empty for built-in defaults and for `core`. */
  readonly group: string;
  /** Linkerd's spelling: `server`, `authorizationpolicy` in lower case, routes as in the CRD (`HTTPRoute`), or `default`. */
  readonly kind: string;
  readonly name: string;
}

/** `group/kind/name`, as logs show it. */
export function refText(ref: ResourceRef): string {
  return `${ref.group}/${ref.kind}/${ref.name}`;
}
