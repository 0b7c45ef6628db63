import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { once } from 'node:events';
import http from 'node:http';
import { createRequire } from 'node:module';
import net from 'node:net';
import tls from 'node:tls';
import t from 'tap';
import { listen } from '../../../lib/proxy/accept/listener.ts';
import { queuedBytes } from '../../../lib/proxy/node-handles.ts';
import { checkNode, latin1Slice, takeFeed } from '../../../lib/proxy/node-internals.ts';
import {
  checkTls,
  feedTls,
  leaveOutListeners,
  renewListeners,
  verifyErrorOf,
} from '../../../lib/proxy/tls/node-tls.ts';
import { testCertificate } from '../../support/certificates.ts';

/** The class of all handles of TCP sockets and listeners. */
const handleClass: object = (() => {
  const socket = net.connect({ host: '127.0.0.1', port: 9 });
  const { _handle } = socket as unknown as { readonly _handle: object };
  socket.destroy();
  return Object.getPrototypeOf(_handle);
})();

const httpCommon = createRequire(import.meta.url)('node:_http_common') as {
  readonly HTTPParser: { prototype: object };
};
const { HTTPParser: parserClass } = httpCommon;

/** As if Node had it no longer, or something else in its place, until the result is called. */
function without(holder: object, name: string, value?: unknown): () => void {
  const own = Object.getOwnPropertyDescriptor(holder, name);
  Object.defineProperty(holder, name, { value, configurable: true, writable: true });
  return () => {
    Reflect.deleteProperty(holder, name);
    if (own !== undefined) Object.defineProperty(holder, name, own);
  };
}

function check(redirected = true, secured = true): { readonly warned: string[]; readonly thrown: unknown } {
  const warned: string[] = [];
  try {
    checkNode({ redirected, secured }, (fields, message) => warned.push(`${message} ${JSON.stringify(fields)}`));
    return { warned, thrown: null };
  } catch (thrown) {
    return { warned, thrown };
  }
}

t.test('this Node has all of it, and that is found out at once', async (t) => {
  t.same(check(), { warned: [], thrown: null });
  const begin = process.threadCpuUsage();
  for (let i = 0; i < 20; i++) check();
  const { user, system } = process.threadCpuUsage(begin);
  t.ok((user + system) / 1000 / 20 < 5, 'milliseconds for one look');
});

t.test('no socket is made for it, which takes four fifths of the time in a new process', async (t) => {
  let made = 0;
  const count = (): void => {
    made++;
  };
  subscribe('net.client.socket', count);
  check();
  t.equal(made, 0);
  const restore = without(net, '_createServerHandle');
  check();
  restore();
  t.equal(made, 1, 'but where there is no other way');
  unsubscribe('net.client.socket', count);
});

const { _destroy } = net.Socket.prototype;
function destroyOtherwise(this: net.Socket, error: Error | null, done: (error?: Error | null) => void): void {
  _destroy.call(this, error, done);
}

/** Methods whose source shows an interface, and the name of that. */
const shownAs: ReadonlyMap<string, string> = new Map([
  ['_destroy', 'resetAndClosing'],
  ['connect', '_handle'],
  ['close', '_handle'],
  ['_wrapHandle', '_parent'],
]);

