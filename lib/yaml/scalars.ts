/*
 * What a scalar without quotes means to kubectl and the API server, whose library (sigs.k8s.io/yaml) reads numbers as YAML 1.1
 * does, and as Go's strconv: `8_080` and `017620` are ports. Base 60 and timestamps are text, and `yes`, `on`, `no` and `off`
 * truth values. `y` and `n` are truth values to it as well, so that it refuses the document that has one of them for a name; as
 * many libraries write such names without quotes, here they are texts where they are values.
 */

export const truthWord = /^(?:[Yy]es|YES|[Oo]n|ON|[Nn]o|NO|[Oo]ff|OFF)$/;

export function truthOf(word: string): boolean {
  return /^(?:yes|on)$/i.test(word);
}

/** Where they are keys, it would be another key than they say. */
export const truthLetter = /^[yYnN]$/;

/** What begins a number of theirs. */
export const mayBeNumber = /^[-+]?\.?[\d_]/;

const integer = /^([-+]?)(0[xX][\da-fA-F]+|0[bB][01]+|0[oO]?[0-7]+|0|[1-9]\d*)$/;
/** The library lets a sign stand behind this prefix. */
const oddBinary = /^0b([-+])(?=[01])/;
const decimal = /^[-+]?(?:\.\d+|\d+(?:\.\d*)?)(?:[eE][-+]?\d+)?$/;
/** Only before a point may underscores stand anywhere. */
const fromPoint = /^\.\d+(?:_\d+)*(?:[eE][-+]?\d+(?:_\d+)*)?$/;

export function numberOrText(text: string): string | number {
  if (text.startsWith('.')) return fromPoint.test(text) ? finite(text) : text;
  if (text.startsWith('_')) return text;
  const plain = text.replaceAll('_', '');
  const [, sign, digits] = integer.exec(plain.replace(oddBinary, (_, sign) => `${sign}0b`)) ?? [];
  const whole = digits === undefined ? null : wholeNumber(sign ?? '', digits);
  if (whole !== null) return whole;
  return decimal.test(plain) ? finite(text) : text;
}

/** More of them are no number of 64 bits, and take long to read. */
const mostDigits = 400;

/** Null where 64 bits do not hold it, of which a sign takes one. */
function wholeNumber(sign: string, digits: string): number | null {
  if (digits.length > mostDigits) return null;
  const value = BigInt(digits.replace(/^0[oO]?(?=[0-7])/, '0o').toLowerCase());
  const most = sign === '' ? (1n << 64n) - 1n : sign === '+' ? (1n << 63n) - 1n : 1n << 63n;
  if (value > most) return null;
  return Number(sign === '-' ? -value : value);
}

function finite(text: string): number | string {
  const value = Number(text.replaceAll('_', ''));
  return Number.isFinite(value) ? value : text;
}
