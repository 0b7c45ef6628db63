import { z } from 'zod';

/**
 * The API server's opinion of a pod, as far as an injection touches it: shapes, and the rules that no shape can say.
 * Written from the API reference (core/v1) and independent of lib/deploy, which it judges.
 */

const dnsLabel = z.string().regex(/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/);
const dnsSubdomain = z
  .string()
  .max(253)
  .regex(/^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/);
/** IANA_SVC_NAME: at most 15 characters, a letter among them, no two hyphens in a row. */
const portName = z
  .string()
  .max(15)
  .regex(/^(?!.*--)(?=.*[a-z])[a-z0-9]([-a-z0-9]*[a-z0-9])?$/);
const portNumber = z.int().min(1).max(65535);
const quantity = z.string().regex(/^[+-]?(\d+|\d+\.\d*|\.\d+)(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|[eE][+-]?\d+)?$/);
const envName = z.string().regex(/^[-._a-zA-Z][-._a-zA-Z0-9]*$/);

const probe = z
  .strictObject({
    httpGet: z
      .strictObject({
        path: z.string().optional(),
        port: z.union([portNumber, z.string()]),
        host: z.string().optional(),
        scheme: z.enum(['HTTP', 'HTTPS']).optional(),
      })
      .optional(),
    tcpSocket: z.strictObject({ port: z.union([portNumber, z.string()]) }).optional(),
    grpc: z.strictObject({ port: portNumber, service: z.string().optional() }).optional(),
    exec: z.strictObject({ command: z.array(z.string()) }).optional(),
    initialDelaySeconds: z.int().min(0).optional(),
    periodSeconds: z.int().min(1).optional(),
    timeoutSeconds: z.int().min(1).optional(),
    successThreshold: z.int().min(1).optional(),
    failureThreshold: z.int().min(1).optional(),
  })
  .refine((own) => [own.httpGet, own.tcpSocket, own.grpc, own.exec].filter(Boolean).length === 1, 'one handler');

const securityContext = z
  .strictObject({
    allowPrivilegeEscalation: z.boolean().optional(),
    capabilities: z
      .strictObject({ add: z.array(z.string()).optional(), drop: z.array(z.string()).optional() })
      .optional(),
    privileged: z.boolean().optional(),
    readOnlyRootFilesystem: z.boolean().optional(),
    runAsGroup: z.int().min(0).optional(),
    runAsNonRoot: z.boolean().optional(),
    runAsUser: z.int().min(0).optional(),
    seccompProfile: z.strictObject({ type: z.enum(['RuntimeDefault', 'Unconfined', 'Localhost']) }).optional(),
  })
  .refine(({ runAsNonRoot, runAsUser }) => !(runAsNonRoot && runAsUser === 0), 'root that is not to be root')
  .refine((own) => !(own.privileged && own.allowPrivilegeEscalation === false), 'privileged without escalation');

const resourceList = z.partialRecord(z.enum(['cpu', 'memory', 'ephemeral-storage']), quantity);

const container = z.strictObject({
  name: dnsLabel,
  image: z.string().min(1),
  imagePullPolicy: z.enum(['Always', 'IfNotPresent', 'Never']).optional(),
  command: z.array(z.string()).optional(),
  args: z.array(z.string()).optional(),
  restartPolicy: z.literal('Always').optional(),
  env: z
    .array(
      z
        .strictObject({
          name: envName,
          value: z.string().optional(),
          valueFrom: z
            .strictObject({
              fieldRef: z.strictObject({
                // What the downward API offers to variables.
                fieldPath: z.enum([
                  'metadata.name',
                  'metadata.namespace',
                  'metadata.uid',
                  'spec.nodeName',
                  'spec.serviceAccountName',
                  'status.hostIP',
                  'status.podIP',
                  'status.podIPs',
                ]),
              }),
            })
            .optional(),
        })
        .refine(({ value, valueFrom }) => value === undefined || valueFrom === undefined, 'value or valueFrom'),
    )
    .optional(),
  envFrom: z.array(z.unknown()).optional(),
  ports: z
    .array(
      z.strictObject({
        name: portName.optional(),
        containerPort: portNumber,
        hostPort: portNumber.optional(),
        protocol: z.enum(['TCP', 'UDP', 'SCTP']).optional(),
      }),
    )
    .optional(),
  startupProbe: probe.optional(),
  readinessProbe: probe.optional(),
  livenessProbe: probe.optional(),
  resources: z.strictObject({ requests: resourceList.optional(), limits: resourceList.optional() }).optional(),
  securityContext: securityContext.optional(),
  volumeMounts: z
    .array(
      z.strictObject({
        name: dnsLabel,
        mountPath: z.string().regex(/^[^:]+$/),
        readOnly: z.boolean().optional(),
        subPath: z.string().optional(),
      }),
    )
    .optional(),
});
type Container = z.infer<typeof container>;

