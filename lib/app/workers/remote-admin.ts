import { parseIp } from '../../ip.ts';
import { type AdminApp, type AdminRequest, type AdminResponse, maxBodyBytes } from '../../ops/admin-app.ts';
import { adminFields } from '../../ops/admin-callers.ts';
import { notWanted } from '../../proxy/http/application.ts';
import type { PlainAdminRequest, PlainAdminResponse } from './messages.ts';

/** The admin server of the main thread, for what reaches its port through the redirect in another thread. */
export class RemoteAdmin implements AdminApp {
  readonly #ask: (asked: number, request: PlainAdminRequest) => void;
  readonly #waiting = new Map<number, (answer: PlainAdminResponse | null) => void>();
  #last = 0;

  constructor(ask: (asked: number, request: PlainAdminRequest) => void) {
    this.#ask = ask;
  }

  async handle(request: AdminRequest): Promise<AdminResponse> {
    const plain = await plainRequest(request);
    const asked = ++this.#last;
    const answer = await new Promise<PlainAdminResponse | null>((resolve) => {
      this.#waiting.set(asked, resolve);
      this.#ask(asked, plain);
    });
    if (answer === null) return { status: 500, headers: [], body: '' };
    const { body } = answer;
    return { ...answer, body: typeof body === 'string' ? body : Buffer.from(body) };
  }

  answered(asked: number, answer: PlainAdminResponse | null): void {
    this.#waiting.get(asked)?.(answer);
    this.#waiting.delete(asked);
  }
}

async function plainRequest(request: AdminRequest): Promise<PlainAdminRequest> {
  const { method, path, query, host, clientIp } = request;
  const hasBody = method !== 'GET' && method !== 'HEAD';
  const body = hasBody ? await request.body(maxBodyBytes).catch(tooLong) : new Uint8Array();
  const headers = new Map(adminFields.map((name) => [name, request.header(name)]));
  return { method, path, query, host, clientIp: clientIp.text, headers, body };
}

/** What is too long is refused by the admin server itself. What policy refuses by now must not get there. */
function tooLong(error: unknown): null {
  if (error === notWanted) throw error;
  return null;
}

/** In the main thread. Null: an address that is none, which no worker sends. */
export async function answerAdmin(admin: AdminApp, plain: PlainAdminRequest): Promise<PlainAdminResponse | null> {
  const clientIp = parseIp(plain.clientIp);
  if (clientIp === undefined) return null;
  const { method, path, query, host, headers, body } = plain;
  return admin.handle({
    method,
    path,
    query,
    host,
    clientIp,
    header: (name) => headers.get(name) ?? [],
    async body() {
      if (body === null) throw new Error('request body too large');
      return Buffer.from(body);
    },
  });
}
