/*
 * The code of RFC 7541, Appendix B. It is canonical: codes of one length are consecutive numbers in the order of their
 * symbols, and shorter codes come before longer ones. So the lengths say everything.
 */

/** The length of every symbol's code in base 36, sixteen symbols a line; the last symbol is EOS. */
const codeLengths = Array.from(
  'dnsssssssoussuss' +
    'ssssssusssssssss' +
    '6aacd68baa8b8666' +
    '555666666678f6ca' +
    'd677777777777777' +
    '77777777878djde6' +
    'f565656665776665' +
    '67655677777fbeds' +
    'kmkkmmmnmnnnnnon' +
    'oomnonnnnlmnmnno' +
    'mlkmmnnlnmmolmnn' +
    'llmlnmnnkmmmnmmn' +
    'qqkjmnmpqqqrrqop' +
    'jlqrrqrollqqsrrr' +
    'koklmllnmmppooqn' +
    'qrqqrrrrrsrrrrrq' +
    'u',
  (digit) => Number.parseInt(digit, 36),
);

const eos = 256;
/** EOS is all ones. */
const eosLength = 30;

/**
 * The code as a tree: the children of node n are at 2n (a zero follows) and 2n + 1 (a one); the root is 0. A child that
 * is a symbol is stored as its complement, a negative number.
 *
 * Nodes 1 to 7 are those after one to seven ones: where a string may end, its last bits being padding.
 */
function codeTree(): Int16Array {
  const tree = new Int16Array(2 * 256);
  let nodes = 1;
  const walk = (code: number, length: number): number => {
    let node = 0;
    for (let bit = length - 1; bit >= 0; bit--) {
      const child = 2 * node + ((code >> bit) & 1);
      if (tree[child] === 0) tree[child] = nodes++;
      node = tree[child] as number;
    }
    return node;
  };
  walk(0x7f, 7);
  let code = 0;
  for (let length = 1; length <= eosLength; length++) {
    code <<= 1;
    for (let symbol = 0; symbol <= eos; symbol++) {
      if (codeLengths[symbol] !== length) continue;
      tree[2 * walk(code >> 1, length - 1) + (code & 1)] = ~symbol;
      code++;
    }
  }
  return tree;
}

const lastEnd = 7;

/*
 * A step says what some bits do at a node: which symbols they complete, and which node they lead to, as
 * node << 24 | number of symbols << 16 | second symbol << 8 | first symbol. A byte completes two codes at most, so that
 * a third symbol can stand for EOS.
 */
const reachedEos = 3;

/** The steps of single bits, at node << 1 | bit. */
function bitSteps(tree: Int16Array): Int32Array {
  return Int32Array.from(tree, (child) => {
    if (child >= 0) return child << 24;
    return ~child === eos ? reachedEos << 16 : (1 << 16) | ~child;
  });
}

/** The steps of twice as many bits, at node << (2 * bits) | those bits. */
function twoSteps(steps: Int32Array, bits: number): Int32Array {
  const values = 1 << bits;
  const joined = new Int32Array(256 * values * values);
  let place = 0;
  for (let start = 0; start < 256 * values; start++) {
    const first = steps[start] as number;
    const found = (first >> 16) & 3;
    const from = (first >>> 24) << bits;
    for (let value = 0; value < values; value++) {
      const second = steps[from | value] as number;
      const foundThen = (second >> 16) & 3;
      joined[place++] =
        found === reachedEos || foundThen === reachedEos
          ? reachedEos << 16
          : (second & 0xff000000) | ((found + foundThen) << 16) | ((second & 0xffff) << (8 * found)) | (first & 0xffff);
    }
  }
  return joined;
}

/**
 * The steps of whole bytes, at node << 8 | byte: 256 KiB, of which text uses a small part. Made with the first coded string,
 * since making them takes milliseconds, and a process that carries no HTTP/2 never needs them.
 */
let byteSteps: Int32Array | null = null;

function stepsOfBytes(): Int32Array {
  byteSteps ??= twoSteps(twoSteps(twoSteps(bitSteps(codeTree()), 1), 2), 4);
  return byteSteps;
}

/** How many bytes a coded string can become at most: no code is shorter than five bits. */
export function decodedBound(codedBytes: number): number {
  return Math.floor((codedBytes * 8) / 5);
}

/**
 * Decodes bytes[from, to) into `out`, which has room for `decodedBound(to - from)` bytes.
 *
 * @returns the number of decoded bytes; -1 for EOS in the string and for padding that is not the beginning of EOS or is
 * a whole byte or more.
 */
export function decodeHuffman(bytes: Uint8Array, from: number, to: number, out: Uint8Array): number {
  const steps = stepsOfBytes();
  let node = 0;
  let length = 0;
  for (let at = from; at < to; at++) {
    const step = steps[(node << 8) | (bytes[at] as number)] as number;
    const found = (step >> 16) & 3;
    // Written in any case, and overwritten where no symbol was completed: cheaper than to ask.
    out[length] = step;
    if (found > 1) {
      if (found === reachedEos) return -1;
      out[length + 1] = step >> 8;
    }
    length += found;
    node = step >>> 24;
  }
  return node <= lastEnd ? length : -1;
}
