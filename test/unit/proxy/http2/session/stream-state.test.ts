import t from 'tap';
import { errorCode, frameType } from '../../../../../lib/proxy/http2/session/protocol.ts';
import {
  afterEvent,
  type StreamEvent,
  type StreamState,
  type Verdict,
  verdictOn,
} from '../../../../../lib/proxy/http2/session/stream-state.ts';

/* The picture of RFC 9113 5.1, without what is reserved for pushes. */

const states: readonly StreamState[] = [
  'idle',
  'open',
  'half-closed (local)',
  'half-closed (remote)',
  'closed',
  'reset',
];

const events: Readonly<Record<StreamEvent, Readonly<Partial<Record<StreamState, StreamState>>>>> = {
  HEADERS: { idle: 'open' },
  'END_STREAM received': { open: 'half-closed (remote)', 'half-closed (local)': 'closed' },
  'END_STREAM sent': { open: 'half-closed (local)', 'half-closed (remote)': 'closed' },
  RST_STREAM: {
    open: 'reset',
    'half-closed (local)': 'reset',
    'half-closed (remote)': 'reset',
    closed: 'reset',
    reset: 'reset',
  },
};

t.test('what happens to a stream leads to one state, or cannot happen', async (t) => {
  for (const [event, next] of Object.entries(events) as [StreamEvent, (typeof events)[StreamEvent]][]) {
    for (const state of states) {
      const expected = next[state];
      if (expected !== undefined) t.equal(afterEvent(state, event), expected, `${state}: ${event}`);
      else t.throws(() => afterEvent(state, event), { message: `${event} of an HTTP/2 stream that is ${state}` });
    }
  }
});

const taken: Verdict = { kind: 'taken' };
const ignored: Verdict = { kind: 'ignored' };
const forbidden: Verdict = { kind: 'connection error', code: errorCode.protocolError };
const closed: Verdict = { kind: 'connection error', code: errorCode.streamClosed };
const ended: Verdict = { kind: 'stream error', code: errorCode.streamClosed };

/** In the order of `states`. */
const verdicts: readonly (readonly [name: string, type: number, mayOpen: boolean, expected: readonly Verdict[]])[] = [
  ['HEADERS of a client', frameType.headers, true, [taken, taken, taken, ended, closed, ignored]],
  ['HEADERS of the app', frameType.headers, false, [forbidden, taken, taken, ended, closed, ignored]],
  ['DATA', frameType.data, false, [forbidden, taken, taken, ended, closed, ignored]],
  ['DATA, where HEADERS would open', frameType.data, true, [forbidden, taken, taken, ended, closed, ignored]],
  ['WINDOW_UPDATE', frameType.windowUpdate, false, [forbidden, taken, taken, taken, ignored, ignored]],
  ['RST_STREAM', frameType.rstStream, false, [forbidden, taken, taken, taken, ignored, ignored]],
  ['a frame that belongs to no stream', frameType.settings, true, states.map(() => forbidden)],
  ['a frame that nobody knows', 99, true, states.map(() => forbidden)],
];

t.test('each frame is taken, ignored or an error, by the state of its stream', async (t) => {
  for (const [name, type, mayOpen, expected] of verdicts) {
    for (const [i, state] of states.entries())
      t.same(verdictOn(type, state, mayOpen), expected[i], `${name}: ${state}`);
  }
});
