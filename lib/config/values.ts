import type { AnyCode } from '../errors/complaint.ts';
import type { FaultCode } from '../errors/faults.ts';
import { type IpAddress, parseIp } from '../ip.ts';
import { nearestName } from '../policy/nearest.ts';
import { parseCidr } from '../policy/networks.ts';
import { type Probe, type ProbesByPort, parseProbe, withProbe } from '../policy/probes.ts';
import { isLabelKey, isLabelValue } from '../policy/selectors.ts';
import { type PortRange, parsePortRanges } from '../policy/workload.ts';

export type { PortRange };

/** A value as read from one variable, or what is wrong with its text and how to put it right. */
export type Parsed<T> =
  | { readonly value: T }
  | { readonly code: AnyCode; readonly fault: string; readonly hint: string };
export type Parser<T> = (text: string) => Parsed<T>;

/** Where a listener binds. `host` null: every address of both families. Port 0: whichever port is free. */
export interface ListenAddress {
  readonly host: string | null;
  readonly port: number;
}

/** One explicit listener: connections to `policyPort` are judged by the policy of that port and go to the app. */
export interface InboundPort {
  readonly listen: ListenAddress;
  readonly policyPort: number;
  readonly app: { readonly host: string; readonly port: number };
}

const ok = <T>(value: T): Parsed<T> => ({ value });
const bad = (code: FaultCode, fault: string, hint: string): { code: FaultCode; fault: string; hint: string } => ({
  code,
  fault,
  hint,
});
const quote = (text: string): string => JSON.stringify(text);

/** Any text; trimming has been done. */
export const text: Parser<string> = ok;

const unitMs: ReadonlyMap<string, number> = new Map([
  ['ms', 1],
  ['s', 1000],
  ['m', 60_000],
  ['h', 3_600_000],
]);
/** setTimeout fires at once for anything longer, which would turn the most patient setting into the least. */
const longestMs = 2 ** 31 - 1;

/** `10s`, `1.5h`: a number with its unit, to milliseconds. */
export const duration: Parser<number> = (given) => {
  const match = /^(\d+(?:\.\d+)?)(ms|s|m|h)$/.exec(given);
  const hint = 'write a number with its unit: 500ms, 10s, 2m or 1h';
  if (match === null) return bad('bad-duration', `${quote(given)} is not a duration`, hint);
  const ms = Math.round(Number(match[1]) * (unitMs.get(match[2] ?? '') ?? Number.NaN));
  return ms > longestMs ? bad('bad-duration', `${quote(given)} is longer than 24 days`, hint) : ok(ms);
};

/** As `duration`, but for no time at all, which some take for never, and others for at once. */
export const timeout: Parser<number> = (given) => {
  const parsed = duration(given);
  const hint = 'write a number above 0 with its unit: 500ms, 10s, 2m or 1h';
  return 'value' in parsed && parsed.value === 0
    ? bad('bad-duration', `${quote(given)} is no time at all`, hint)
    : parsed;
};

/** As `timeout`; `off` yields Infinity. */
export const timeoutOrOff: Parser<number> = (given) =>
  given === 'off'
    ? ok(Number.POSITIVE_INFINITY)
    : withHint(timeout(given), 'a number with its unit: 10s, 2m, 1h; or off');

function withHint<T>(parsed: Parsed<T>, wanted: string): Parsed<T> {
  return 'fault' in parsed ? { ...parsed, hint: `write ${wanted}` } : parsed;
}

/** A whole number of at least so much. */
export function countFrom(least: number): Parser<number> {
  return (given) => {
    const hint = `write a whole number from ${least} to 1000000000`;
    if (!/^\d{1,10}$/.test(given)) return bad('bad-count', `${quote(given)} is not a count`, hint);
    const number = Number(given);
    return number < least || number > 1e9 ? bad('bad-count', `${quote(given)} is out of range`, hint) : ok(number);
  };
}

export const count = countFrom(1);

