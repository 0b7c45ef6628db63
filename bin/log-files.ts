import { createReadStream } from 'node:fs';
import { fileFault } from '../lib/config/file-fault.ts';
import { type LogSource, type ReadTally, readRecords } from '../lib/records/read.ts';
import type { DecisionRecord, Occurrence } from '../lib/records/record.ts';
import { type CommandLine, complain, type Io, UsageError } from './arguments.ts';
import { Progress } from './progress.ts';
import { decisionsOf } from './running-proxy.ts';
import { sayWaiting } from './standard-input.ts';

/** Lines that cannot be read and are said one by one, of each file; the others are counted. */
const mostSaid = 10;

/** Characters of what is said of one: it may hold what the line does. */
const mostTold = 300;

/** Bytes in one read. */
const chunkBytes = 512 * 1024;

/**
 * Reads the logs that a command line names (`-` is standard input), then what the running proxies of `--from` have counted, one
 * after another. What cannot be read is said on standard error, with file, line and remedy; what is not there throws.
 *
 * @throws UsageError
 */
export async function readLogs(
  line: Pick<CommandLine<'from'>, 'words' | 'values'>,
  io: Io,
  record: (record: DecisionRecord, occurrence: Occurrence) => void,
): Promise<ReadTally> {
  const paths = line.words;
  const running = line.values('from').map(decisionsOf);
  if (paths.length + running.length === 0) {
    throw new UsageError(
      'missing-argument',
      'no log',
      'name a file, - for standard input, or a running proxy by --from URL',
    );
  }
  if (paths.filter((path) => path === '-').length > 1) {
    throw new UsageError('unexpected-argument', 'standard input is named twice', 'write - once');
  }
  if (paths.includes('-')) sayWaiting(io);
  const progress = new Progress(io.stderr);
  const said = new Map<string, number>();
  try {
    return await readRecords([...paths.map((path) => logSource(path, io)), ...running], {
      record,
      bad({ file, line, message, remedy }) {
        const times = (said.get(file) ?? 0) + 1;
        said.set(file, times);
        if (times > mostSaid) return;
        const where = line === 0 ? file : `${file}:${line}`;
        const told = message.length > mostTold ? `${message.slice(0, mostTold)}…` : message;
        complain(io, 'warning', { code: 'bad-line', message: `${where}: ${told}`, hint: remedy });
      },
      progress: (lines) => progress.say(() => `${lines} lines read`),
    });
  } finally {
    progress.end();
    for (const [file, times] of said) sayRest(file, times - mostSaid, io);
  }
}

function sayRest(file: string, others: number, io: Io): void {
  if (others <= 0) return;
  const message = `${file}: ${others} more ${others === 1 ? 'line' : 'lines'} cannot be read`;
  complain(io, 'warning', { code: 'bad-line', message, hint: '' });
}

/** @param flag with which messages begin, where the path was not a word by itself. */
export function logSource(path: string, io: Io, flag = ''): LogSource {
  return path === '-' ? { name: 'stdin', bytes: bytesOf(io.stdin) } : { name: path, bytes: fileBytes(path, flag) };
}

async function* bytesOf(stream: NodeJS.ReadableStream): AsyncGenerator<Uint8Array> {
  for await (const chunk of stream) yield typeof chunk === 'string' ? Buffer.from(chunk) : chunk;
}

/** @throws UsageError where the file cannot be read, or no further. */
async function* fileBytes(path: string, flag: string): AsyncGenerator<Uint8Array> {
  try {
    yield* createReadStream(path, { highWaterMark: chunkBytes }) as AsyncIterable<Buffer>;
  } catch (error) {
    const { why, remedy } = fileFault(path, error, 'Check the path.');
    throw new UsageError('requests-unreadable', `${flag}${path} cannot be read: ${why}`, remedy);
  }
}
