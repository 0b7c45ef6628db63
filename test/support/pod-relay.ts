import { connect, createServer, type Socket } from 'node:net';

// A long and lumpy wire, for kernels without netem: a program that passes connections on, each piece of a few bytes late
// by some milliseconds. Arguments: port to listen on, host and port to connect to, bytes a piece, milliseconds.

const [listen, host = '', port, pieceBytes, delayMs] = process.argv.slice(2);

/** Order is kept and nothing is merged: every piece leaves alone, `delayMs` after it came. */
function late(from: Socket, to: Socket): void {
  const size = Number(pieceBytes);
  let underWay = 0;
  from.on('data', (chunk: Buffer) => {
    for (let start = 0; start < chunk.length; start += size) {
      const piece = chunk.subarray(start, start + size);
      underWay += piece.length;
      setTimeout(() => {
        underWay -= piece.length;
        to.write(piece);
        if (underWay < 65_536) from.resume();
      }, Number(delayMs));
    }
    if (underWay >= 65_536) from.pause();
  });
  from.on('end', () => setTimeout(() => to.end(), Number(delayMs)));
  from.on('error', () => to.destroy());
  from.on('close', () => {
    if (!from.readableEnded) to.destroy();
  });
}

const server = createServer({ allowHalfOpen: true, noDelay: true }, (client) => {
  const upstream = connect({ host, port: Number(port), allowHalfOpen: true, noDelay: true });
  late(client, upstream);
  late(upstream, client);
});
server.listen({ port: Number(listen), host: '0.0.0.0' }, () => process.stdout.write('listening\n'));
