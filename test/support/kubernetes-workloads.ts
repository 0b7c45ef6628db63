/*
 * Workloads as people write them: every kind that holds a pod, and every part of a pod that a sidecar could get in the way
 * of. test/e2e/kubernetes/ has the API server judge them before and after an injection.
 */

export interface WorkloadRow {
  readonly name: string;
  readonly text: string;
  /** The problems that inject is to warn of, as long as it redirects. */
  readonly warns?: readonly string[];
}

const app = `      containers:
        - name: app
          image: app:1
`;

/** A kind that makes pods of a template. `spec` stands four columns in, `pod` six; both end in a line end. */
function made(kind: string, pod: string, more: { readonly spec?: string } = {}): string {
  const [group, version] = kind === 'Job' ? ['batch', 'v1'] : ['apps', 'v1'];
  const selector = kind === 'Job' ? '' : '  selector: {matchLabels: {app: web}}\n';
  return `apiVersion: ${group}/${version}
kind: ${kind}
metadata: {name: web}
spec:
${selector}${more.spec ?? ''}  template:
    metadata:
      labels: {app: web}
    spec:
${pod}`;
}

const deployment = (pod: string): string => made('Deployment', pod);
/** The fields of the only container, twelve columns in from the list, after its image. */
const container = (fields: string): string => deployment(`${app}${fields}`);

const kinds: readonly WorkloadRow[] = [
  {
    name: 'Pod',
    text: 'apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\nspec:\n  containers:\n  - {name: app, image: app:1}\n',
  },
  {
    name: 'Pod, its name generated',
    text: 'apiVersion: v1\nkind: Pod\nmetadata: {generateName: web-}\nspec: {containers: [{name: app, image: app:1}]}\n',
  },
  {
    name: 'Pod, in JSON',
    text: '{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"},"spec":{"containers":[{"name":"app","image":"app:1"}]}}',
  },
  { name: 'Deployment', text: deployment(app) },
  {
    name: 'StatefulSet, with claims',
    text: made('StatefulSet', `${app}          volumeMounts: [{name: data, mountPath: /data}]\n`, {
      spec: `  serviceName: web
  volumeClaimTemplates:
    - metadata: {name: data}
      spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
`,
    }),
  },
  {
    name: 'DaemonSet, on every node',
    text: made(
      'DaemonSet',
      `${app}          volumeMounts: [{name: logs, mountPath: /logs, readOnly: true}]
      tolerations: [{operator: Exists}]
      volumes:
        - name: logs
          hostPath: {path: /var/log, type: Directory}
`,
    ),
  },
  { name: 'ReplicaSet', text: made('ReplicaSet', app) },
  {
    name: 'ReplicationController',
    text: `apiVersion: v1
kind: ReplicationController
metadata: {name: web}
spec:
  selector: {app: web}
  template:
    metadata: {labels: {app: web}}
    spec:
${app}`,
  },
  {
    name: 'Job, indexed, with a failure policy',
    text: made('Job', `${app}      restartPolicy: Never\n`, {
      spec: `  completions: 2
  completionMode: Indexed
  backoffLimitPerIndex: 1
  podFailurePolicy:
    rules:
      - action: FailJob
        onExitCodes: {containerName: app, operator: In, values: [42]}
`,
    }),
  },
  {
    name: 'CronJob, in a time zone',
    text: `apiVersion: batch/v1
kind: CronJob
metadata: {name: web}
spec:
  schedule: "0 3 * * *"
  timeZone: Europe/Berlin
  jobTemplate:
    spec:
      template:
        spec:
          restartPolicy: OnFailure
          containers:
          - name: app
            image: app:1
`,
  },
  {
    name: 'PodTemplate',
    text: `apiVersion: v1\nkind: PodTemplate\nmetadata: {name: web}\ntemplate:\n  spec:\n    containers: [{name: app, image: app:1}]\n`,
  },
  {
    name: 'List',
    text: `apiVersion: v1
kind: List
items:
  - apiVersion: v1
    kind: Pod
    metadata: {name: first}
    spec:
      containers:
        - {name: app, image: app:1}
  - apiVersion: v1
    kind: ConfigMap
    metadata: {name: web}
    data: {a: b}
  - apiVersion: v1
    kind: Pod
    metadata: {name: second}
    spec:
      containers:
        - {name: app, image: app:1}
`,
  },
  {
    name: 'several documents',
    text: `# A Service, then what it serves.
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: http}]}
---
${deployment(`${app}          ports: [{name: http, containerPort: 8080}]\n`)}---
${made('StatefulSet', app, { spec: '  serviceName: web\n' })}`,
  },
];

