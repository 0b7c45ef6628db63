import t from 'tap';
import { withEarlyAnswers } from '../../../../../lib/proxy/http1/library/early-answers.ts';
import { descriptorOf } from '../../../../../lib/proxy/node-handles.ts';
import { hasUnread, tryLoadSocketCalls } from '../../../../../lib/proxy/socket-calls.ts';
import { connectedPair } from '../../../../support/lane-stage.ts';
import { until } from '../../../../support/until.ts';

/* What an app has said when a write to it fails: the response to a request that is under way, or its leave of an idle connection. */

const plain = 'GET / HTTP/1.1\r\nhost: a\r\n\r\n';
const sized = 'POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\n';
const chunked = 'POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n';
const chunk = ['\r\n5\r\n', Buffer.from('hello')] as const;
const response = 'HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n';

interface Row {
  readonly title: string;
  /** As undici writes it: heads and framing as texts, content as bytes. */
  readonly written: readonly (string | Buffer)[];
  readonly error?: Error | undefined;
  readonly isHeard: boolean;
}

const failed = Object.assign(new Error('write EPIPE'), { code: 'EPIPE', syscall: 'write' });

const rows: readonly Row[] = [
  { title: 'the first request', written: [plain], isHeard: true },
  { title: 'the second', written: [plain, plain], isHeard: false },
  { title: 'no content of the second yet', written: [plain, sized], isHeard: true },
  { title: 'some of it', written: [plain, sized, Buffer.from('hell')], isHeard: true },
  { title: 'all of it', written: [plain, sized, Buffer.from('hello')], isHeard: false },
  { title: 'chunks of the second', written: [plain, chunked, ...chunk], isHeard: true },
  { title: 'all of them', written: [plain, chunked, ...chunk, '\r\n0\r\n\r\n'], isHeard: false },
  { title: 'a fault that is no failed write', written: [plain], error: new Error('read ECONNRESET'), isHeard: false },
  { title: 'no fault', written: [plain], error: undefined, isHeard: false },
];

tryLoadSocketCalls();

for (const { title, written, isHeard, ...row } of rows) {
  t.test(title, async (t) => {
    const { client, socket } = await connectedPair(t);
    socket.on('error', () => {});
    const app = withEarlyAnswers(socket);
    const heard: string[] = [];
    app.on('readable', () => {
      for (let bytes = app.read(); bytes !== null; bytes = app.read()) heard.push(String(bytes));
    });
    for (const data of written) app.write(data);
    // What comes from here on is left in the kernel.
    await until('all that was written', () => client.receivedLength === written.join('').length);
    app.pause();
    client.send(Buffer.from(response));
    const fd = descriptorOf(app) ?? t.fail('no descriptor');
    for (const end = performance.now() + 5000; !hasUnread(fd as number) && performance.now() < end; );
    app.destroy('error' in row ? row.error : failed);
    t.same(heard, isHeard ? [response] : []);
    t.equal(app.destroyed, true);
  });
}
