/*
 * Which texts are ordinary: those whose every line has one of a few forms, in which kubectl prints and people write policy.
 * It only admits, and reads nothing. Whatever two readers of YAML might take for different things has none of these forms:
 * anchors, aliases, tags, merge keys, directives, keys that are no words, tabs, carriage returns, marks of byte order,
 * escapes, strings over several lines, flow collections over several lines, numbers that are not plain decimals.
 */

/** In brackets: what stands in no line. Control characters, line ends of Unicode, the mark of byte order. */
const never = String.raw`\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff`;

const comment = `#[^${never}]*`;

/** Nothing more of a word behind it. */
const whole = String.raw`(?![\w./-])`;
/** What is a truth value to kubectl alone (scalars.ts). */
const truths = '[Yy]es|YES|[Oo]n|ON|[Nn]o|NO|[Oo]ff|OFF';

/** Words that are values are no keys. */
const word = String.raw`(?!(?:[Nn]ull|NULL|[Tt]rue|TRUE|[Ff]alse|FALSE|${truths}|[YyNn])${whole})[A-Za-z][\w./-]{0,200}`;
const key = `(?:${word}|"${word}"|'${word}')`;

const quoted = String.raw`"(?:[^"\\${never}]|\\["\\])*"|'[^'${never}]*'`;

/** What begins with a digit: decimals, addresses and networks, durations and quantities, the uid of an object. */
const digits = [
  String.raw`(?:0|-?[1-9]\d{0,14})`,
  String.raw`\d+(?:\.\d+){2,}(?:/\d+)?`,
  String.raw`\d[\da-f]*:[\da-f:]*(?:[\da-f]|/\d+)`,
  String.raw`\d+(?:ms|[smhd]|[KMG]i)`,
  String.raw`\d[\da-f]{7}(?:-[\da-f]{4}){3}-[\da-f]{12}`,
].join('|');

/** Without quotes, from a letter or the beginning of a path on. A colon belongs to it before more of it, and so does a space. */
function unquoted(more: string): string {
  const character = String.raw`[\w./*=@%()^$+?;~!&|<>\\${more}-]`;
  return `(?!(?:Null|NULL|True|TRUE|False|FALSE|${truths})${whole})[A-Za-z/^](?:${character}|:+(?=${character})| +(?=${character}))*`;
}

/** Parts of a flow collection, with commas between them and none behind the last. */
function listed(part: string): string {
  return String.raw` ?(?:${part}(?:, ?(?=[^ \]}])|(?= ?[\]}])))* ?`;
}

/** A flow collection on one line, and so many levels of others in it. */
function flow(levels: number): string {
  const inner = levels === 0 ? '' : `|${flow(levels - 1)}`;
  const item = `(?:${quoted}|${digits}|${unquoted('')}${inner})`;
  return String.raw`\[${listed(item)}\]|\{${listed(`${key}: ${item}`)}\}`;
}

const value = `(?:${quoted}|${digits}|${unquoted(String.raw`,\[\]{}'"`)}|${flow(2)})`;

const line = [
  // An item of a list has something behind its dash, on the same line.
  ` *(?:- +)*(?:${key}:|-(?= +[^ #\n]))(?: +${value})?`,
  '---',
  // One line in a block of its own, as kubectl writes what was applied last.
  String.raw`( *)${key}: \|\n\1 {2}[!-~][ -~]*(?=\n)`,
  '',
].join('|');

const ordinaryLine = new RegExp(`(?:${line})(?: +${comment}| *)(?:\n|$)| *${comment}(?:\n|$)`, 'y');

/** Characters of a line. A regular expression that repeats a group keeps something for each time. */
const longestLine = 10_000;

export function isOrdinary(text: string): boolean {
  for (let at = 0; at < text.length; at = ordinaryLine.lastIndex) {
    const end = text.indexOf('\n', at);
    if ((end === -1 ? text.length : end) - at > longestLine) return false;
    ordinaryLine.lastIndex = at;
    if (!ordinaryLine.test(text)) return false;
  }
  return true;
}
