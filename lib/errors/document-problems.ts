import { either, error, type ProblemRow, warning } from './row.ts';

/** What Linkerd's admission, and for NetworkPolicies the API server, would say of one document. */
export const documentProblems = {
  'server-selector': error(
    'A Server selects by none or by both of podSelector and externalWorkloadSelector.',
    'Write one of them; podSelector: {} selects every pod of the namespace.',
  ),
  'access-policy': error(
    'accessPolicy is none of the default policies.',
    'Write one of those under "How a decision is made".',
  ),
  'selector-never-holds': warning(
    'An expression of a selector can hold for no labels, so that it selects nothing.',
    'Give In and NotIn values, Exists and DoesNotExist none.',
  ),
  selector: error(
    'A selector of a NetworkPolicy is one that the API server refuses; it opens nothing.',
    'Give In and NotIn values, the others none; keys and values must be what labels can be.',
  ),
  'server-target': error(
    'A ServerAuthorization names its Servers by none or by both of name and selector.',
    'Write one of them.',
  ),
  'client-conflict': error('Two statements about the client exclude each other.', 'Keep the one that is meant.'),
  'no-client': warning(
    'A client says neither unauthenticated nor meshTLS, so that the document grants nothing, as with Linkerd.',
    'Write unauthenticated: true to admit clients without mTLS from these networks.',
  ),
  identity: error(
    'An identity is no name that a certificate can hold.',
    'Write a lower-case DNS name, *.suffix, "*", or a SPIFFE ID.',
  ),
  identities: error(
    'A MeshTLSAuthentication has none or both of identities and identityRefs.',
    'List at least one identity in one of them; "*" is any.',
  ),
  'identity-ref': error(
    'A reference to an identity is incomplete, or to what has none.',
    'Refer to a ServiceAccount, or to a Namespace without a namespace of its own.',
  ),
  'empty-identities': warning(
    'meshTLS names no identity, so that nobody is authorized.',
    'List identities or serviceAccounts.',
  ),
  'authentication-kind': error(
    'A required authentication is of a kind that authenticates nobody.',
    'Refer to a MeshTLSAuthentication, a NetworkAuthentication or a ServiceAccount.',
  ),
  'too-many-authentications': error(
    'More is required at once than one network and one identity authentication.',
    'All of the list must hold; for alternatives write one AuthorizationPolicy each.',
  ),
  'target-kind': error(
    'A policy targets what it cannot be attached to.',
    'Target a Server or, for authorization, also a route or the Namespace.',
  ),
  'target-namespace': error('A policy targets another Namespace than its own.', 'Name its own, or move the policy.'),
  'rate-limit-zero': error(
    'A limit of 0 is none to Linkerd.',
    'Leave it out where there is no limit; deny by policy where nobody is let in.',
  ),
  'rate-limit-above-total': error(
    'A limit for some clients is above the total, which is reached first.',
    'Lower it, or raise the total.',
  ),
  'client-kind': error('A rate limit is for clients of a kind that is none.', 'Refer to a ServiceAccount.'),
  cidr: error(
    'A network is no CIDR; in a NetworkPolicy the rule opens nothing.',
    'Write it as 10.0.0.0/8 or fd00::/8; a bare address is one everywhere but in a NetworkPolicy.',
  ),
  'mapped-network': warning(
    'A network of IPv4 addresses is written as IPv6, in which no client over IPv4 is.',
    'Write it as IPv4.',
  ),
  'host-bits': warning(
    'A CIDR is an address inside its network (10.1.2.3/8), and means the whole network.',
    'Write the network (10.0.0.0/8), or the address with /32 (IPv6: /128).',
  ),
  'network-empty': error('A network has neither cidr nor except.', 'Write cidr.'),
  'except-alone': error('A list has exceptions, but no network to take them from.', 'Add the network.'),
  'except-outside': either(
    'An exception lies outside its network; a warning where it takes nothing away from a whole list.',
    'Write an exception that lies inside.',
  ),
  'except-covers': error('An exception leaves nothing of its network.', 'Write a smaller one, or remove the network.'),
  except: error(
    'An exception of an ipBlock lies outside it or leaves nothing of it; the rule opens nothing.',
    'Write one that lies inside and leaves something.',
  ),
  'parent-kind': warning(
    'A parentRef without kind means a Gateway, so that the route is no inbound policy.',
    'Write group: policy.linkerd.io and kind: Server.',
  ),
  'parent-group': either(
    'A parent looks like a Server, but its group or kind is not that of one; an error where that is a slip.',
    'Write group: policy.linkerd.io and kind: Server.',
  ),
  'parent-repeated': error('A route names the same parent twice.', 'Remove one of them.'),
  'parent-section': error(
    'A Server as a parent takes neither port nor sectionName; with one the whole route is discarded.',
    'Remove it; the Server has its own port.',
  ),
  'parent-namespace': error(
    'A route names a Server of another namespace, and attaches only to those of its own.',
    'Remove namespace, or move the route.',
  ),
  'path-relative': error('A path does not begin with "/".', 'Write it from the root.'),
  'path-form': error(
    'A path that the Gateway API refuses: too long, empty or dot segments, %2F, characters that no path holds.',
    'Write the normal form of the path.',
  ),
  'path-never-matches': warning(
    'A path that no request has, or for which every one is refused (400): it holds "?", "#" or a blank, or servers take it for another.',
    'Use queryParams; write the spelling that the hint gives.',
  ),
  'path-pattern': warning(
    'A path holds what other tools take for a pattern ("*", "{id}", ":id"), and is compared as it stands.',
    'Write the prefix alone, or a RegularExpression.',
  ),
  'match-repeated': error('A header or parameter is matched twice in one match.', 'Keep one of them.'),
  regex: error(
    'A regular expression cannot be read, or Linkerd would read it otherwise.',
    'Write it in the syntax of RE2; it matches the whole value.',
  ),
  'grpc-method-regex': error(
    'gRPC methods cannot be matched by regular expression, as with Linkerd.',
    'Name service and method.',
  ),
  'grpc-method-empty': error('A match on the method names neither service nor method.', 'Name one, or leave it out.'),
  'grpc-method-name': error('A name is not that of a gRPC service or method.', 'Write it as in the .proto file.'),
  'filter-repeated': error('A filter is given twice.', 'Join the two.'),
  'filter-incomplete': error('A filter lacks its settings.', 'Write the field that is named like its type.'),
  'filter-mixed': error(
    "A filter, or a redirect's path, has the settings of another type than its own.",
    'Keep those of its type, and write a filter of its own for the others.',
  ),
  'filter-unsupported': error(
    'A filter that Linkerd does not support inbound; it ignores the whole route.',
    'Remove the filter, or do its work in the application.',
  ),
  'filter-without-effect': warning(
    'ResponseHeaderModifier has no effect inbound, as with Linkerd.',
    'Change responses in the application.',
  ),
  'rule-field-without-effect': warning(
    'A field of a rule says where or how requests go on, which is settled inbound; it has no effect, as with Linkerd.',
    'Remove it.',
  ),
  'header-repeated': error('One list changes the same header twice.', 'Keep one of the changes.'),
  'redirect-path': error(
    'A replacement path holds characters that a URI cannot.',
    'Write them percent-encoded, as %20.',
  ),
  'ingress-not-enforced': warning(
    'policyTypes leaves out Ingress, so that the ingress rules have no effect and close nothing.',
    'Add Ingress to policyTypes.',
  ),
  'end-port': error(
    'endPort ends a range that has no numeric port below it; the rule opens nothing.',
    'Write port and endPort as numbers, the lower one first.',
  ),
  peer: error(
    'A peer names nobody, or an ipBlock beside a selector; the rule opens nothing.',
    'Make two items of it, or leave out from to mean everyone.',
  ),
} as const satisfies Readonly<Record<string, ProblemRow>>;
