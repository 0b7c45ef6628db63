import { command, once, repeated, toggle } from './row.ts';

export const certsCommand = command({
  does: 'a development CA and workload certificates',
  brief: 'certs init|issue …',
  usage: [
    'certs init [--out DIR] [--trust-domain NAME] [--days N] [--force] [--json]',
    'certs issue (--service-account NAME --namespace NAME | --dns NAME | --spiffe ID)… [--out DIR] [--name BASE] [--days N] [--trust-domain NAME] [--control-plane-namespace NAME] [--force] [--json]',
  ],
  about: [
    "init writes a root for development: ca.crt and ca.key. issue signs with it and writes BASE.crt and BASE.key. Everything made here is throw-away: the CA's key lies unencrypted beside its certificate.",
  ],
  words: { kind: 'action', among: ['init', 'issue'] },
  flags: {
    out: once('DIR', "the CA's folder (default: certs/dev)"),
    'service-account': once(
      'NAME',
      'with --namespace, a mesh workload, by the DNS name that Linkerd gives its ServiceAccount',
    ),
    namespace: once('NAME', 'of the ServiceAccount'),
    dns: repeated('NAME', 'a DNS name; may be repeated, the first is the identity'),
    spiffe: repeated('ID', 'one SPIFFE ID, spiffe://TRUST-DOMAIN/PATH'),
    name: once('BASE', 'names the files (default: from the first name)'),
    days: once('N', "validity (default: 365 for init, 30 for issue, never beyond the CA's own)"),
    'trust-domain': once('NAME', 'default: SALLYPORT_TRUST_DOMAIN, else cluster.local'),
    'control-plane-namespace': once('NAME', 'default: SALLYPORT_CONTROL_PLANE_NAMESPACE, else linkerd'),
    force: toggle('replace files that exist'),
    json: toggle('one object on stdout instead of text'),
  },
  exits: 'certs',
  page: ['certs/README.md', 'certs/README.md'],
});
