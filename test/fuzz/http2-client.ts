import { HpackDecoder } from '../../lib/proxy/http2/hpack/decoder.ts';
import { flag, type } from '../support/http2-frames.ts';
import { RawClient } from '../support/raw-http.ts';

/** What a client has of one response. */
export interface Answer {
  readonly interim: number[];
  status: number | null;
  fields: readonly string[];
  readonly body: Buffer[];
  trailers: readonly string[] | null;
  /** END_STREAM has come. */
  complete: boolean;
  /** The code of RST_STREAM. */
  reset: number | null;
}

const endsWith = (flags: number, bit: number): boolean => (flags & bit) !== 0;

/** Takes whatever the proxy sends apart, by the letter, and sends only what it is told to. */
export class Http2Client {
  readonly raw: RawClient;
  readonly answers = new Map<number, Answer>();
  /** The code of the last GOAWAY. */
  goaway: number | null = null;
  /** The payloads of acknowledged PINGs. */
  readonly pongs = new Set<string>();
  /** Room that the proxy has given for DATA, by stream; 0 is the connection. */
  readonly granted = new Map<number, number>();
  settings: readonly (readonly [id: number, value: number])[] | null = null;
  /** What breaks the rules in what came. */
  readonly faults: string[] = [];
  /** Called with each DATA frame. */
  onData: (streamId: number, payload: Buffer) => void = () => {};
  /** Wider than any table that the proxy may use. */
  readonly #decoder = new HpackDecoder(1 << 20, 1 << 24, 10_000);
  #pending: Buffer = Buffer.alloc(0);
  #block: { streamId: number; endStream: boolean; parts: Buffer[] } | null = null;

  private constructor(raw: RawClient) {
    this.raw = raw;
    raw.socket.on('data', (chunk: Buffer) => this.#take(chunk));
  }

  static async open(port: number): Promise<Http2Client> {
    return new Http2Client(await RawClient.open({ port }));
  }

  answer(streamId: number): Answer {
    let answer = this.answers.get(streamId);
    if (answer === undefined) {
      answer = { interim: [], status: null, fields: [], body: [], trailers: null, complete: false, reset: null };
      this.answers.set(streamId, answer);
    }
    return answer;
  }

  isSettled(streamId: number): boolean {
    const answer = this.answers.get(streamId);
    return answer !== undefined && (answer.complete || answer.reset !== null);
  }

  #take(chunk: Buffer): void {
    this.#pending = this.#pending.length === 0 ? chunk : Buffer.concat([this.#pending, chunk]);
    let at = 0;
    while (this.#pending.length - at >= 9) {
      const length = this.#pending.readUIntBE(at, 3);
      if (length > 16_384) this.faults.push(`a frame of ${length} bytes`);
      if (this.#pending.length - at < 9 + length) break;
      const streamId = this.#pending.readUInt32BE(at + 5);
      const payload = this.#pending.subarray(at + 9, at + 9 + length);
      this.#frame(this.#pending[at + 3] as number, this.#pending[at + 4] as number, streamId, payload);
      at += 9 + length;
    }
    this.#pending = this.#pending.subarray(at);
  }

  #frame(frameType: number, flags: number, streamId: number, payload: Buffer): void {
    if (this.#block !== null && (frameType !== type.continuation || streamId !== this.#block.streamId)) {
      this.faults.push('a header block is interrupted');
    }
    switch (frameType) {
      case type.data: {
        const answer = this.answer(streamId);
        if (answer.status === null || answer.complete || answer.reset !== null) {
          this.faults.push(`DATA out of place on ${streamId}`);
        }
        answer.body.push(payload);
        answer.complete ||= endsWith(flags, flag.endStream);
        this.onData(streamId, payload);
        return;
      }
      case type.headers:
        this.#block = { streamId, endStream: endsWith(flags, flag.endStream), parts: [payload] };
        if (endsWith(flags, flag.endHeaders)) this.#headers();
        return;
      case type.continuation:
        this.#block?.parts.push(payload);
        if (endsWith(flags, flag.endHeaders)) this.#headers();
        return;
      case type.rstStream:
        this.answer(streamId).reset ??= payload.readUInt32BE(0);
        return;
      case type.goaway:
        this.goaway = payload.readUInt32BE(4);
        return;
      case type.ping:
        if (endsWith(flags, flag.ack)) this.pongs.add(payload.toString('latin1'));
        return;
      case type.windowUpdate:
        this.granted.set(streamId, (this.granted.get(streamId) ?? 0) + payload.readUInt32BE(0));
        return;
      case type.settings:
        if (!endsWith(flags, flag.ack)) {
          this.settings = Array.from({ length: payload.length / 6 }, (_, i) => [
            payload.readUInt16BE(6 * i),
            payload.readUInt32BE(6 * i + 2),
          ]);
        }
        return;
      default:
        this.faults.push(`a frame of type ${frameType}`);
    }
  }

  #headers(): void {
    if (this.#block === null) return;
    const { streamId, endStream, parts } = this.#block;
    this.#block = null;
    const block = Buffer.concat(parts);
    const decoded = this.#decoder.decode(block, 0, block.length);
    if (decoded.kind !== 'fields') {
      this.faults.push(`a header block that is ${decoded.kind}`);
      return;
    }
    const answer = this.answer(streamId);
    if (answer.complete || answer.reset !== null) this.faults.push(`HEADERS out of place on ${streamId}`);
    const { fields } = decoded;
    if (answer.status !== null) {
      answer.trailers = fields;
      if (!endStream) this.faults.push('trailers that do not end the stream');
    } else if (fields[0] !== ':status' || !/^[1-9][0-9][0-9]$/.test(fields[1] ?? '')) {
      this.faults.push(`a response without a status: ${fields}`);
    } else if (Number(fields[1]) < 200) {
      answer.interim.push(Number(fields[1]));
      if (endStream) this.faults.push('an interim response that is the last');
    } else {
      answer.status = Number(fields[1]);
      answer.fields = fields.slice(2);
    }
    answer.complete ||= endStream;
  }
}
