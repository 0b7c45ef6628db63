import t from 'tap';
import { documentKey, type PolicyDocument } from '../../../lib/policy/documents/types.ts';
import type { FileLook, Look } from '../../../lib/reload/look.ts';
import { inForce, lossOf } from '../../../lib/reload/loss.ts';

/** By file, its stamp: as a look shows it. */
function lookAt(stamps: Readonly<Record<string, string>>, generation = ''): Look {
  const files = Object.entries(stamps).map(([file, stamp]): [string, FileLook] => [
    file,
    { stamp, inode: stamp, empty: false, link: false, generation },
  ]);
  return { files: new Map(files), generation, stamp: JSON.stringify(stamps), takenMs: 0 };
}

const server = (file: string): PolicyDocument =>
  ({ kind: 'Server', group: 'policy.linkerd.io', namespace: 'shop', name: 'web', file }) as unknown as PolicyDocument;

/** A Server was held by q.yaml, beside p.yaml, which may hold another one of its name. */
const before = inForce(lookAt({ 'p.yaml': '1', 'q.yaml': '1' }, '..1'), [server('q.yaml')]);

t.test('a document whose file is gone', async (t) => {
  const rows: readonly (readonly [
    name: string,
    look: Look,
    holder: string | null,
    loss: 'none' | 'awaited' | 'settled',
  ])[] = [
    ['is lost', lookAt({ 'p.yaml': '1' }, '..1'), null, 'awaited'],
    ['has moved to a new file', lookAt({ 'p.yaml': '1', 'r.yaml': '1' }, '..1'), 'r.yaml', 'none'],
    ['has moved to one that was written', lookAt({ 'p.yaml': '2' }, '..1'), 'p.yaml', 'none'],
    ['is lost beside another of its name', lookAt({ 'p.yaml': '1' }, '..1'), 'p.yaml', 'awaited'],
    ['is meant to be, where a volume is swapped', lookAt({ 'p.yaml': '1' }, '..2'), 'p.yaml', 'settled'],
    ['is not gone', lookAt({ 'p.yaml': '1', 'q.yaml': '1' }, '..1'), 'p.yaml', 'none'],
  ];
  for (const [name, look, holder, wanted] of rows) {
    const documents = holder === null ? [] : [server(holder)];
    const loss = lossOf(before, look, { documents, holding: [...look.files.keys()] }, () => false);
    const found = loss.kind === 'removed' ? (loss.settled ? 'settled' : 'awaited') : loss.kind;
    t.equal(found, wanted, name);
    if (loss.kind === 'removed') {
      t.same([loss.files, loss.documents], [['q.yaml'], [documentKey(server('q.yaml'))]], name);
    }
  }
});