t.test('what is gone is named, with the version of Node, and missed or done without', async (t) => {
  const response = http.ServerResponse.prototype;
  const linux = process.platform === 'linux';
  const rows: readonly (readonly [
    holder: object,
    name: string,
    fate: 'refused' | 'warned' | 'nothing',
    redirected?: boolean,
    secured?: boolean,
  ])[] = [
    [handleClass, 'fd', 'refused'],
    [handleClass, 'fd', 'nothing', false],
    [response, 'assignSocket', 'refused', false],
    [response, 'detachSocket', 'refused', false],
    [handleClass, 'writeQueueSize', 'warned'],
    [handleClass, 'readStart', 'warned'],
    [handleClass, 'readStop', 'warned'],
    [handleClass, 'useUserBuffer', 'warned'],
    [handleClass, 'writeBuffer', 'warned'],
    [handleClass, 'writeLatin1String', 'warned'],
    [handleClass, 'setNoDelay', linux ? 'warned' : 'nothing'],
    [handleClass, 'setKeepAlive', linux ? 'warned' : 'nothing'],
    [handleClass, 'open', linux ? 'warned' : 'nothing'],
    [tls.TLSSocket.prototype, '_wrapHandle', 'warned'],
    [tls.TLSSocket.prototype, '_wrapHandle', 'nothing', true, false],
    [net.Socket.prototype, '_destroy', 'warned'],
    [net.Socket.prototype, 'connect', 'refused'],
    [net.Server.prototype, 'close', 'refused'],
    // Only the look itself is then slower.
    [net, '_createServerHandle', 'nothing'],
    [Buffer.prototype, 'latin1Slice', 'warned'],
    [parserClass.prototype, 'consume', 'warned'],
    [parserClass.prototype, 'getCurrentBuffer', 'warned'],
    [parserClass.prototype, 'execute', 'warned'],
    [httpCommon, 'HTTPParser', 'warned'],
  ];
  for (const [holder, name, fate, redirected = true, secured = true] of rows) {
    const other = name === '_destroy' ? destroyOtherwise : undefined;
    const restore = without(holder, name, other);
    const { warned, thrown } = check(redirected, secured);
    restore();
    const shown = shownAs.get(name) ?? name;
    const what = `${name}, ${redirected ? '' : 'not '}redirected`;
    t.equal(warned.length, fate === 'warned' ? 1 : 0, what);
    if (fate === 'warned') t.match(warned[0], new RegExp(`is gone: .*${process.version}.*"missing":".*${shown}`), what);
    if (fate !== 'refused') t.equal(thrown, null, what);
    else
      t.match(thrown, {
        code: 'ERR_SALLYPORT_NODE',
        message: new RegExp(`^Node ${process.version} .*${shown}.*: run`),
      });
  }
  t.same(check(), { warned: [], thrown: null }, 'all is as it was');
});

t.test('without the options of a listener each connection is asked', async (t) => {
  const asked: string[] = [];
  const restore = without(handleClass, 'setKeepAlive');
  const accepted = Promise.withResolvers<net.Socket>();
  const listener = await listen({
    at: { host: '127.0.0.1', port: 0 },
    isAlone: true,
    onConnection: ({ socket }) => accepted.resolve(socket),
    onError: (error) => t.fail(error.message),
  });
  restore();
  const { setNoDelay, setKeepAlive } = net.Socket.prototype;
  Object.assign(net.Socket.prototype, {
    setNoDelay(this: net.Socket, on: boolean) {
      asked.push(`noDelay ${on}`);
      return setNoDelay.call(this, on);
    },
    setKeepAlive(this: net.Socket, on: boolean, delayMs: number) {
      asked.push(`keepAlive ${on} ${delayMs}`);
      return setKeepAlive.call(this, on, delayMs);
    },
  });
  const client = net.connect(listener.address.port, '127.0.0.1');
  const socket = await accepted.promise;
  Object.assign(net.Socket.prototype, { setNoDelay, setKeepAlive });
  t.same(asked, process.platform === 'linux' ? ['noDelay true', 'keepAlive true 10000'] : []);
  client.destroy();
  socket.destroy();
  await listener.close();
});

t.test('what a socket has queued: nothing where it has no handle, and TLS sockets have the same', async (t) => {
  t.equal(queuedBytes(new net.Socket()), 0);
  const raw = net.connect({ host: '127.0.0.1', port: 9 });
  const secure = new tls.TLSSocket(raw);
  const { _handle } = secure as unknown as { readonly _handle: { readonly writeQueueSize: unknown } };
  t.type(_handle.writeQueueSize, 'number');
  t.equal(queuedBytes(secure), 0);
  secure.on('error', () => {}).destroy();
  raw.on('error', () => {}).destroy();
});

