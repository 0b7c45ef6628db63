import t from 'tap';
import { runScenarios, stage, statuses } from '../../../support/lane-stage.ts';
import { latin1 } from '../../../support/raw-http.ts';
import { until } from '../../../support/until.ts';

// Requests that Linkerd refuses and that are read here; README lists them. Each goes on as it came, but for the blanks.

const rows: readonly (readonly [title: string, line: string, fields: string])[] = [
  ['`<` and `>` in a path', 'GET /<b>', ''],
  ['a backquote in a path', 'GET /a`b', ''],
  ['quotes, `<` and `>` in a query', 'GET /?q={"a":<1>}', ''],
  ['two blanks before the target', 'GET  /two', ''],
  ['two blanks behind the target', 'GET /two ', ''],
  ['more than 100 fields', 'GET /fields', 'X: 1\r\n'.repeat(101)],
];

await runScenarios(t, [
  {
    name: 'wider than Linkerd',
    run: async (t, engine) => {
      const { open, app } = await stage(t, engine);
      for (const [title, line, fields] of rows) {
        const client = await open();
        client.send(latin1(`${line} HTTP/1.1\r\nHost: a\r\n${fields}\r\n`));
        await until(`${title}: a response`, () => statuses(client, ['GET']).length > 0);
        t.same(statuses(client, ['GET']), [200], title);
        t.equal(app.requests.at(-1)?.target, line.replace(/^GET +/, '').trim(), title);
        client.destroy();
      }
    },
  },
]);