const containers: readonly WorkloadRow[] = [
  {
    name: 'init containers and a native sidecar of its own',
    text: deployment(`      initContainers:
        - name: migrate
          image: migrate:1
        - name: logs
          image: logs:1
          restartPolicy: Always
          startupProbe: {exec: {command: [ready]}}
${app}`),
  },
  {
    name: 'probes of every kind',
    text: container(`          ports: [{name: http, containerPort: 8080}, {name: grpc, containerPort: 9000}]
          startupProbe: {httpGet: {path: /started, port: http, scheme: HTTPS}, failureThreshold: 30}
          readinessProbe: {grpc: {port: 9000, service: ready}}
          livenessProbe: {tcpSocket: {port: grpc}, terminationGracePeriodSeconds: 5}
        - name: other
          image: other:1
          livenessProbe: {httpGet: {path: /healthz, port: 8081, httpHeaders: [{name: X-Probe, value: "1"}]}}
          readinessProbe: {exec: {command: [sh, -c, "true"]}}
`),
  },
  {
    name: 'lifecycle hooks',
    text: container(`          lifecycle:
            postStart: {httpGet: {path: /poststart, port: 8080}}
            preStop: {sleep: {seconds: 5}}
        - name: other
          image: other:1
          lifecycle:
            postStart: {exec: {command: [started]}}
            preStop: {httpGet: {path: /bye, port: 8081}}
`),
  },
  {
    name: 'ports named as ours would be',
    text: container(`          ports: [{name: health, containerPort: 8080}, {name: health-2, containerPort: 8081}]
          readinessProbe: {httpGet: {path: /ready, port: health}}
`),
  },
  {
    name: 'ports of every protocol, on the node too',
    text: container(`          ports:
            - {name: dns, containerPort: 53, protocol: UDP}
            - {name: dns-tcp, containerPort: 53, protocol: TCP, hostPort: 53}
            - {name: sctp, containerPort: 4143, protocol: SCTP}
`),
    warns: ['unguarded-port', 'unguarded-port'],
  },
  {
    name: 'variables from everywhere',
    text: container(`          env:
            - {name: A, value: "$(B) $$"}
            - {name: B, valueFrom: {fieldRef: {fieldPath: "metadata.labels['app']"}}}
            - {name: C, valueFrom: {resourceFieldRef: {resource: limits.cpu}}}
            - {name: D, valueFrom: {secretKeyRef: {name: d, key: d, optional: true}}}
          envFrom: [{configMapRef: {name: e}}, {prefix: F_, secretRef: {name: f}}]
`),
  },
  {
    name: 'resizing and restarts of its own',
    text: container(`          resizePolicy: [{resourceName: cpu, restartPolicy: NotRequired}, {resourceName: memory, restartPolicy: RestartContainer}]
          resources: {requests: {cpu: 10m}}
          terminationMessagePolicy: FallbackToLogsOnError
          tty: true
          stdin: true
`),
  },
  {
    name: 'a debugger and a shared process namespace',
    text: deployment(
      `      shareProcessNamespace: true\n${app}          securityContext: {capabilities: {add: [SYS_PTRACE]}}\n`,
    ),
  },
  {
    name: 'privileges',
    warns: ['may-unguard'],
    text: container('          securityContext: {privileged: true}\n'),
  },
];