const unitBytes: ReadonlyMap<string, number> = new Map([
  ['', 1],
  ['Ki', 2 ** 10],
  ['Mi', 2 ** 20],
  ['Gi', 2 ** 30],
]);

/** `65536`, `64KiB`, `256Mi` (as Kubernetes writes it), to bytes; at least 1 KiB. */
export const bytes: Parser<number> = (given) => {
  const match = /^(\d{1,12})(Ki|Mi|Gi|)B?$/.exec(given);
  const hint = 'write bytes, or a number with its unit: 64KiB, 256MiB, 1GiB';
  if (match === null) return bad('bad-size', `${quote(given)} is not a size`, hint);
  const size = Number(match[1]) * (unitBytes.get(match[2] ?? '') ?? Number.NaN);
  return size < 1024 || size > 2 ** 40
    ? bad('bad-size', `${quote(given)} is not from 1KiB to 1024GiB`, hint)
    : ok(size);
};

/** `true` or `false`, nothing else: a misspelt `ture` must not silently mean either. */
export const boolean: Parser<boolean> = (given) =>
  given === 'true' || given === 'false'
    ? ok(given === 'true')
    : bad('bad-boolean', `${quote(given)} is neither true nor false`, 'write true or false');

export function oneOf<const T extends string>(allowed: readonly T[]): Parser<T> {
  return (given) => {
    const found = allowed.find((value) => value === given);
    if (found !== undefined) return ok(found);
    const nearest = nearestName(given, allowed);
    const hint = `one of ${allowed.join(', ')}${nearest === undefined ? '' : `; did you mean ${nearest}?`}`;
    return bad('bad-choice', `${quote(given)} is not known`, hint);
  };
}

/** Comma-separated; spaces round an item are ignored, and so is a trailing comma. The first faulty item is reported. */
export function list<T>(item: Parser<T>): Parser<readonly T[]> {
  return (given) => {
    const values: T[] = [];
    for (const part of items(given)) {
      const parsed = item(part);
      if ('fault' in parsed) return parsed;
      values.push(parsed.value);
    }
    return ok(values);
  };
}

/** As `parser`, of a list that is not without items: who writes commas alone has meant something. */
export function some<T>(parser: Parser<T>): Parser<T> {
  const hint = 'write its items, or leave the variable out';
  return (given) =>
    items(given).length === 0 ? bad('empty-list', `${quote(given)} lists nothing`, hint) : parser(given);
}

function items(given: string): string[] {
  const parts = given.split(',').map((part) => part.trim());
  return parts.filter((part) => part !== '');
}

/** A CIDR, or a bare address (which stands for itself alone). Kept as text: policy compiles its own matchers. */
export const network: Parser<string> = (given) => {
  const hint = 'write a network such as 10.0.0.0/8 or fd00::/8, or one address';
  const [address = '', , ...rest] = given.split('/');
  const ip = parseIp(address);
  if (ip === undefined || rest.length > 0) return bad('bad-network', `${quote(given)} is not a network`, hint);
  // Clients over IPv4 are in no block of IPv6, however it is written.
  if (ip.family === 4 && address.includes(':'))
    return bad('bad-network', `${quote(given)} is IPv4-mapped and holds no client`, hint);
  // What policy could not compile would hold nobody, and say nothing.
  const cidr = parseCidr(given);
  return typeof cidr === 'string' ? bad('bad-network', cidr, hint) : ok(given);
};

export const ip: Parser<IpAddress> = (given) => {
  const parsed = parseIp(given);
  return parsed === undefined
    ? bad('bad-address', `${quote(given)} is not an IP address`, 'write addresses such as 10.1.2.3 or fd00::7')
    : ok(parsed);
};

/** 1 to 65535 in plain decimal digits. */
export function portNumber(given: string, lowest = 1): number | undefined {
  if (!/^\d{1,5}$/.test(given)) return undefined;
  const port = Number(given);
  return port >= lowest && port <= 65_535 ? port : undefined;
}

