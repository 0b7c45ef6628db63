import { join } from 'node:path';
import t from 'tap';
import { thisMachine } from '../../../lib/redirect/machine.ts';
import { replaceFile, temporaryFolder } from '../../support/files.ts';

t.test('a file that is not there is told from one that cannot be read', async (t) => {
  const folder = temporaryFolder(t);
  const file = join(folder, 'file');
  replaceFile(file, 'text\n');
  t.same(thisMachine.read(file), { kind: 'text', text: 'text\n' });
  t.same(thisMachine.read(join(folder, 'none')), { kind: 'absent' });
  t.same(thisMachine.read(folder), { kind: 'failed', reason: 'EISDIR' });
  t.same(thisMachine.read(join(file, 'below')), { kind: 'failed', reason: 'ENOTDIR' });
});
