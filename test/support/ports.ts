import { createServer } from 'node:net';

/**
 * Test files run side by side, each in a process of its own, so every process walks a range of its own. The ranges lie
 * below the kernel's ephemeral ports, where an outgoing connection could take a port between our look and its use.
 */
const lowest = 10_000;
const count = 20_000;
let cursor = (process.pid * 211) % count;

/** A TCP port that nothing on this machine listens on, on any address. */
export async function freePort(): Promise<number> {
  for (let attempt = 0; attempt < 500; attempt++) {
    const port = lowest + cursor;
    cursor = (cursor + 1) % count;
    if (await canListen(port)) return port;
  }
  throw new Error('no free port among 500 tried');
}

export async function freePorts(wanted: number): Promise<number[]> {
  const ports: number[] = [];
  while (ports.length < wanted) ports.push(await freePort());
  return ports;
}

function canListen(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen({ port, exclusive: true }, () => server.close(() => resolve(true)));
  });
}
