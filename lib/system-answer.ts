/**
 * What the system says; null where it cannot be asked. Even to tell an address or a size Node opens a descriptor, and clients
 * may have taken the last: that is no fault of ours, which would be counted, and in the end have the process replaced.
 */
export function systemAnswer<T>(ask: () => T): T | null {
  try {
    return ask();
  } catch {
    return null;
  }
}
