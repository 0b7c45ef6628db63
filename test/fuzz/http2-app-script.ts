import fc, { type Arbitrary } from 'fast-check';
import { flag, type as frameTypes, setting } from '../support/http2-frames.ts';
import {
  type Aside,
  aside,
  type BlockShape,
  BlockWriter,
  blockFrames,
  body,
  type Chunk,
  dataFrame,
  type Field,
  form,
  kindSettings,
  number,
  oddFields,
  padding,
  type RawFrame,
  settingsPayload,
  some,
  wildSettings,
} from './http2-conversation.ts';

/** What an HTTP/2 app says to the first request on a connection, stream 1. */
export interface AppAnswer extends BlockShape {
  readonly settings: readonly (readonly [id: number, value: number])[];
  readonly interim: readonly string[];
  readonly status: string;
  readonly fields: readonly Field[];
  readonly odd: Field | null;
  readonly announced: 'right' | 'wrong' | null;
  readonly body: readonly Chunk[];
  readonly trailers: readonly Field[] | null;
  readonly ending: 'end' | 'empty-end' | 'none' | 'reset' | 'goaway';
  readonly code: number;
  readonly asides: readonly { readonly at: number; readonly aside: Aside }[];
}

const plain: Arbitrary<Field> = fc.oneof(
  fc.tuple(fc.constantFrom('x-a', 'server', 'vary'), fc.constantFrom('', '1', 'a b', '\xe9'), form),
  fc.constantFrom<Field>(
    ['set-cookie', 'a=b'],
    ['set-cookie', 'c=d'],
    ['x-type', 'text/plain'],
    ['x-long', 'z'.repeat(300)],
  ),
);
const plainNames = new Set(['x-a', 'server', 'vary', 'set-cookie', 'x-type', 'x-long']);
const odd = fc.constantFrom<Field>(...oddFields, [':status', '404'], ['x-a', 'a\r\nb'], ['content-length', '3']);

/** An app that takes no head at all gets none: what the proxy says instead is no response of the app. */
function takesHeads(settings: readonly (readonly [number, number])[]): readonly (readonly [number, number])[] {
  return settings.filter(([id, value]) => id !== setting.maxHeaderListSize || value >= 1000);
}

export const appAnswer: Arbitrary<AppAnswer> = fc.record({
  settings: fc.oneof({ weight: 8, arbitrary: kindSettings }, { weight: 1, arbitrary: wildSettings.map(takesHeads) }),
  interim: fc.oneof(
    { weight: 4, arbitrary: fc.constant([]) },
    { weight: 1, arbitrary: fc.array(fc.constantFrom('100', '102', '103', '103', '199', '101'), { maxLength: 2 }) },
  ),
  status: fc.oneof(
    { weight: 6, arbitrary: fc.constant('200') },
    { weight: 3, arbitrary: fc.constantFrom('204', '304', '404', '503', '299') },
    { weight: 1, arbitrary: fc.constantFrom('', '20', '2000', '000', '099', '600', '999', '1 0', '+20', 'abc', '101') },
  ),
  fields: fc.array(plain, { maxLength: 3 }),
  odd: some(odd, 8),
  announced: fc.constantFrom('right', 'right', null, null, null, 'wrong'),
  blockCuts: fc.oneof(
    { weight: 4, arbitrary: fc.constant([]) },
    { weight: 1, arbitrary: fc.array(fc.nat(60), { maxLength: 3 }) },
  ),
  padding,
  priority: fc.constantFrom(false, false, false, false, true),
  body,
  trailers: some(
    fc.array(fc.oneof({ weight: 3, arbitrary: plain }, { weight: 1, arbitrary: odd }), { maxLength: 2 }),
    3,
  ),
  ending: fc.constantFrom('end', 'end', 'end', 'end', 'empty-end', 'empty-end', 'none', 'reset', 'goaway'),
  code: fc.constantFrom(0, 1, 2, 7, 8, 11, 99),
  asides: fc.oneof(
    { weight: 3, arbitrary: fc.constant([]) },
    { weight: 1, arbitrary: fc.array(fc.record({ at: fc.nat(10), aside }), { maxLength: 2 }) },
  ),
});

function headFields({ status, fields, odd, announced, body }: AppAnswer): Field[] {
  const length = body.reduce((sum, { text }) => sum + text.length, 0);
  const head: Field[] = [[':status', status, 'indexing'], ...fields];
  if (announced !== null) head.push(['content-length', String(announced === 'right' ? length : length + 3)]);
  if (odd !== null) head.push(odd);
  return head;
}

/** The frames of an app: its SETTINGS, their acknowledgement, and the response to stream 1. */
export function answerFrames(answer: AppAnswer): RawFrame[] {
  const writer = new BlockWriter();
  const streamId = 1;
  const { body: chunks, trailers, ending, code } = answer;
  const frames: RawFrame[] = [];
  for (const status of answer.interim) {
    frames.push(
      ...blockFrames(
        answer,
        streamId,
        writer.block([
          [':status', status],
          ['link', '</a>'],
        ]),
        false,
      ),
    );
  }
  const ends = ending === 'end' && trailers === null;
  frames.push(...blockFrames(answer, streamId, writer.block(headFields(answer)), ends && chunks.length === 0));
  for (const [i, chunk] of chunks.entries()) frames.push(dataFrame(chunk, streamId, ends && i === chunks.length - 1));
  if (ending === 'reset') {
    frames.push({ type: frameTypes.rstStream, flags: 0, streamId, payload: number(code) });
  } else if (ending === 'goaway') {
    const payload = Buffer.concat([number(code % 2), number(code)]);
    frames.push({ type: frameTypes.goaway, flags: 0, streamId: 0, payload });
  } else if (ending !== 'none' && trailers !== null) {
    frames.push(...blockFrames(answer, streamId, writer.block(trailers), true));
  } else if (ending === 'empty-end') {
    frames.push(dataFrame({ text: '', padding: null }, streamId, true));
  }
  for (const { at, aside } of answer.asides) {
    const { type, flags, stream, payload } = aside;
    frames.splice(at % (frames.length + 1), 0, {
      type,
      flags,
      streamId: stream === null ? 0 : 2 * stream + 1,
      payload,
    });
  }
  return [
    { type: frameTypes.settings, flags: 0, streamId: 0, payload: settingsPayload(answer.settings) },
    { type: frameTypes.settings, flags: flag.ack, streamId: 0, payload: Buffer.alloc(0) },
    ...frames,
  ];
}

const bodiless = new Set(['204', '304']);

/** Whether nobody may refuse this answer, or break it off. */
export function isSound(answer: AppAnswer, method: string): boolean {
  const { settings, interim, status, odd, announced, body, trailers, ending, asides } = answer;
  const sane = settings.every(([id, value]) => (id === 1 && value === 0) || (id === 4 && value === 1 << 20));
  if (!sane || asides.length > 0 || odd !== null || interim.includes('101')) return false;
  if (!/^[2-5][0-9]{2}$/.test(status) || announced === 'wrong') return false;
  const isPlain = ([name, value]: Field): boolean => plainNames.has(name) && /^[\x20-\x7e\x80-\xff]*$/.test(value);
  if (trailers?.every(isPlain) === false) return false;
  const length = body.reduce((sum, { text }) => sum + text.length, 0);
  if (length > 0 && (method === 'HEAD' || bodiless.has(status))) return false;
  return ending === 'end' || ending === 'empty-end';
}
