import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import { runToEnd, type Teardown } from './children.ts';

/*
 * A client that is as quick as can be: one connection after the other, each with one request, in blocking system calls. As
 * soon as it has read the whole response it looks whether the end of the connection is there, and closes its own side.
 */

export interface AbruptResult {
  /** Connections whose end had come together with the last byte of the response. */
  readonly together: number;
  /** Those that were still open then, and closed by this client first. */
  readonly apart: number;
  /** Those that failed. */
  readonly failed: number;
  /** The last response. */
  readonly response: string;
}

export interface AbruptOptions {
  readonly port: number;
  readonly connections: number;
  readonly request: string;
  /** How the response ends. */
  readonly last: string;
  /** Put before the command. */
  readonly within?: readonly string[];
}

/** Why it cannot run here, for tap's `skip`; false where it can. */
export const abruptUnavailable = process.platform === 'linux' ? false : 'its system calls are those of Linux';

export async function runAbruptClient(t: Teardown, options: AbruptOptions): Promise<AbruptResult> {
  const { within = [], ...rest } = options;
  const [command, ...args] = [...within, process.execPath, fileURLToPath(import.meta.url), JSON.stringify(rest)];
  const done = await runToEnd(t, command as string, args);
  if (done.code !== 0) throw new Error(`the abrupt client: ${done.stderr}`);
  return JSON.parse(done.stdout);
}

const AF_INET = 2;
const SOCK_STREAM = 1;
const MSG_PEEK = 2;
const MSG_DONTWAIT = 0x40;

function main({ port, connections, request, last }: AbruptOptions): AbruptResult {
  const koffi = createRequire(import.meta.url)('koffi') as typeof import('koffi');
  const libc = koffi.load('libc.so.6');
  const socket = libc.func('int socket(int domain, int type, int protocol)');
  const connect = libc.func('int connect(int fd, void *address, uint32_t length)');
  const send = libc.func('long send(int fd, void *bytes, size_t length, int flags)');
  const recv = libc.func('long recv(int fd, void *bytes, size_t length, int flags)');
  const close = libc.func('int close(int fd)');
  const address = Buffer.alloc(16);
  new Uint16Array(address.buffer, address.byteOffset, 1)[0] = AF_INET;
  address.writeUInt16BE(port, 2);
  address.set([127, 0, 0, 1], 4);
  const bytes = Buffer.from(request, 'latin1');
  const into = Buffer.alloc(64 * 1024);
  const result = { together: 0, apart: 0, failed: 0, response: '' };
  for (let i = 0; i < connections; i++) {
    const fd: number = socket(AF_INET, SOCK_STREAM, 0);
    let text = '';
    let got = connect(fd, address, address.length) === 0 ? Number(send(fd, bytes, bytes.length, 0)) : -1;
    while (got > 0 && !text.endsWith(last)) {
      got = Number(recv(fd, into, into.length, 0));
      if (got > 0) text += into.toString('latin1', 0, got);
    }
    if (got <= 0) result.failed++;
    else if (Number(recv(fd, into, 1, MSG_PEEK | MSG_DONTWAIT)) === 0) result.together++;
    else result.apart++;
    result.response = text;
    close(fd);
  }
  return result;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  process.stdout.write(JSON.stringify(main(JSON.parse(process.argv[2] as string))));
}
