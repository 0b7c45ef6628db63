import { HttpScan } from '../../lib/proxy/detect/http-guess.ts';
import { TunnelGuard } from '../../lib/proxy/detect/tunnel-guard.ts';

/** What became of a client's bytes on a port of unknown protocol without request rules, before an app that says nothing. */
export interface Tunnelled {
  readonly kind: 'http' | 'refused' | 'tunnel';
  /** What the app has got, in pieces; of a refused tunnel, what went before. */
  readonly forwarded: readonly Buffer[];
}

/** The proxy's own two steps, without sockets: guess, then guard. @param ends the client ends its side behind the last. */
export function tunnelled(pieces: readonly Buffer[], ends: boolean): Tunnelled {
  const scan = new HttpScan(true);
  const forwarded: Buffer[] = [];
  let bytes = Buffer.alloc(0);
  let next = 0;
  while (next < pieces.length) {
    bytes = Buffer.concat([bytes, pieces[next++] as Buffer]);
    const guess = scan.guess(bytes);
    if (guess === 'http/1' || guess === 'http/2') return { kind: 'http', forwarded };
    if (guess !== undefined) break;
  }
  // Here the detection has its answer, or the client's end, or its time is over.
  const opening = scan.rest(bytes);
  if (opening.endsAsRequest) return { kind: 'refused', forwarded };
  const guard = new TunnelGuard(opening);
  let passage = guard.judge(bytes);
  for (;;) {
    if (passage.kind === 'refuse') return { kind: 'refused', forwarded };
    if (passage.kind === 'forward') forwarded.push(passage.bytes);
    const piece = pieces[next++];
    if (piece === undefined) break;
    passage = guard.pass(piece);
  }
  return { kind: ends && guard.isHolding ? 'refused' : 'tunnel', forwarded };
}