/** `25,9000-9100`. */
export const portRanges: Parser<readonly PortRange[]> = (given) => {
  const { ranges, fault } = parsePortRanges(given);
  return fault === null ? ok(ranges) : bad('bad-ports', fault, 'write ports and ranges, such as 25,9000-9100');
};

/** `host:port`, `[v6]:port` or `:port`; undefined for anything else. The host is not resolved here. */
function hostAndPort(given: string, lowestPort: number): ListenAddress | undefined {
  const match = /^(?:\[([^\]]+)\]|([^:[\]\s]*)):(\d+)$/.exec(given);
  const port = portNumber(match?.[3] ?? '', lowestPort);
  if (match === null || port === undefined) return undefined;
  const [, bracketed, plain] = match;
  if (bracketed !== undefined) return parseIp(bracketed) === undefined ? undefined : { host: bracketed, port };
  if (plain === undefined || plain === '') return { host: null, port };
  return isHost(plain) ? { host: plain, port } : undefined;
}

/**
 * An address, or a name, which may be absolute (`app.shop.svc.cluster.local.`). `0`, `127.1` and `0x7f.1` are neither, though
 * the system's resolver makes addresses of them.
 */
function isHost(given: string): boolean {
  if (parseIp(given) !== undefined) return true;
  const isNumeric = /^(?:0x[\da-f]*|\d+)(?:\.(?:0x[\da-f]*|\d+))*\.?$/i.test(given);
  return !isNumeric && /^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?\.?$/.test(given);
}

export const listenAddress: Parser<ListenAddress> = (given) => {
  const address = hostAndPort(given, 0);
  return address === undefined
    ? bad(
        'bad-listener',
        `${quote(given)} is not an address to listen on`,
        'write host:port, [v6]:port or :port for every address',
      )
    : ok(address);
};

/** As `listenAddress`; `off` yields null. `lowestPort` 1 where the number must be known before anything is bound. */
export function listenAddressOrOff(lowestPort: 0 | 1): Parser<ListenAddress | null> {
  return (given) => {
    if (given === 'off') return ok(null);
    const address = hostAndPort(given, lowestPort);
    return address === undefined
      ? bad(
          'bad-listener',
          `${quote(given)} is not an address to listen on`,
          'write host:port, [v6]:port, :port, or off',
        )
      : ok(address);
  };
}

/** A host to connect to: a name or an address, brackets optional round IPv6. Of `original`, wrongly written, none is meant. */
export const appHost: Parser<string> = (given) => {
  const bare = given.startsWith('[') && given.endsWith(']') ? given.slice(1, -1) : given;
  const isSlip = given !== 'original' && given.toLowerCase() === 'original';
  return isHost(bare) && !isSlip
    ? ok(bare)
    : bad('bad-host', `${quote(given)} is not a host`, 'write a host name or an address, without a port; or original');
};

/** A Kubernetes name, a trust domain or an SNI name: lower case, as all of these are compared. */
export const dnsName: Parser<string> = (given) =>
  /^[a-z0-9]([a-z0-9._-]{0,251}[a-z0-9])?$/.test(given)
    ? ok(given)
    : bad('bad-name', `${quote(given)} is not a DNS name`, 'use lower-case letters, digits, "-" and "."');

/** `8080=127.0.0.1:3000` or `[addr]:8080=host:port`. */
export const inboundPort: Parser<InboundPort> = (given) => {
  const hint = 'write port=host:port, such as 8080=127.0.0.1:3000 or 8080=[::1]:3000, or [addr]:port=host:port';
  const equals = given.indexOf('=');
  if (equals === -1) return bad('bad-inbound-port', `${quote(given)} names no app`, hint);
  const [left, right] = [given.slice(0, equals).trim(), given.slice(equals + 1).trim()];
  const alone = portNumber(left);
  const listen = alone === undefined ? hostAndPort(left, 1) : { host: null, port: alone };
  if (listen === undefined) return bad('bad-inbound-port', `${quote(left)} is not a port to listen on`, hint);
  const app = hostAndPort(right, 1);
  if (app === undefined || app.host === null)
    return bad('bad-inbound-port', `${quote(right)} is not the address of an app`, hint);
  return ok({ listen, policyPort: listen.port, app: { host: app.host, port: app.port } });
};

