import { type ProblemRow, warning } from './row.ts';

/** What documents lack of one another and of the pod: all of it may be meant, and so is a warning. */
export const linkProblems = {
  'other-namespace': warning(
    'Documents are for pods of another namespace than this pod is in, and are ignored.',
    'Set SALLYPORT_POD_NAMESPACE; a folder may hold documents for other namespaces too.',
  ),
  'service-account-unknown': warning(
    'No pod that the files list runs as the ServiceAccount, so that it admits nobody.',
    'Correct name and namespace, or renew the listing if it is old.',
  ),
  'probe-refused': warning(
    'A declared probe is refused: no route admits it, or its port reads no such requests.',
    'Attach a route for it, with a policy that admits the kubelet, or set SALLYPORT_PROBES_WITH_ROUTES=true.',
  ),
  'port-without-server': warning(
    'No Server selects a port of the pod, so that the default inbound policy holds there.',
    'Write a Server for it, or correct the podSelector, port and namespace of the one that was meant for it.',
  ),
  'selects-no-pod': warning(
    'The podSelector does not select this pod.',
    'Compare it with the labels of the pod; a folder may hold documents of other pods too.',
  ),
  'port-name-unknown': warning(
    'The pod has no port of that name, so that the document has no effect there.',
    'Name one of its ports; a number in quotes is a name.',
  ),
  'port-taken': warning(
    'An older Server has the port, so that this one has no effect on it.',
    'Remove one; the oldest wins, then the first by name.',
  ),
  'dangling-parent': warning(
    'A route names a Server that is not there, and is not attached.',
    'Correct the name, or add the Server.',
  ),
  'route-conflict': warning(
    'A GRPCRoute is attached to the Server, so that its HTTPRoutes are not accepted.',
    'Use routes of one kind for a Server.',
  ),
  'route-without-effect': warning(
    "The Server's protocol is one for which no route of this kind counts.",
    'Write proxyProtocol: gRPC for GRPCRoutes, HTTP/1 or HTTP/2 for HTTPRoutes.',
  ),
  'rate-limit-taken': warning(
    'The Server has an older rate limit, so that this one has no effect.',
    'Remove one; the oldest wins, then the first by name.',
  ),
  'rate-limit-without-effect': warning(
    "The Server's protocol is one that is not limited.",
    'Write proxyProtocol: HTTP/1 or HTTP/2, or leave it out.',
  ),
  'dangling-target': warning(
    'A policy is for a Server or a route that is not there, and applies to nothing.',
    'Correct name and group, or add what it is for.',
  ),
  'dangling-authentication': warning(
    'A policy requires an authentication that is not there, and grants nothing.',
    'Correct name and namespace, or add the authentication.',
  ),
  'selects-other-workloads': warning(
    'A Server selects ExternalWorkloads and this is a pod, or pods and this is none; it has no effect here.',
    'Set SALLYPORT_WORKLOAD_KIND, where this is what it selects; a folder may hold Servers of others too.',
  ),
  'refused-authentication': warning(
    'A policy requires an authentication that was refused, and grants nothing until that is mended.',
    'Mend the authentication; its own problem says how.',
  ),
  'admits-everyone': warning(
    'Everyone is admitted from anywhere: by a policy that requires nothing, by all networks, or by accessPolicy.',
    'If that is not meant, require a MeshTLSAuthentication, a NetworkAuthentication or a ServiceAccount.',
  ),
  'selects-no-server': warning(
    'The selector selects no Server, and the document applies to nothing.',
    'Compare it with the labels of Servers, not of pods.',
  ),
  'empty-networks': warning('networks is empty, so that nobody is authorized.', 'List at least one network.'),
  'pod-address-unknown': warning(
    'podClusterIp is used, but no address of the pod is known; these entries admit nobody.',
    'Set SALLYPORT_POD_IPS.',
  ),
  'selects-no-known-pod': warning(
    'The podSelector selects none of the pods that the files list.',
    'Compare it with the labels of the pods that it is to protect.',
  ),
  'egress-not-enforced': warning(
    'Egress rules are not enforced here.',
    'Nothing: they are left to the network plugin of the cluster.',
  ),
  'no-pods-known': warning(
    'Peers are selected by labels, but the files list no pod, so that these let nobody in.',
    'Put the output of kubectl get pods,namespaces -A -o yaml beside the policy.',
  ),
  'peer-selects-nobody': warning(
    'A peer selects no pod that is listed with an address of its own, and lets nobody in.',
    'Compare it with the labels of pods and namespaces, and renew their listing if it is old.',
  ),
} as const satisfies Readonly<Record<string, ProblemRow>>;
