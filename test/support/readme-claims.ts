/**
 * What checks the prose of the pages (readme-page.ts): for each paragraph and list item, by page, section and first words, the
 * tests that fail where it is untrue. test/unit/readme.test.ts fails where one is not here: say what checks it, or leave the
 * sentence out. Most tables and console blocks are checked by that test itself, the lines of the log by readme-log.test.ts.
 */
type Checks = Readonly<Record<string, string>>;

/** It claims nothing that a program does: it says what a thing is for, or leads to another page. */
export const noClaim = 'no claim';

/** Pages of which only the sections that are named here are looked at: they are about files, which other tests are about. */
export const inPart: readonly string[] = ['lib/README.md', 'CONTRIBUTING.md'];

/** By page, then by section. */
export const claims: Readonly<Record<string, Readonly<Record<string, Checks>>>> = {
  'README.md': {
    Sallyport: {
      'Sallyport is a sidecar proxy': 'e2e/workshop-table e2e/policy-cases-wire',
      'It is for teams': 'e2e/real-clients e2e/demo',
      'A sallyport is a gate': noClaim,
      '**Contents:**': 'unit/readme',
    },
    'When to choose it': { "HAProxy's CPU time": 'unit/readme' },
    Start: {
      'Two commands on a fresh clone': 'unit/bin/launcher e2e/demo',
      '- `npm start`': 'e2e/demo',
      '- `npm test`': 'unit/readme',
      'The demo starts': 'e2e/demo e2e/readme-walk',
      'They are answered': 'e2e/demo',
    },
    Install: {
      'From a checkout': 'e2e/installed e2e/pod/image',
      'Two builds': 'e2e/pod/image',
    },
    'First policy': {
      'Port 8080 of the pods': 'unit/readme',
      '`check` is the validator': 'unit/readme',
      'Before an app': 'e2e/readme-walk',
      'What is printed above': 'unit/readme e2e/readme-walk',
    },
    'Working with a policy': {
      '- **[From an open pod': 'e2e/readme-loop',
      '- **[Testing]': 'unit/policy-test/suite unit/bin/policy-test unit/policy-test/results',
      '- **[Comparing]': 'unit/readme unit/bin/analysis',
      '- **[A candidate]': 'e2e/candidate/verdicts e2e/candidate/harmless',
      '- **[Recording and replaying]': 'unit/telemetry/decision-records unit/bin/replay',
    },
    'What a policy may say': {
      "Policy is [Linkerd's documents]":
        'unit/policy/documents/read unit/policy/documents/stand-ins unit/reload/policy-source',
      'A request is [decided]':
        'unit/policy/authorizer unit/policy/decide/route-match unit/policy/decide/evasion unit/policy/decide/probes unit/policy/decide/network-policy unit/proxy/http/refuse',
    },
    'Running it': {
      '- **[Admin and health]': 'unit/ops/admin-app unit/ops/health-server',
      '- **[Metrics]': 'e2e/metrics-as-linkerd unit/telemetry/bounded unit/telemetry/decision-log',
      '- **[Reload, certificates, stop]':
        'unit/reload/watch unit/reload/credential-source unit/reload/pod-facts e2e/stop-under-load',
      '- **[Limits]': 'unit/readme-limits e2e/hardening/limits e2e/workers e2e/workers-together',
    },
    Security: {
      'Everybody who can reach': 'unit/readme',
    },
    Commands: { '`--help`': 'unit/bin/command-line unit/bin/inputs' },
    Environment: { 'Durations are': 'unit/config/config' },
    Errors: {
      'What is wrong is said': 'unit/errors/catalogue e2e/faults',
    },
    'Deliberate differences from Linkerd': { 'Everywhere else': 'cases/linkerd-recorded e2e/linkerd-recorded-wire' },
    'The house': {
      '[`lib/README.md`]': 'architecture unit/walks',
    },
    'Not there yet': {
      '- Documents from the API server': noClaim,
      '- Direct connections to 4143': 'e2e/redirected',
      '- JWT, explicit deny rules': noClaim,
      '- Outbound traffic': noClaim,
      'Licensed under': noClaim,
    },
  },
  'lib/errors/README.md': {
    'Faults, and what says them': { 'For whoever': 'unit/readme e2e/faults' },
    'Finding a fault': { 'Each of these': 'e2e/faults' },
    Errors: {
      'What a command says': 'unit/errors/catalogue',
      'Requests that failed': 'unit/errors/catalogue',
    },
  },
  'lib/suggest/README.md': {
    'From an open pod to a policy': {
      'For who': noClaim,
      'This is the way there': 'e2e/readme-loop',
      '- **Record.**': 'e2e/readme-loop',
      '- **Suggest.**': 'e2e/readme-loop unit/bin/suggest fuzz/suggest',
      '- **Test.**': 'e2e/readme-loop',
      '- **Compare.**': 'e2e/readme-loop',
      '- **Beside.**': 'e2e/readme-loop e2e/candidate/harmless',
      '- **Promote.**': 'e2e/readme-loop',
    },
  },
  'lib/policy-test/README.md': {
    'Testing a policy': {
      'For who': noClaim,
    },
    'Questions with their answers': {
      'A policy test asks': 'unit/readme',
      '`test` asks each combination': 'unit/readme unit/policy-test/suite',
    },
    Rules: {
      '- **Cases.**': 'unit/policy-test/suite',
      '- **`everyone`**': 'unit/policy-test/suite',
      '- **The pod**': 'unit/bin/policy-test',
      '- **Coverage.**': 'unit/bin/policy-test',
      '- **Ports without a Server**': 'unit/bin/policy-test',
      '- **Faults.**': 'unit/policy-test/suite unit/bin/policy-test',
      '- **In CI.**': 'unit/bin/policy-test unit/policy-test/results',
    },
    Fields: {
      '`clients` hold': 'unit/policy-test/suite',
    },
  },
  'lib/analysis/README.md': {
    'Comparing policies': {
      'For who': noClaim,
    },
    'Three commands': {
      '`diff` says what a policy': 'unit/readme unit/bin/analysis',
    },
    'How to read it': {
      '`/a` is that path alone': 'unit/bin/analysis',
      '- **Nothing is left out.**': 'unit/analysis/partition unit/analysis/reach unit/bin/analysis',
      '- **Other spellings**': 'unit/analysis/partition',
      '- **Not compared**': 'unit/policy/decide/evasion',
    },
  },
  'lib/app/candidate/README.md': {
    'Candidate policy': {
      'For operators': noClaim,
      '`SALLYPORT_CANDIDATE_POLICY` names':
        'e2e/candidate/verdicts e2e/candidate/harmless e2e/candidate/life unit/app/candidate/watch',
    },
    'What is counted': {
      'Each decision is counted': 'e2e/candidate/verdicts fuzz/candidate',
    },
    'What differs': {
      'Whatever differs': 'e2e/candidate/verdicts unit/app/candidate/watch',
    },
    'While it runs': {
      'Requests on connections': 'e2e/candidate/life e2e/candidate/harmless',
    },
    'Promote it': {
      'To promote it': 'e2e/candidate/life',
    },
  },
  'lib/records/README.md': {
    'Recording and replaying decisions': {
      'For operators': noClaim,
    },
    Record: {
      'A refusal costs its client': 'unit/telemetry/decision-records e2e/hardening/log-floods',
      'With `SALLYPORT_DECISIONS=all`':
        'unit/telemetry/decision-records unit/telemetry/decision-file fuzz/explain-wire',
    },
    'Ask a proxy that is running': {
      'Whatever is recorded': 'unit/telemetry/decision-counts e2e/decisions-asked',
    },
    Replay: {
      '`replay` decides each line': 'unit/bin/replay unit/records/read e2e/decisions',
      'With the [first policy]': noClaim,
    },
  },
  'lib/policy/README.md': {
    Policy: {
      'For who': noClaim,
      '[Policy documents](#policy-documents)': 'unit/readme',
    },
    'Policy documents': {
      "Linkerd's own YAML": 'unit/policy/documents/read cases/policy-cases',
      'The last three': 'unit/policy/documents/read unit/policy/documents/near-miss',
      '- **Defaults.**': 'unit/policy/documents/read cases/linkerd-recorded',
      '- **Refused**': 'unit/policy/documents/read cases/admission-gaps',
      '- **Ignored, with a warning**': 'unit/policy/documents/read',
      '- **Warned of**': 'unit/policy/compile/compile unit/policy/compile/doubts',
      '- **`podClusterIp`**': 'e2e/pod-scrapes-itself cases/admission-gaps',
      '- **`except`**': 'cases/admission-gaps',
    },
    'First load': {
      'A refused document': 'unit/policy/documents/stand-ins',
      'A file that cannot be read': 'unit/reload/policy-source',
    },
    'What check warns of': {
      'Beyond faults': 'unit/review/review unit/review/found-rules',
    },
    'When files change': {
      'Any error keeps': 'unit/reload/policy-source e2e/stale',
      '- *Emptied is not removed.*': 'unit/reload/policy-files-in-trouble',
      '- *Removal is believed': 'unit/reload/reloader unit/reload/policy-files-in-trouble',
      '- *A file that is written in place*': 'unit/reload/reloader',
      '- A load that has not ended': 'unit/reload/policy-source',
    },
    'How a decision is made': {
      '1. **Server.**': 'unit/policy/compile/compile unit/policy/decide/route-match cases/linkerd-recorded',
      '- **Probes**': 'unit/policy/decide/probes',
      '- **Localhost.**': 'unit/policy/decide/client-match cases/linkerd-recorded',
      '- **Rate limits.**': 'unit/policy/authorizer',
      '- **Spellings of a path.**': 'unit/policy/decide/path-readings fuzz/readings e2e/hardening/paths',
      '- **Spellings of a query.**': 'fuzz/readings unit/policy/decide/evasion',
      "- **Spellings of a header's name.**": 'e2e/hardening/identity-header unit/policy/decide/evasion',
      '- **The price of a decision**': 'unit/policy/decide/decision-cost',
    },
    Probes: {
      'What the kubelet asks':
        'unit/policy/decide/probes e2e/probes-of-every-kind e2e/probes-from-anywhere e2e/hardening/grpc-probes',
      '- The path must begin': 'unit/policy/pod e2e/hardening/probes',
      '- One with a `host`': 'unit/policy/pod',
      '- **HTTPS.**': 'e2e/probes-of-every-kind e2e/hardening/https-probes',
      '- **Hooks** come': 'e2e/probes-of-every-kind',
      '- A TCP probe': 'e2e/probes-of-every-kind',
      '- Attaching a route': 'unit/policy/decide/probes unit/bin/check',
      '- On a gRPC Server': 'unit/policy/decide/probes',
    },
    NetworkPolicies: {
      'The ingress side': 'unit/policy/decide/network-policy e2e/pod/network-policy',
      'Peers that are selected': 'unit/reload/cluster-listing e2e/pod/network-policy',
      'Only names, labels': 'unit/reload/cluster-listing',
      '- **Never kept out**': 'unit/policy/decide/network-policy',
      "- **Nobody's peer**": 'unit/policy/decide/network-policy',
      '- **A fault closes.**': 'unit/policy/decide/network-policy',
      '- **Open connections**': 'e2e/pod/network-policy',
      '- `policyTypes: [Egress]`': 'unit/policy/decide/network-policy',
      '`check` points at': 'unit/policy/decide/network-policy',
    },
    Refusals: {
      '- Bodies are empty.': 'unit/proxy/http/refuse',
      '- Raw TCP that is denied': 'e2e/hardening/detection e2e/workshop-table',
      '- HTTP/1 that is malformed': 'unit/proxy/http1/messages e2e/bad-input e2e/hardening/methods',
      '- A response after which': 'e2e/hardening/last-response',
      '- Why, the client is not told': 'unit/proxy/http/refuse',
    },
  },
  'lib/telemetry/README.md': {
    'Metrics and logs': {
      'For operators': noClaim,
    },
    Metrics: {
      '`GET /metrics`': 'e2e/metrics-as-linkerd e2e/metrics-of-traffic',
      'Groups of labels': 'unit/readme-limits',
      '- **T**': 'unit/readme-limits',
      '- **S**': 'unit/readme-limits',
      '- **R**': 'unit/readme-limits',
      '- **A**': 'unit/readme-limits',
      '- **P**': 'unit/readme-limits',
      '- **TLS**': 'unit/readme-limits',
      "Node's own `nodejs_*`": 'unit/telemetry/metrics',
      'For N well-formed requests': 'unit/telemetry/metrics',
      '**Bounds**': 'unit/telemetry/bounded',
    },
    Logs: {
      'One JSON object': 'unit/telemetry/decision-log unit/telemetry/log',
      'What clients or the app cause': 'unit/telemetry/client-lines e2e/hardening/log-floods',
      'What has no line': 'unit/telemetry/client-lines unit/records/read',
      'A line has at most': 'unit/telemetry/client-lines unit/telemetry/access-log',
      'The access log': 'unit/telemetry/access-log',
    },
  },
  'lib/ops/README.md': {
    Operation: {
      'For operators': noClaim,
      '[Admin and health](#admin-and-health)': 'unit/readme',
    },
    'Admin and health': {
      'The admin server is': 'unit/ops/admin-app e2e/hardening/admin-surface',
      'From this machine': 'unit/ops/admin-app',
    },
    'Faults of its own': {
      "An exception in Sallyport's own code": 'e2e/internal-faults unit/ops/soundness',
    },
    Forwarding: {
      'The app gets the HTTP version': 'e2e/hardening/http2-to-http1 unit/proxy/http1/oddities',
    },
    Reload: {
      'Files are watched':
        'unit/reload/watch unit/reload/pod-facts e2e/change-under-load e2e/hardening/revoked-underway',
      'Files that are bad': 'e2e/stale unit/bin/health',
    },
    Certificates: {
      'Certificate, key and anchors':
        'unit/reload/credential-source unit/reload/expiry e2e/removed-anchor e2e/hardening/tls',
    },
    Stop: {
      'SIGTERM, SIGINT or': 'e2e/stop-under-load e2e/stop-at-odd-moments unit/ops/stop-sequence',
    },
    Memory: {
      'By default every limit': 'unit/memory-plan unit/config/memory-limit unit/config/config',
      'Each connection is counted': 'unit/proxy/fairness/making-room unit/memory-plan',
      'The last line of defence': 'unit/ops/memory-guard unit/proxy/fairness/making-room e2e/hardening/memory-floods',
    },
    'Every core': {
      'One thread serves': 'e2e/workers unit/config/cpu-limit',
      'All workers are one proxy':
        'e2e/workers-together unit/shared/buckets unit/shared/counts unit/shared/lines unit/telemetry/figures',
    },
  },
  'SECURITY.md': {
    Security: {
      'For who': noClaim,
      'Sallyport decides who': noClaim,
    },
    'Report a vulnerability': {
      'Privately, please': noClaim,
      'Expect an answer': noClaim,
      'What counts': noClaim,
      '- a request, connection': noClaim,
      '- an identity that': noClaim,
      '- a client that takes': noClaim,
      '- secrets, or': noClaim,
      'Not a vulnerability': noClaim,
    },
    'Supported versions': {
      'Node: from the version': 'e2e/installed unit/bin/launcher',
    },
    'Threat model': {
      'Sallyport is the boundary': noClaim,
      '**What is trusted.**': 'unit/certificate-names e2e/hardening/believed-headers',
      '**What an application may believe.**': 'e2e/hardening/identity-header e2e/hardening/tunnels fuzz/detection',
      '**Behind a tunnel**': 'e2e/hardening/tunnels fuzz/detection unit/proxy/http1/connect-tunnel',
      '**What is not defended.**': noClaim,
    },
    'How it is attacked': {
      'Every class of attack': 'unit/readme',
    },
    'Not held yet': {
      '- In a container of 128 MiB': 'e2e/hardening/memory-floods',
      '- In a container of 64 MiB': 'unit/memory-plan',
      '- On two cores': noClaim,
      '- An upload that': noClaim,
      '- A client of whom': 'e2e/hardening/key-updates',
      '- In a tunnel': noClaim,
    },
    "Other people's judges": {
      "Other people's test programs": noClaim,
    },
  },
  'lib/README.md': {
    'Rooms and arrows': {
      'An arrow means': 'architecture',
      'Imports go one way': 'architecture',
      'Inside `proxy/`': 'architecture',
    },
    Dependencies: { 'TLS and the library lanes': noClaim },
  },
  'CONTRIBUTING.md': { 'Where to look': { '`npm run check`': 'unit/readme' } },
};

/** The paragraphs and list items of a page's prose: neither tables, nor code, nor headings. */
export function proseOf(page: string): readonly (readonly [section: string, text: string])[] {
  let section = '';
  const found: [string, string][] = [];
  const prose = page.replace(/^```.*?^```$/gms, '').replace(/^(?:\||<).*$/gm, '');
  for (const block of prose.split(/\n\s*\n|\n(?=- |#)/)) {
    const text = block.trim();
    const [, heading] = /^##? (.*)/.exec(text) ?? [];
    if (heading !== undefined) section = heading;
    else if (text !== '' && !text.startsWith('#')) found.push([section, text.replace(/\s+/g, ' ')]);
  }
  return found;
}
