/**
 * A random writer turns one policy into another: truncations, pieces, renames, names that are away for a while, times of
 * its own choosing. Whatever is in force in between, nobody is let in whom neither policy lets in, and in the end the new
 * one is in force, in bounded time. Files are real; time is not, so that hours of pauses take minutes.
 */
import { appendFileSync, mkdirSync, renameSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import t from 'tap';
import { type IpAddress, parseIp } from '../../lib/ip.ts';
import { createAuthorizer } from '../../lib/policy/authorizer.ts';
import { compileNow, type PolicyIndex } from '../../lib/policy/compile/compile.ts';
import { explain } from '../../lib/policy/explain.ts';
import { loadPolicy, loadPolicyNow } from '../../lib/reload/load.ts';
import { lookNow } from '../../lib/reload/look.ts';
import type { PolicyWorld } from '../../lib/reload/policy-disk.ts';
import { createPolicySource } from '../../lib/reload/policy-source.ts';
import { temporaryFolder } from '../support/files.ts';
import { workload } from '../support/policy-fixtures.ts';
import { search, timeLimitMs } from './budget.ts';

const pod = workload({ defaultPolicy: 'all-unauthenticated', probes: new Map() });
const beta3 = 'policy.linkerd.io/v1beta3';

const server = (name: string, port: number, access: string): string => `---
apiVersion: ${beta3}
kind: Server
metadata: {name: ${name}}
spec:
  podSelector: {matchLabels: {app: web}}
  port: ${port}
  accessPolicy: ${access}
`;
const route = (name: string, path: string): string => `---
apiVersion: ${beta3}
kind: HTTPRoute
metadata: {name: ${name}}
spec:
  parentRefs: [{group: policy.linkerd.io, kind: Server, name: web}]
  rules:
    - matches:
        - path: {value: ${path}}
`;
const grant = (name: string, target: string): string => `---
apiVersion: policy.linkerd.io/v1alpha1
kind: AuthorizationPolicy
metadata: {name: ${name}}
spec:
  targetRef: {group: policy.linkerd.io, ${target}}
  requiredAuthenticationRefs: []
`;
const isolation = (cidr: string): string => `---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: np}
spec:
  podSelector: {}
  ingress:
    - from:
        - ipBlock:
            cidr: ${cidr}
`;

/** Some of each: names come again, so that one policy may change what the other says. */
const pool: readonly (readonly string[])[] = [
  ['deny', 'all-unauthenticated', 'cluster-unauthenticated'].map((access) => server('web', 8080, access)),
  ['deny', 'all-unauthenticated'].map((access) => server('api', 9000, access)),
  ['/admin', '/'].map((path) => route('admin', path)),
  [route('public', '/public')],
  [grant('g', 'kind: Server, name: web'), grant('g', 'kind: HTTPRoute, name: admin')],
  [grant('h', 'kind: HTTPRoute, name: public')],
  ['10.0.0.0/8', '10.20.0.0/16'].map(isolation),
];
const documents = fc
  .tuple(...pool.map((some) => fc.option(fc.constantFrom(...some), { nil: '', freq: 3 })))
  .map((chosen) => chosen.filter((text) => text !== ''))
  .filter((chosen) => chosen.length > 0)
  .chain((chosen) => fc.shuffledSubarray(chosen, { minLength: chosen.length }))
  .map((chosen) => chosen.join(''));

/** Shorter than files are given to settle, and than what is gone is given to come back. */
const shortMs = fc.integer({ min: 0, max: 1_400 });
const awayMs = fc.integer({ min: 0, max: 4_000 });

const prelude = fc.array(
  fc.oneof(
    fc.record({ kind: fc.constant('truncate' as const), ms: awayMs }),
    fc.record({ kind: fc.constant('away' as const), ms: awayMs }),
    fc.record({ kind: fc.constant('neighbour away' as const), ms: awayMs }),
    fc.record({ kind: fc.constant('touch' as const), ms: shortMs, at: fc.constantFrom(0, 1e9, 4e9, 9e9) }),
    fc.record({
      kind: fc.constant('rubbish' as const),
      ms: shortMs,
      text: fc.constantFrom('# no\n', 'a: [', '---\n', 'null\n'),
    }),
    fc.record({ kind: fc.constant('part' as const), ms: shortMs, share: fc.double({ min: 0, max: 1, noNaN: true }) }),
  ),
  { maxLength: 4 },
);
const ending = fc.oneof(
  fc.record({ kind: fc.constant('rename' as const) }),
  fc.record({
    kind: fc.constant('write' as const),
    cuts: fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 4 }),
    ms: shortMs,
  }),
  fc.record({
    kind: fc.constant('anew' as const),
    cuts: fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 4 }),
    ms: shortMs,
  }),
  fc.record({ kind: fc.constant('remove' as const) }),
);

/** Who is let in: everybody who may ask here, by name. */
const probes = ['10.20.0.5', '10.99.0.1', '203.0.113.9', '127.0.0.1'].flatMap((from) =>
  [8080, 9000, 9001].flatMap((port) =>
    ['/', '/admin', '/public', '/x/../admin'].map((path) => ({ port, path, ip: parseIp(from) as IpAddress })),
  ),
);
function letIn(index: PolicyIndex): Set<number> {
  const authorizer = createAuthorizer({ nowMs: () => 0 });
  authorizer.swap(index);
  return new Set(probes.flatMap((query, i) => (explain(authorizer, query).verdict === 'permit' ? [i] : [])));
}

/** Time goes on only when the driver says so. */
class Clock {
  nowMs = 0;
  #sleeping: { readonly atMs: number; readonly wake: () => void }[] = [];
  running = false;

