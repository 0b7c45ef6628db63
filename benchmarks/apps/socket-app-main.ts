/** `socket-app-main.ts echo|websocket|bulk PORT`: the app of the scenarios that are no HTTP requests. */
import { createServer, type Socket } from 'node:net';
import { block, orderLength } from './pattern.ts';
import { acceptHandshake, readClientFrame, serverFrame } from './websocket.ts';

const [kind = '', port = '0'] = process.argv.slice(2);

function echo(socket: Socket): void {
  socket.on('data', (piece) => socket.write(piece));
}

function webSocketEcho(socket: Socket): void {
  let upgraded = false;
  let pending: Buffer = Buffer.alloc(0);
  socket.on('data', (piece: Buffer) => {
    pending = pending.length === 0 ? piece : Buffer.concat([pending, piece]);
    if (!upgraded) {
      const end = pending.indexOf('\r\n\r\n');
      if (end === -1) return;
      const answer = acceptHandshake(pending.toString('latin1', 0, end + 2));
      if (answer === null)
        return void socket.end('HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n');
      socket.write(answer);
      upgraded = true;
      pending = pending.subarray(end + 4);
    }
    for (let frame = readClientFrame(pending); frame !== null; frame = readClientFrame(pending)) {
      socket.write(serverFrame(frame.message));
      pending = pending.subarray(frame.length);
    }
  });
}

/** Each order is answered with as many bytes of the pattern, from its beginning. */
function bulk(socket: Socket): void {
  let order: Buffer = Buffer.alloc(0);
  let left = 0;
  const pour = (): void => {
    while (left > 0) {
      const piece = left >= block.length ? block : block.subarray(0, left);
      left -= piece.length;
      if (!socket.write(piece)) return;
    }
  };
  socket.on('drain', pour);
  socket.on('data', (piece: Buffer) => {
    order = Buffer.concat([order, piece]);
    if (order.length < orderLength) return;
    left = Number(order.readBigUInt64BE());
    order = order.subarray(orderLength);
    pour();
  });
}

const serve = { echo, websocket: webSocketEcho, bulk }[kind];
if (serve === undefined) throw new Error(`unknown app ${kind}`);
createServer({ noDelay: true }, (socket) => {
  // A load that ends in mid-exchange is not this program's fault.
  socket.on('error', () => socket.destroy());
  serve(socket);
}).listen({ host: '127.0.0.1', port: Number(port), backlog: 4096 });
