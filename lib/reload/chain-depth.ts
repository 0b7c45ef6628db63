import { createRequire } from 'node:module';

/** Intermediate certificates between a client's certificate and a trust anchor. */
export const mostIntermediates = 3;

/** X509_V_FLAG_TRUSTED_FIRST, which OpenSSL's own defaults have. */
const trustedFirst = 0x8000;

let bounded = false;

/**
 * Bounds what a client's certificate chain may cost. OpenSSL verifies every signature of a chain, of any client and
 * wherever it ends: a hundred certificates that nobody vouches for, in 50 to 100 KB, are up to a second in which nobody
 * else is served. Node has no option for the depth, so OpenSSL's own default is replaced (X509_VERIFY_PARAM_add0_table(3)),
 * for the whole process. A longer chain does not verify.
 *
 * @throws when koffi cannot be loaded, or OpenSSL's functions are not found.
 */
export function boundChains(): void {
  if (bounded) return;
  const koffi = createRequire(import.meta.url)('koffi') as typeof import('koffi');
  const openssl = koffi.load(null);
  const create = openssl.func('void *X509_VERIFY_PARAM_new()');
  const setName = openssl.func('int X509_VERIFY_PARAM_set1_name(void *param, const char *name)');
  const setFlags = openssl.func('int X509_VERIFY_PARAM_set_flags(void *param, unsigned long flags)');
  const setDepth = openssl.func('void X509_VERIFY_PARAM_set_depth(void *param, int depth)');
  const addToTable = openssl.func('int X509_VERIFY_PARAM_add0_table(void *param)');
  const defaults: unknown = create();
  setDepth(defaults, mostIntermediates);
  if (setName(defaults, 'default') !== 1 || setFlags(defaults, trustedFirst) !== 1 || addToTable(defaults) !== 1) {
    throw new Error('OpenSSL takes no bound for the length of certificate chains');
  }
  bounded = true;
}
