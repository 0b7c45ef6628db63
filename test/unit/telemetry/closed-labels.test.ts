import t from 'tap';
import { errorCode, reasonName } from '../../../lib/proxy/http2/session/protocol.ts';
import {
  errnoLabel,
  grpcIndex,
  grpcLabels,
  statusLabel,
  streamErrorIndex,
  streamErrors,
} from '../../../lib/telemetry/closed-labels.ts';

t.test('every reason of a reset has its label, as HTTP/2 names it', async (t) => {
  for (const code of Object.values(errorCode)) {
    const error = `h2(${reasonName(code)})`;
    t.equal(streamErrors[streamErrorIndex(error)], error);
  }
});

t.test('what is in no list', async (t) => {
  t.equal(streamErrors[streamErrorIndex(`h2(${reasonName(99)})`)], 'unclassified');
  t.equal(streamErrors[streamErrorIndex('')], '');
  for (const status of ['17', '00', '-1', '1 ', '0x1', 'OK', '16.0'])
    t.equal(grpcLabels[grpcIndex(status)], 'other', status);
  t.equal(grpcLabels[grpcIndex('16')], '16');
  t.equal(grpcLabels[grpcIndex('')], '', 'no status');
  t.equal(statusLabel(0), '', 'no response');
  for (const status of [99, 1000, 200.5, Number.NaN]) t.equal(statusLabel(status), 'other', String(status));
  t.equal(errnoLabel('ECONNRESET'), 'ECONNRESET');
  t.equal(errnoLabel('CERT_HAS_EXPIRED'), 'other');
});
