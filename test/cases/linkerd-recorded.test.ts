/**
 * What the real linkerd2-proxy and its policy controller decided, recorded on the wire, against our own decisions on the
 * same documents. Never wider; and where otherwise, for a reason that has its row in the README.
 */
import t from 'tap';
import type { ExplainJson } from '../../lib/policy/explain.ts';
import { forAllCases } from '../support/cases.ts';
import {
  knownDifferences,
  type RecordedCheck,
  type RecordedDecision,
  readRecordedWorlds,
  recordedDecision,
} from '../support/linkerd-cases.ts';
import { isSame, isWider, load, name } from '../support/linkerd-worlds.ts';
import { table } from '../support/readme-page.ts';

await forAllCases(t, readRecordedWorlds(), async (t, worlds, whose) => {
  const seen = new Map<string, number>();
  let checks = 0;
  for (const world of worlds) {
    await t.test(world.title ?? world.id, async (t) => {
      const faults: string[] = [];
      const { ask, unrefused } = load(world);
      t.same(unrefused, [], 'what the API server or the webhook refused is refused');
      for (const check of world.checks) {
        checks++;
        if (check.request.dst_ip !== undefined) continue;
        const answer = ask(check);
        const wanted = recordedDecision(check);
        if (isSame(wanted, answer)) continue;
        const known = isWider(wanted, answer) ? undefined : knownDifferences.find(({ is }) => is(check, answer));
        if (known === undefined) faults.push(describe(check, wanted, answer));
        else seen.set(known.row, (seen.get(known.row) ?? 0) + 1);
      }
      t.same(faults, []);
    });
  }
  t.ok(checks >= (whose === 'own' ? 13 : 1_848), `${checks} checks`);
  await t.test('the differences', async (t) => {
    const rows = table('Deliberate differences from Linkerd', 'here').map((cells) => cells.join(' | '));
    for (const { row } of knownDifferences) {
      if (whose === 'shared') t.ok(seen.has(row), `"${row}" occurs: ${seen.get(row) ?? 0}`);
      t.ok(
        rows.some((cells) => cells.includes(row)),
        `"${row}" is a row of the README`,
      );
    }
  });
});

function describe(
  { id, client, request, linkerd }: RecordedCheck,
  wanted: RecordedDecision,
  answer: ExplainJson,
): string {
  const { verdict, server, route, authz, reason } = answer;
  const ours = { verdict, server: name(server), route: name(route), authz: name(authz), reason };
  return `${id}: ${JSON.stringify({ client, request, outcome: linkerd.outcome, wanted, ours })}`;
}