/** `k=v,…`, to a map. A value may be empty. */
export const labels: Parser<ReadonlyMap<string, string>> = (given) => {
  const pairs = new Map<string, string>();
  for (const item of items(given)) {
    const [, key, value] = /^([^=\s]+)=(\S*)$/.exec(item) ?? [];
    if (key === undefined || value === undefined || !isLabelKey(key) || !isLabelValue(value)) {
      return bad('bad-label', `${quote(item)} is not a label`, 'write labels as key=value, comma-separated, unquoted');
    }
    const before = pairs.get(key) ?? value;
    if (before !== value) {
      const fault = `${quote(key)} is given twice, as ${quote(before)} and as ${quote(value)}`;
      return bad('bad-label', fault, 'write each key once: a Pod has one value of each');
    }
    pairs.set(key, value);
  }
  return ok(pairs);
};

/** `http=8080,admin=4191`; a name given twice covers both ports. */
export const namedPorts: Parser<ReadonlyMap<string, readonly number[]>> = (given) => {
  const ports = new Map<string, number[]>();
  for (const item of items(given)) {
    const [, name, digits = ''] = /^([A-Za-z0-9-]+)=(\d+)$/.exec(item) ?? [];
    const port = portNumber(digits);
    if (name === undefined || port === undefined) {
      return bad(
        'bad-named-port',
        `${quote(item)} is not a named port`,
        'write ports as name=number, such as http=8080',
      );
    }
    ports.set(name, [...(ports.get(name) ?? []), port]);
  }
  return ok(ports);
};

/** `8080/healthz,grpc:9000,…`: see `parseProbe`. The query is dropped, as Linkerd's controller does. */
export const probes: Parser<ProbesByPort> = (given) => {
  const found = new Map<number, readonly Probe[]>();
  for (const item of items(given)) {
    const parsed = parseProbe(item);
    if (parsed === undefined) {
      const hint = 'write probes as 8080/healthz, https:8443/healthz, grpc:9000, tcp:5432 or hook:8080/prestop';
      return bad('bad-probe', `${quote(item)} is not a probe`, hint);
    }
    found.set(parsed.port, withProbe(found.get(parsed.port), parsed.probe));
  }
  return ok(found);
};

/**
 * The downward API's file of labels: one `key="value"` a line, the value quoted as by Go's `%q`, of which only what
 * JSON also understands can occur in a label.
 */
export const labelsFile: Parser<ReadonlyMap<string, string>> = (content) => {
  const pairs = new Map<string, string>();
  for (const [index, line] of content.split('\n').entries()) {
    if (line.trim() === '') continue;
    const [, key, quoted = ''] = /^([^=\s]+)=(".*")\s*$/.exec(line) ?? [];
    const value = unquote(quoted);
    if (key === undefined || value === undefined) {
      return bad(
        'bad-labels-file',
        `line ${index + 1} is not key="value"`,
        'mount metadata.labels by the downward API, and keep the file as is',
      );
    }
    const fault = !isLabelKey(key)
      ? `${quote(key)} is no key that a label can have`
      : !isLabelValue(value)
        ? `${quote(value)} is no value that a label can have`
        : null;
    if (fault !== null) {
      const hint = 'write one that a Pod can have, or mount metadata.labels by the downward API';
      return bad('bad-labels-file', `line ${index + 1}: ${fault}`, hint);
    }
    pairs.set(key, value);
  }
  return ok(pairs);
};

function unquote(quoted: string): string | undefined {
  try {
    const value: unknown = JSON.parse(quoted);
    return typeof value === 'string' ? value : undefined;
  } catch {
    return undefined;
  }
}