  sleep(ms: number): Promise<void> {
    return new Promise((wake) => this.#sleeping.push({ atMs: this.nowMs + ms, wake }));
  }

  /** Lets everything happen that happens within so many milliseconds. */
  async pass(ms: number): Promise<void> {
    const endMs = this.nowMs + ms;
    for (;;) {
      while (this.running && this.#sleeping.length === 0) await new Promise((resolve) => setImmediate(resolve));
      const next = this.#sleeping.sort((a, b) => a.atMs - b.atMs)[0];
      if (next === undefined || next.atMs > endMs) break;
      this.#sleeping.shift();
      this.nowMs = next.atMs;
      next.wake();
      await new Promise((resolve) => setImmediate(resolve));
    }
    this.nowMs = endMs;
  }

  wakeAll(): void {
    for (const { wake } of this.#sleeping.splice(0)) wake();
  }
}

t.setTimeout(timeLimitMs);
t.test('never wider than both, and in the end the newest', { timeout: timeLimitMs }, async (t) => {
  const root = temporaryFolder(t);
  let runs = 0;
  let swapsBetween = 0;
  const property = fc.asyncProperty(
    documents,
    documents,
    documents,
    prelude,
    ending,
    async (before, after, other, steps, end) => {
      const folder = join(root, String(runs++));
      mkdirSync(folder);
      const file = join(folder, 'p.yaml');
      const neighbour = join(folder, 'q.yaml');
      // The neighbour's names are its own, that neither replaces the other's.
      writeFileSync(neighbour, other.replace(/name: (api|np)\b/g, 'name: q$1'));
      writeFileSync(file, before);
      const clock = new Clock();
      /** Put there by a rename, and not written to since. */
      const whole = new Set<string>();
      const world: PolicyWorld = {
        nowMs: () => clock.nowMs,
        delay: (ms) => clock.sleep(ms),
        look: async () => lookNow(folder),
        load: async (request, known) => loadPolicy({ ...request, paths: [folder] }, known),
        abandon() {},
        watch() {},
        whole: (name) => whole.has(name),
        async stop() {
          clock.wakeAll();
        },
      };
      const inForce: PolicyIndex[] = [];
      const source = createPolicySource({
        path: folder,
        world,
        workload: () => pod,
        swap: (index) => void inForce.push(index),
        onProblems() {},
        onLoaded() {},
        onFailed() {},
        log: { warn() {} },
      });
      const reload = (): void => {
        clock.running = true;
        void source.reload().finally(() => {
          clock.running = false;
        });
      };
      const write = async (parts: readonly string[], ms: number): Promise<void> => {
        whole.delete(file);
        for (const [i, part] of parts.entries()) {
          if (i === 0) writeFileSync(file, part);
          else appendFileSync(file, part);
          reload();
          if (i < parts.length - 1) await clock.pass(ms);
        }
      };
      const away = async (name: string, ms: number): Promise<void> => {
        renameSync(name, `${folder}.away`);
        reload();
        await clock.pass(ms);
        renameSync(`${folder}.away`, name);
        whole.add(name);
        reload();
      };
      try {
        await source.start();
        const first = inForce.length === 1 ? letIn(inForce[0] as PolicyIndex) : null;
        if (first === null) return;
        for (const step of steps) {
          if (step.kind === 'truncate') await write([''], 0);
          else if (step.kind === 'rubbish') await write([step.text], 0);
          else if (step.kind === 'part') await write([after.slice(0, Math.floor(step.share * after.length))], 0);
          else if (step.kind === 'touch') utimesSync(file, step.at, step.at);
          if (step.kind === 'away') {
            // Whole when it comes back only if it was whole when it went.
            writeFileSync(file, before);
            await away(file, step.ms);
          } else if (step.kind === 'neighbour away') await away(neighbour, step.ms);
          else await clock.pass(step.ms);
          reload();
        }
        const partsOf = (cuts: readonly number[]): string[] => {
          const places = [0, ...cuts.map((cut) => Math.floor(cut * after.length)).sort((a, b) => a - b), after.length];
          return places.slice(1).map((place, i) => after.slice(places[i], place));
        };
        if (end.kind === 'rename') {
          writeFileSync(`${folder}.draft`, after);
          renameSync(`${folder}.draft`, file);
          whole.add(file);
        } else if (end.kind === 'write') await write(['', ...partsOf(end.cuts)], end.ms);
        else if (end.kind === 'anew') {
          rmSync(file);
          reload();
          await clock.pass(end.ms);
          await write(['', ...partsOf(end.cuts)], end.ms);
        } else rmSync(file);
        reload();
        await clock.pass(16_000);

        const load = loadPolicyNow({ paths: [folder], namespace: pod.namespace });
        const last = letIn(compileNow(load.documents, pod).index);
        for (const [i, index] of inForce.entries()) {
          const wider = [...letIn(index)].filter((probe) => !first.has(probe) && !last.has(probe));
          if (wider.length > 0) throw new Error(`policy ${i} lets in ${JSON.stringify(probes[wider[0] as number])}`);
        }
        swapsBetween += inForce.length;
        const now = letIn(inForce.at(-1) as PolicyIndex);
        if ([...now].join() !== [...last].join()) throw new Error('the newest policy is not in force');
      } finally {
        await source.stop();
        rmSync(folder, { recursive: true, force: true });
      }
    },
  );
  t.equal(await search(property, 1), null);
  t.ok(swapsBetween > runs, `${runs} writers, ${swapsBetween} policies in force`);
});
