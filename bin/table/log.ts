import { once, repeated } from './row.ts';

/** Flags of every command that reads logs. */
export const logFlagRows = {
  from: repeated(
    'URL',
    'a running proxy, by its admin server (http://127.0.0.1:4191): what it has counted is read as a log is; may be repeated',
  ),
  port: once('N|NAME', 'where lines belong that do not say their port'),
} as const;

export const logHeading = 'The log:';