t.test('listeners of TLS are those that there were, in their order', async (t) => {
  const raw = new net.Socket();
  const secure = new tls.TLSSocket(raw, { isServer: true, secureContext: tls.createSecureContext() });
  const heard: string[] = [];
  secure.on('session', () => heard.push('session'));
  // As `WatchedReads` does before.
  secure.on('keylog', () => {});
  const before = new Map(secure.eventNames().map((type) => [type, secure.rawListeners(type)]));
  leaveOutListeners(secure, raw);
  for (const [type, listeners] of before) {
    t.same(secure.rawListeners(type), listeners, String(type));
  }
  t.same([secure.listenerCount('newListener'), raw.listenerCount('connect')], [0, 0]);
  secure.once('secure', () => heard.push('once'));
  for (const type of ['secure', 'secure', 'session']) secure.emit(type);
  t.same(heard, ['once', 'session']);
  secure.once('close', () => heard.push('first')).once('close', () => heard.push('second'));
  const closing = secure.rawListeners('close');
  renewListeners(secure);
  t.same(secure.rawListeners('close'), closing);
  const closed = once(secure, 'close');
  secure.destroy();
  await closed;
  t.same(heard.slice(2), ['first', 'second']);
});

t.test('what TLS takes that ends here is looked for', async (t) => {
  const own = testCertificate({ dnsNames: ['web.shop'] });
  const secureContext = tls.createSecureContext({ cert: own.certificatePem, key: own.keyPem });
  const secure = new tls.TLSSocket(new net.Socket(), { isServer: true, secureContext });
  const { _handle } = secure as unknown as { readonly _handle: object };
  const tlsHandle: object = Object.getPrototypeOf(_handle);
  t.doesNotThrow(() => checkTls(secure));
  const silent = (): void => {};
  const rows: readonly (readonly [holder: object, name: string, instead: unknown, said: RegExp])[] = [
    [tlsHandle, 'verifyError', undefined, /_handle\.verifyError/],
    [tlsHandle, 'receive', undefined, /_handle\.receive/],
    [tls.TLSSocket.prototype, '_releaseControl', undefined, /_releaseControl/],
    [tls.TLSSocket.prototype, '_finishInit', silent, /event 'secure'/],
  ];
  for (const [holder, name, instead, said] of rows) {
    const restore = without(holder, name, instead);
    t.throws(() => checkTls(secure), { code: 'ERR_SALLYPORT_NODE', message: said }, name);
    restore();
  }
  t.doesNotThrow(() => checkTls(secure), 'all is as it was');
  // Only a null that OpenSSL has said is a certificate that verifies.
  for (const [answer, fault] of [
    [null, null],
    [undefined, 'UNSPECIFIED'],
    [{}, 'UNSPECIFIED'],
    [{ code: 'CERT_HAS_EXPIRED' }, 'CERT_HAS_EXPIRED'],
  ] as const) {
    const restore = without(tlsHandle, 'verifyError', () => answer);
    t.equal(verifyErrorOf(secure), fault, String(fault));
    restore();
  }
  const restore = without(tlsHandle, 'verifyError');
  t.equal(verifyErrorOf(secure), 'UNSPECIFIED', 'nobody who could say');
  restore();
  // The first buffer is never full: that would make a second, 16 times as large, for as long as the connection lives.
  const fed: number[] = [];
  const restoreReceive = without(tlsHandle, 'receive', (bytes: Buffer) => void fed.push(bytes.length));
  for (const length of [0, 1, 1023, 1024, 5000]) feedTls(secure, Buffer.alloc(length), false);
  restoreReceive();
  t.same(fed, [1, 1023, 1023, 1, 1023, 1023, 1023, 1023, 908]);
  secure.on('error', () => {}).destroy();
  await new Promise((resolve) => secure.once('close', resolve));
  t.equal(verifyErrorOf(secure), 'UNSPECIFIED', 'a socket that is closed');
  t.doesNotThrow(() => feedTls(secure, Buffer.alloc(10), false));
});

t.test('a slice of bytes is what toString says', async (t) => {
  const bytes = Buffer.from(Array.from({ length: 256 }, (_, i) => i));
  t.equal(latin1Slice(bytes, 3, 250), bytes.toString('latin1', 3, 250));
});

t.test('the feed of a server that does not listen to its socket', async (t) => {
  t.throws(() => takeFeed(new net.Socket()), { code: 'ERR_SALLYPORT_NODE', message: /listener for data/ });
});