const volume = z
  .strictObject({
    name: dnsLabel,
    configMap: z.strictObject({ name: dnsSubdomain, optional: z.boolean().optional() }).optional(),
    secret: z.strictObject({ secretName: dnsSubdomain, optional: z.boolean().optional() }).optional(),
    emptyDir: z.strictObject({ medium: z.enum(['', 'Memory']).optional(), sizeLimit: quantity.optional() }).optional(),
    hostPath: z.strictObject({ path: z.string(), type: z.string().optional() }).optional(),
    downwardAPI: z
      .strictObject({
        items: z.array(
          z.strictObject({
            path: z.string().regex(/^[^/][^:]*$/),
            // What the downward API offers to files.
            fieldRef: z.strictObject({
              fieldPath: z.enum(['metadata.name', 'metadata.namespace', 'metadata.labels', 'metadata.annotations']),
            }),
          }),
        ),
      })
      .optional(),
  })
  .refine(({ name: _, ...sources }) => Object.keys(sources).length === 1, 'one source');

const qualifiedName = /^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?\/)?[A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?$/;
const pod = z.looseObject({
  metadata: z
    .looseObject({
      annotations: z
        .record(z.string().regex(qualifiedName), z.string())
        .refine((all) => Buffer.byteLength(Object.entries(all).flat().join('')) <= 256 * 1024, 'at most 256 KiB')
        .nullish(),
      labels: z.record(z.string().regex(qualifiedName), z.string()).nullish(),
    })
    .nullish(),
  spec: z.looseObject({
    containers: z.array(container).min(1),
    initContainers: z.array(container).nullish(),
    volumes: z.array(volume).nullish(),
  }),
});
export type Pod = z.infer<typeof pod>;

/** Everything that the API server would refuse; empty for a valid pod. `claims`: volumes that claim templates bring. */
export function podFaults(value: unknown, claims: readonly string[] = []): string[] {
  const parsed = pod.safeParse(value);
  if (!parsed.success) return parsed.error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`);
  const { containers, initContainers, volumes } = parsed.data.spec;
  const faults: string[] = [];
  const unique = (what: string, names: readonly string[]): void => {
    for (const [index, name] of names.entries()) if (names.indexOf(name) < index) faults.push(`${what} ${name} twice`);
  };
  const all = [...(initContainers ?? []), ...containers];
  unique(
    'container',
    all.map(({ name }) => name),
  );
  unique(
    'volume',
    (volumes ?? []).map(({ name }) => name),
  );
  const known = new Set([...(volumes ?? []).map(({ name }) => name), ...claims]);
  for (const own of all) {
    const at = (what: string): string => `${own.name}: ${what}`;
    const ports = own.ports ?? [];
    unique(
      at('port name'),
      ports.flatMap(({ name }) => name ?? []),
    );
    unique(
      at('variable'),
      (own.env ?? []).map(({ name }) => name),
    );
    unique(
      at('mount path'),
      (own.volumeMounts ?? []).map(({ mountPath }) => mountPath),
    );
    for (const mount of own.volumeMounts ?? []) if (!known.has(mount.name)) faults.push(at(`no volume ${mount.name}`));
    const { requests = {}, limits = {} } = own.resources ?? {};
    for (const resource of ['cpu', 'memory'] as const) {
      const [wanted, most] = [requests[resource], limits[resource]];
      if (wanted !== undefined && most !== undefined && amount(wanted) > amount(most)) {
        faults.push(at(`requests more ${resource} than its limit`));
      }
    }
    faults.push(...probeFaults(own, !containers.includes(own)).map(at));
    if (containers.includes(own) && own.restartPolicy !== undefined) faults.push(at('restartPolicy'));
  }
  return faults;
}

function probeFaults(own: Container, isInit: boolean): string[] {
  return (['startupProbe', 'readinessProbe', 'livenessProbe'] as const).flatMap((kind) => {
    const found = own[kind];
    if (found === undefined) return [];
    // Only a native sidecar among the init containers may have probes.
    if (isInit && own.restartPolicy === undefined) return [`${kind} on an init container`];
    const port = found.httpGet?.port ?? found.tcpSocket?.port;
    const named = typeof port === 'string' && !(own.ports ?? []).some(({ name }) => name === port.toLowerCase());
    const success = kind !== 'readinessProbe' && (found.successThreshold ?? 1) !== 1;
    return [...(named ? [`${kind} names no port: ${port}`] : []), ...(success ? [`${kind}.successThreshold`] : [])];
  });
}

function amount(text: string): number {
  const [, number = '', unit = ''] = /^([\d.]+)(\w*)$/.exec(text) ?? [];
  const binary = ['Ki', 'Mi', 'Gi', 'Ti'].indexOf(unit);
  if (binary >= 0) return Number(number) * 1024 ** (binary + 1);
  const decimal = ['k', 'M', 'G', 'T'].indexOf(unit);
  return Number(number) * (unit === 'm' ? 0.001 : decimal >= 0 ? 1000 ** (decimal + 1) : 1);
}
