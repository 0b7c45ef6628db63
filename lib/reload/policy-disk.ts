import type { ComparableLoad, LoadRequest } from './load.ts';
import { LoadThread } from './load-thread.ts';
import type { Look } from './look.ts';
import { type DiskOptions, filesOnDisk, type World } from './world.ts';

/** The files of a policy and the time, as its source sees them; tests have a world of their own. */
export interface PolicyWorld extends World {
  /** Rejects with `Abandoned` where that happens. */
  load(request: Omit<LoadRequest, 'paths'>, knownDigest: string | undefined): Promise<ComparableLoad | 'unchanged'>;
  /** Ends a load under way. */
  abandon(): void;
}

/** A load was ended, because what it read had changed. */
export class Abandoned extends Error {}

export function policyOnDisk(options: DiskOptions): PolicyWorld {
  const thread = new LoadThread();
  const files = filesOnDisk(options);
  let abandoned = false;
  return {
    ...files,
    async load(request, knownDigest) {
      abandoned = false;
      try {
        return await thread.load({ ...request, paths: options.paths }, knownDigest);
      } catch (error) {
        throw abandoned ? new Abandoned() : error;
      }
    },
    abandon() {
      abandoned = true;
      void thread.stop();
    },
    async stop() {
      await Promise.all([files.stop(), thread.stop()]);
    },
  };
}

const noLook: Look = { files: new Map(), generation: '', stamp: '', takenMs: 0 };
const noDocuments: ComparableLoad = {
  ...{ documents: [], problems: [], allowed: [], holding: [] },
  ...{ broken: false, digests: new Map(), digest: '', look: null },
};

/** Where no path is given: the empty set of documents, whole and for good. */
export function noPolicy(): PolicyWorld {
  return {
    ...filesOnDisk({ paths: [], onWatchError() {} }),
    look: async () => noLook,
    load: async (_request, knownDigest) => (knownDigest === noDocuments.digest ? 'unchanged' : noDocuments),
    abandon() {},
  };
}
