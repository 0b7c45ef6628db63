import { createRequire } from 'node:module';

/** What a TLS context begins with (config(5), SSL_CONF_cmd(3)). */
const defaults = `
sallyport = modules
[modules]
ssl_conf = contexts
[contexts]
system_default = defaults
[defaults]
NumTickets = 0
`;

let done = false;

/**
 * No session is resumed, so none is offered: SSL_OP_NO_TICKET alone has OpenSSL send two tickets after each TLS 1.3
 * handshake all the same, which name a session that nobody keeps. They are 160 bytes and a call of the system on our side,
 * and on the client's a ticket that it comes back with, for nothing. Node has no option for their number, so OpenSSL's own
 * default is set, for the whole process; a configuration of the operator's (OPENSSL_CONF, --openssl-config) is left alone.
 *
 * @throws when koffi cannot be loaded, or OpenSSL's functions are not found.
 */
export function offerNoTickets(): void {
  if (done || hasConfiguration()) return;
  const koffi = createRequire(import.meta.url)('koffi') as typeof import('koffi');
  const openssl = koffi.load(null);
  const read = openssl.func('void *BIO_new_mem_buf(const char *bytes, int length)');
  const freeBytes = openssl.func('int BIO_free(void *bytes)');
  const create = openssl.func('void *NCONF_new(void *method)');
  const load = openssl.func('int NCONF_load_bio(void *conf, void *bytes, void *line)');
  const apply = openssl.func('int CONF_modules_load(void *conf, const char *name, unsigned long flags)');
  const free = openssl.func('void NCONF_free(void *conf)');
  const bytes: unknown = read(defaults, defaults.length);
  const conf: unknown = create(null);
  const taken = load(conf, bytes, null) === 1 && apply(conf, 'sallyport', 0) === 1;
  free(conf);
  freeBytes(bytes);
  if (!taken) throw new Error('OpenSSL takes no number of tickets');
  done = true;
}

function hasConfiguration(): boolean {
  const { OPENSSL_CONF: file = '', NODE_OPTIONS: options = '' } = process.env;
  return file !== '' || [...process.execArgv, options].some((each) => each.includes('--openssl-'));
}
