import { type FaultRow, faultsOf } from './fault-row.ts';

const fault = faultsOf('log');

/** Warnings and errors of a running proxy, in the field `code` of its log. */
export const logFaults = {
  'policy-not-loaded': fault(
    'The policy on disk cannot be used; the last good one stays in force.',
    'Fix what the lines "Policy: …" before it name, or what its reason says.',
  ),
  'policy-stale': fault(
    'The policy on disk could not be used some time ago, and still cannot; the last good one stays in force.',
    'Fix what its faults name; `lasted` says since when.',
  ),
  'candidate-not-loaded': fault(
    'The candidate policy on disk cannot be used; the policy in force is not concerned.',
    'Fix what the lines "Candidate policy: …" before it name, or what its reason says.',
  ),
  'candidate-stale': fault(
    'The candidate policy on disk could not be used some time ago, and still cannot.',
    'Fix what its faults name; `lasted` says since when.',
  ),
  'candidate-differs': fault(
    'The candidate policy would have decided otherwise than the policy in force; a warning, once a minute for each such thing.',
    'See the reasons of both, and give `example` to `explain --requests`; `/candidate` has them all.',
  ),
  'candidate-slow': fault(
    'The candidate policy has taken a fifth of the time of a thread, and is not asked about everything; a warning.',
    'Look for regular expressions and for long lists in it; what was left out is counted as `candidate="unasked"`.',
  ),
  'candidate-failed': fault(
    'An exception in deciding by the candidate policy; what is in force was decided and stands.',
    'Report it with the error in the line; without SALLYPORT_CANDIDATE_POLICY it does not happen.',
  ),
  'documents-removed': fault(
    'Documents that were in force are gone; a warning.',
    'Nothing where that is meant; the line lists what is wider without them.',
  ),
  'load-overdue': fault(
    'A load has not ended for 15 s.',
    'See what it waits for: a writer that goes on, a file system that does not answer.',
  ),
  'service-manager': fault(
    'The socket NOTIFY_SOCKET, by which systemd learns that the start is over, takes no message; a warning.',
    'Allow AF_UNIX in RestrictAddressFamilies=, or use Type=exec.',
  ),
  'load-failed': fault('A load failed for a reason of the system; it is tried again.', 'See the error in the line.'),
  'not-watched': fault(
    'The system does not report changes of files, which are looked at from time to time; a warning.',
    'Raise fs.inotify.max_user_watches and max_user_instances where they are used up.',
  ),
  'pod-facts-kept': fault(
    'The files of the facts of the pod cannot be used; the previous facts stay in use.',
    'Fix the faults that the line lists, each with its code.',
  ),
  'pod-facts-stale': fault(
    'The files of the facts of the pod could not be used some time ago, and still cannot; the previous facts stay in use.',
    'Fix what its faults name.',
  ),
  'worker-died': fault(
    'One of several threads that serve has ended, and with it its connections; another takes its place.',
    'See why: for want of memory raise the limit or lower SALLYPORT_WORKERS; report any other reason.',
  ),
  'accept-failed': fault('A connection could not be accepted.', 'See the error in the line.'),
  'foreign-destination': fault(
    'Redirected connections were meant for an address that is not of the pod, and are closed; a warning.',
    'Add the address to SALLYPORT_POD_IPS if it is one of the pod.',
  ),
  'own-port-redirected': fault(
    'Connections to a port of the proxy itself are redirected, and are closed; a warning.',
    'Leave the port out of the redirection: --skip-inbound-ports, --admin-port, --health-port.',
  ),
  'undeclared-port': fault(
    'Nothing declares a port, so that what listens there on loopback alone is not reached; a warning.',
    'Declare it in the Pod or by a Server, or add it to SALLYPORT_LOOPBACK_PORTS.',
  ),
  'tls-not-for-us': fault(
    'A client began TLS for a name that is not ours, or for none, so that TLS does not end here.',
    'Let it call by a name that the line lists (curl --connect-to), or add its name to the certificate or to SALLYPORT_IDENTITY_NAME.',
  ),
  'other-http': fault(
    'A client speaks HTTP/1 where the Server declares HTTP/2 or gRPC, or HTTP/2 where it declares HTTP/1, and is not understood.',
    'Correct proxyProtocol of the Server, leave it out so that the protocol is detected, or let the client speak what it declares.',
  ),
  'not-recognized': fault(
    'On a port that nobody declares, the time for detection has passed, and what the client has said may still become a request, or not.',
    'Declare proxyProtocol in a Server of the port, opaque or TLS, or name it in the opaque ports: then nobody waits.',
  ),
  'log-not-written': fault(
    'The log cannot be written; once its reader has gone its lines are dropped. On standard error.',
    'Keep the reader of standard output running, and make room where it leads.',
  ),
  'slow-request': fault(
    'The application has taken SALLYPORT_SLOW_REQUEST or longer to begin its response; told within the rates of the log.',
    'Look at the application, and at `response_latency_ms`; raise the variable, or `off`, where it is meant to wait (long polling).',
  ),
  'decisions-not-written': fault(
    'Decisions cannot be recorded in the file of SALLYPORT_DECISIONS_FILE; traffic goes on. A warning.',
    "See the system's code in the line: make room, or let the user that runs Sallyport write there.",
  ),
  'limit-reached': fault(
    'A limit has refused or cut off somebody; a warning, or a line of the level debug where that is ordinary.',
    'See who is named; raise the variable of the same name only if there is room for more.',
  ),
  'cut-at-stop': fault(
    'The grace period of a stop was over, and what was left was cut; a warning.',
    'Raise SALLYPORT_SHUTDOWN_GRACE_PERIOD, or see what takes so long.',
  ),
  'second-signal': fault('A second signal has ended the proxy at once; a warning.', 'Send one, and wait.'),
  'node-interface': fault(
    'This Node lacks something undocumented of it that can be done without; a warning.',
    'Run it with the Node that npm installs beside it, and report which one has failed.',
  ),
} as const satisfies Readonly<Record<string, FaultRow>>;
