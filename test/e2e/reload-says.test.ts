import { join } from 'node:path';
import t from 'tap';
import { replaceFile, temporaryFolder } from '../support/files.ts';
import { scrape } from '../support/metrics.ts';
import { openAdmin, openServer, policyEnvironment } from '../support/open-policy.ts';
import { freePorts } from '../support/ports.ts';
import { startSallyport } from '../support/sallyport.ts';
import { until } from '../support/until.ts';

t.setTimeout(900_000);

t.test('a reload says what is different, and for whom; nothing where nothing is', async (t) => {
  const home = temporaryFolder(t);
  const [web = 0, other = 0] = await freePorts(2);
  const documents = openServer('web', web);
  const sallyport = await startSallyport(t, {
    env: { ...policyEnvironment(home, documents), SALLYPORT_INBOUND_PORTS: `${web}=127.0.0.1:9` },
  });
  const loads = () => sallyport.logs().filter(({ msg }) => msg === 'Policy loaded');
  const generation = async (wanted: number): Promise<void> => {
    const now = async () => (await scrape(sallyport.adminPort)).sum('sallyport_policy_generation');
    await until(`generation ${wanted}`, async () => (await now()) === wanted);
  };
  const write = (text: string): void => replaceFile(join(home, 'policy', 'policy.yaml'), text + openAdmin);
  t.notOk('added' in (loads()[0] ?? {}), 'at the start all is new');

  write(documents + openServer('other', other));
  await generation(2);
  const added = await sallyport.waitForLog('the second load', ({ generation }) => generation === 2);
  t.match(added, {
    msg: 'Policy loaded',
    added: ['Server shop/other', 'AuthorizationPolicy shop/other'],
    removed: [],
    changed: [],
    affects: [`port ${other} (policy.linkerd.io/server/other in place of /default/deny)`],
  });

  write(`# a comment\n${documents}${openServer('other', other)}`);
  await generation(3);
  write(openServer('web', web, 'HTTP/1') + openServer('other', other));
  await generation(4);
  t.match(await sallyport.waitForLog('the fourth load', ({ generation }) => generation === 4), {
    added: [],
    removed: [],
    changed: ['Server shop/web'],
    affects: [`port ${web} (policy.linkerd.io/server/web)`],
  });
  t.same(
    loads().map(({ generation }) => generation),
    [1, 2, 4],
    'a comment is no change',
  );
});
