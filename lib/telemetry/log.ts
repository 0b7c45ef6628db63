/**
 * The log: one line per event, as JSON or for reading. Written through a buffer without blocking, because a flood of
 * denials must not slow the requests that are allowed; flushed at exit.
 */
import pino, { type Logger } from 'pino';
import type { CodedLog } from '../errors/complaint.ts';
import { escapedJson } from '../printable.ts';
import { refText } from '../resource-ref.ts';
import { bufferedOutput, type LineSink } from './output.ts';

const levels = ['trace', 'debug', 'info', 'warn', 'error', 'off'] as const;
export type Level = (typeof levels)[number];

/**
 * The level of a text such as `info`, or of Linkerd's filters, `warn,linkerd=info`: the first part that names no
 * module. Undefined for anything else; the caller refuses it.
 */
export function parseLevel(text: string): Level | undefined {
  for (const part of text.split(',')) {
    const word = part.trim().toLowerCase();
    if (!word.includes('=')) return levels.find((known) => known === word);
  }
  return undefined;
}

export interface LogOptions {
  readonly level: Level;
  readonly format: 'json' | 'plain';
  readonly destination?: LineSink;
}

/** As pino's, but that a warning or an error has a code. */
export type CodedLogger = Omit<Logger, 'warn' | 'error' | 'fatal'> & CodedLog & { fatal: CodedLog['error'] };

export interface Log {
  readonly logger: CodedLogger;
  level(): Level;
  /** False, and nothing changed, when the text is no level. */
  setLevel(text: string): boolean;
  /** Whole lines of this log as another thread has made them. */
  write(text: string, lines: number): void;
}

export function createLog(options: LogOptions): Log {
  const sink = options.destination ?? bufferedOutput(1);
  const format = options.format === 'json' ? printableJson : plainLine;
  const logger = pino(
    {
      level: pinoLevel(options.level),
      base: null,
      timestamp: () => `,"time":"${new Date().toISOString()}"`,
      formatters: { level: (label) => ({ level: label }) },
    },
    { write: (line: string) => sink.write(format(line)) },
  );
  return {
    logger,
    level: () => (logger.level === 'silent' ? 'off' : (logger.level as Level)),
    setLevel(text) {
      const level = parseLevel(text);
      if (level === undefined) return false;
      logger.level = pinoLevel(level);
      return true;
    },
    write: (text, lines) => sink.write(text, lines),
  };
}

function pinoLevel(level: Level): string {
  return level === 'off' ? 'silent' : level;
}

/** A line of JSON stays JSON: outside strings none of these characters occurs. */
function printableJson(line: string): string {
  return escapedJson(line);
}

/** A value that needs no quotes. */
const bare = /^[\w.:/@*+-]+$/;

function plainValue(value: unknown): string {
  if (typeof value === 'string' && bare.test(value)) return value;
  return escapedJson(JSON.stringify(value) ?? 'null');
}

/** `2026-11-20T14:00:00.000Z INFO Request denied server=policy.linkerd.io/server/web client.ip=10.1.2.3 …` */
function plainLine(line: string): string {
  const { level, time, msg, ...fields } = JSON.parse(line) as Record<string, unknown>;
  const parts = [String(time), String(level).toUpperCase(), plainMessage(msg)];
  for (const [name, value] of Object.entries(fields)) plainField(parts, name, value);
  return `${parts.join(' ')}\n`;
}

/** Messages are constants of the program, but one made from an error's text must not break the line either. */
function plainMessage(message: unknown): string {
  return escapedJson(JSON.stringify(String(message ?? '')).slice(1, -1));
}

/** What is empty says nothing, and has no place in a line for reading; JSON has it all the same. */
function plainField(parts: string[], name: string, value: unknown): void {
  if (value === null || value === '' || (Array.isArray(value) && value.length === 0)) return;
  if (typeof value !== 'object' || Array.isArray(value)) {
    parts.push(`${plainName(name)}=${plainValue(value)}`);
    return;
  }
  const { group, kind, name: refName, ...rest } = value as Record<string, unknown>;
  if (typeof group === 'string' && typeof kind === 'string' && typeof refName === 'string' && isEmpty(rest)) {
    parts.push(`${plainName(name)}=${plainValue(refText({ group, kind, name: refName }))}`);
    return;
  }
  for (const [inner, innerValue] of Object.entries(value)) plainField(parts, `${name}.${inner}`, innerValue);
}

function plainName(name: string): string {
  return bare.test(name) ? name : plainValue(name);
}

function isEmpty(object: object): boolean {
  return Object.keys(object).length === 0;
}
