import { type ProblemRow, warning } from './row.ts';

/** What `check` alone says: documents that are valid, and hardly what was meant. Each may be allowed where it stands. */
export const reviewProblems = {
  'route-never-found': warning(
    'No request finds any rule of a route: other routes take all that it matches.',
    'Remove it, or match what the others do not; where matches are equally long the oldest route wins.',
  ),
  'rule-never-found': warning(
    'No request finds a rule of a route: other rules take all that it matches.',
    'Remove it, or match what the others do not; where matches are equally long the first rule wins.',
  ),
  'authorization-never-applies': warning(
    'An authorization asks for an identity where no client has one: on opaque ports.',
    'Take proxyProtocol: opaque away from the Server, or authorize networks there.',
  ),
  'authorization-redundant': warning(
    'Everybody whom an authorization admits is admitted by another one as well, wherever it applies.',
    'Remove one of the two: to take this one away, or to narrow it, shuts nobody out.',
  ),
  'authentication-unused': warning(
    'No AuthorizationPolicy of these files requires the authentication.',
    'Remove it, require it, or check it together with the policies that do.',
  ),
  'identity-impossible': warning(
    'An identity is in the trust domain, is the name of a Service or has no dots, and no ServiceAccount can have it; or no certificate gives it.',
    'Write NAME.NAMESPACE.serviceaccount.identity.LINKERD-NAMESPACE.TRUST-DOMAIN, or name a ServiceAccount.',
  ),
  'network-covered': warning(
    'The exceptions of a network together leave nothing of it.',
    'Write smaller ones, or remove the network.',
  ),
  'admits-every-identity': warning(
    'A whole Server is open to every client whose identity is a DNS name, from anywhere.',
    'If that is not meant, name identities or ServiceAccounts.',
  ),
  'audit-left-on': warning(
    'audit lets in what it would refuse, and only says so.',
    'Write deny where it has said enough.',
  ),
  'allow-unknown': warning(
    'The annotation sallyport.dev/allow names what is no warning.',
    'Name codes of warnings, separated by semicolons, each with a reason behind a colon.',
  ),
  'allow-unused': warning(
    'The annotation sallyport.dev/allow names a warning that there is not.',
    'Take the code out of it.',
  ),
} as const satisfies Readonly<Record<string, ProblemRow>>;
