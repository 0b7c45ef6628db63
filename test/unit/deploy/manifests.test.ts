import t from 'tap';
import { parse } from 'yaml';
import { podMonitor, policyConfigMap } from '../../../lib/deploy/manifests.ts';

const metadata = { name: 'sallyport-policy', namespace: null };
const file = (name: string, text: string) => ({ file: `policy/${name}`, name, text });

t.test('a ConfigMap holds every file as it is', async (t) => {
  const texts = [
    'kind: Server # with a comment\n',
    'no line end',
    '',
    '\n\n  leading\n\ttabs and trailing spaces  \n\n\n',
    '--- |\n  a block\n...\n',
    'CRLF\r\nlines\r\n',
    '# ünïcode, 漢字 and \u0085\n',
  ];
  const files = texts.map((text, index) => file(`${index}.yaml`, text));
  const made = policyConfigMap({ name: 'p', namespace: 'shop' }, files);
  if ('problem' in made) throw new Error(made.problem.message);
  t.same(parse(made.yaml), {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name: 'p', namespace: 'shop' },
    data: Object.fromEntries(files.map(({ name, text }) => [name, text])),
  });
  t.match(made.yaml, '0.yaml: |\n', 'as lines, to be read in a diff');
});

t.test('what a ConfigMap cannot hold', async (t) => {
  const half = 'x'.repeat(512 * 1024);
  const rows: [name: string, files: ReturnType<typeof file>[], message: RegExp | null][] = [
    ['1 MiB', [file('a.yaml', half), file('b.yaml', half)], null],
    ['a byte more', [file('a.yaml', half), file('b.yaml', `${half}x`)], /larger than the 1048576 bytes/],
    ['bytes, not characters', [file('a.yaml', half), file('b.yaml', 'ü'.repeat(256 * 1024 + 1))], /larger/],
    ['a name with a space', [file('my policy.yaml', '')], /"my policy.yaml" cannot be a key/],
    ['a name that is too long', [file(`${'x'.repeat(250)}.yaml`, '')], /cannot be a key/],
    ['a name that a volume uses itself', [file('..data', '')], /cannot be a key/],
    ['two of a name', [file('a.yaml', ''), file('a.yaml', '')], /two files/],
    ['__proto__', [file('__proto__', 'x')], null],
  ];
  for (const [name, files, message] of rows) {
    const made = policyConfigMap(metadata, files);
    if (message === null) t.ok('yaml' in made, name);
    else t.match('problem' in made ? made.problem : made, { severity: 'error', code: 'config-map', message }, name);
  }
});

t.test('a PodMonitor selects by the annotation that inject writes', async (t) => {
  const { metadata, spec } = parse(podMonitor({ name: 'sallyport', namespace: 'shop' }));
  t.same(metadata, { name: 'sallyport', namespace: 'shop' });
  const [{ port, relabelings }] = spec.podMetricsEndpoints;
  t.equal(port, 'linkerd-admin');
  t.same(relabelings[0].sourceLabels, ['__meta_kubernetes_pod_annotation_sallyport_dev_injected']);
});