const pods: readonly WorkloadRow[] = [
  {
    name: 'volumes of every kind',
    text: deployment(`      volumes:
        - name: all
          projected:
            sources:
              - serviceAccountToken: {path: token, audience: vault, expirationSeconds: 600}
              - configMap: {name: a, optional: true}
              - secret: {name: b, items: [{key: c, path: d}]}
              - downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}]}
        - {name: scratch, emptyDir: {sizeLimit: 1Gi}}
        - name: claimed
          ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}}
        - {name: files, image: {reference: "files:1", pullPolicy: IfNotPresent}}
${app}          volumeMounts:
            - {name: all, mountPath: /all, readOnly: true}
            - {name: scratch, mountPath: /tmp, subPath: tmp}
            - {name: claimed, mountPath: /data}
            - {name: files, mountPath: /files, readOnly: true}
`),
  },
  {
    name: 'a ServiceAccount of its own',
    text: deployment(`      serviceAccountName: robot\n      automountServiceAccountToken: false\n${app}`),
  },
  { name: 'a ServiceAccount by the former field', text: deployment(`      serviceAccount: robot\n${app}`) },
  { name: 'a RuntimeClass, with overhead', text: deployment(`      runtimeClassName: sandboxed\n${app}`) },
  { name: 'a priority', text: deployment(`      priorityClassName: important\n      preemptionPolicy: Never\n${app}`) },
  {
    name: 'where it may run',
    text: deployment(`      nodeSelector: {kubernetes.io/os: linux}
      schedulerName: other
      affinity:
        podAntiAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            - {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: web}}}
      topologySpreadConstraints:
        - {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: web}}}
      schedulingGates: [{name: example.com/wait}]
      os: {name: linux}
${app}`),
  },
  {
    name: 'names and addresses of its own',
    text: deployment(`      hostname: web
      subdomain: web
      setHostnameAsFQDN: true
      hostAliases: [{ip: 192.0.2.1, hostnames: [db]}]
      dnsPolicy: None
      dnsConfig: {nameservers: [192.0.2.53], searches: [shop.svc], options: [{name: ndots, value: "1"}]}
      readinessGates: [{conditionType: example.com/ready}]
${app}`),
  },
  { name: 'users of its own', text: deployment(`      hostUsers: false\n${app}`) },
  {
    name: 'no time to end',
    text: deployment(`      terminationGracePeriodSeconds: 0\n      activeDeadlineSeconds: 60\n${app}`).replace(
      '      activeDeadlineSeconds: 60\n',
      '',
    ),
  },
  { name: 'pull secrets of its own', text: deployment(`      imagePullSecrets:\n        - name: mine\n${app}`) },
  {
    name: 'everything that restricted asks for',
    text: deployment(`      securityContext:
        runAsNonRoot: true
        runAsUser: 1000
        fsGroup: 1000
        fsGroupChangePolicy: OnRootMismatch
        supplementalGroups: [2000]
        seccompProfile: {type: RuntimeDefault}
${app}          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities: {drop: [ALL]}
            appArmorProfile: {type: RuntimeDefault}
            seLinuxOptions: {level: "s0:c1,c2"}
`),
  },
  {
    name: 'resources of the pod, requests and limits',
    text: deployment(
      `      resources: {requests: {cpu: 100m, memory: 64Mi}, limits: {cpu: 100m, memory: 64Mi}}\n${app}`,
    ),
  },
  {
    name: 'resources of the pod, limits alone, and a container with all of them',
    text: deployment(`      resources: {limits: {cpu: 200m, memory: 64Mi}}
${app}          resources: {requests: {cpu: 200m, memory: 64Mi}, limits: {cpu: 200m, memory: 64Mi}}
`),
  },
  {
    name: 'of the class Guaranteed',
    text: container('          resources: {requests: {cpu: "1", memory: 1Gi}, limits: {cpu: "1", memory: 1Gi}}\n'),
  },
  {
    name: 'devices',
    text: deployment(`      volumes: [{name: disk, persistentVolumeClaim: {claimName: disk}}]
      resourceClaims: [{name: gpu, resourceClaimTemplateName: gpu}]
${app}          volumeDevices: [{name: disk, devicePath: /dev/xvda}]
          resources: {claims: [{name: gpu}]}
`),
  },
  {
    name: 'anchors, empty places and comments',
    text: `apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: &labels {app: web}}
spec:
  selector: {matchLabels: *labels}
  template:
    metadata:
      labels: *labels
      annotations: {}  # none
    spec:
      initContainers: []   # none
      volumes: null
      imagePullSecrets:
      containers:
        - name: app   # the app
          image: app:1
`,
  },
];

/** Each is accepted as it is, and must be after an injection. */
export const acceptable: readonly WorkloadRow[] = [...kinds, ...containers, ...pods];
