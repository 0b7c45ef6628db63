import { createServer, type Server } from 'node:net';

/**
 * Test files run side by side, each in a process of its own: every process has blocks of ports that no other takes from,
 * since it listens on the first of each for as long as it lives. They lie below the kernel's ephemeral ports, where an
 * outgoing connection could take a port between our look and its use.
 */
const lowest = 10_000;
const blockSize = 100;
const blocks = 200;
/** Processes begin their search at blocks that are far apart. */
let block = (process.pid * 37) % blocks;
/** Ports of the block that are left; the next is the last of them. */
let left: readonly number[] = [];

/** A TCP port that nothing on this machine listens on, on any address, and that no other test is given. */
export async function freePort(): Promise<number> {
  for (let attempt = 0; attempt < 2 * blocks * blockSize; attempt++) {
    const port = left.at(-1);
    left = left.slice(0, -1);
    if (port === undefined) left = await claimed();
    else if (await canListen(port)) return port;
  }
  throw new Error('no free port');
}

/** The ports of the next block that is nobody's. */
async function claimed(): Promise<readonly number[]> {
  for (let tried = 0; tried < blocks; tried++) {
    const first = lowest + block * blockSize;
    block = (block + 1) % blocks;
    const claim = createServer();
    if (!(await listens(claim, first))) continue;
    claim.unref();
    return Array.from({ length: blockSize - 1 }, (_, i) => first + blockSize - 1 - i);
  }
  throw new Error('no block of ports is left');
}

export async function freePorts(wanted: number): Promise<number[]> {
  const ports: number[] = [];
  while (ports.length < wanted) ports.push(await freePort());
  return ports;
}

async function canListen(port: number): Promise<boolean> {
  const server = createServer();
  if (!(await listens(server, port))) return false;
  await new Promise((resolve) => server.close(resolve));
  return true;
}

function listens(server: Server, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    server.once('error', () => resolve(false));
    server.listen({ port, exclusive: true }, () => resolve(true));
  });
}
