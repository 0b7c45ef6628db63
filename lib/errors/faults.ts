import { commandFaults } from './command-faults.ts';
import { identityFaults } from './identity-faults.ts';
import { logFaults } from './log-faults.ts';
import { settingFaults } from './setting-faults.ts';
import { testFaults } from './test-faults.ts';

/** Every code of a fault outside documents. Only its page and tests read the text; all others import types alone. */
export const faultCatalogue = {
  ...settingFaults,
  ...commandFaults,
  ...testFaults,
  ...identityFaults,
  ...logFaults,
} as const;

type Catalogue = typeof faultCatalogue;

export type FaultCode = keyof Catalogue;
