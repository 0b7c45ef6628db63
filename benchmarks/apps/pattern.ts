/** The bulk stream: this block over and over. No two places within one block look alike for long. */
export const block = Buffer.alloc(1024 * 1024, 0);
for (let i = 0; i < block.length; i++) block[i] = (i * 31 + (i >>> 8) * 7 + (i >>> 16)) & 0xff;

/** The HTTP app's large answer: the same, at this path. */
export const download = { path: '/download', bytes: 16 * block.length } as const;

/** What the client of the bulk stream sends: how many bytes it wants. */
export const orderLength = 8;
