import type { Socket } from 'node:net';

/** undici's code for a fault of a socket; `systemErrorCode` looks for the cause behind it. */
const socketFault = 'UND_ERR_SOCKET';

/**
 * undici takes a reset for the end of a response that has no length, as it is the end of nothing: the client would get half
 * of it for the whole (RFC 9112 8). By another name it fails the request.
 *
 * @param socket a connection to the app that undici has not used yet.
 */
export function withResets(socket: Socket): Socket {
  const destroy = socket.destroy;
  const destroyByName = (error?: NodeJS.ErrnoException): Socket => {
    if (error?.code !== 'ECONNRESET') return destroy.call(socket, error);
    const { message, syscall } = error;
    return destroy.call(socket, Object.assign(new Error(message, { cause: error }), { code: socketFault, syscall }));
  };
  socket.destroy = destroyByName;
  return socket;
}
