import t from 'tap';
import { serverKinds, startServer, takenBy, unavailable } from './http-servers.ts';
import { latin1 } from './raw-http.ts';
import { patience } from './until.ts';

// What later tests conclude from silence is worth nothing where a server would not have answered anyway.
t.test('each server tells what it took', { timeout: 900_000 }, async (t) => {
  for (const kind of serverKinds) {
    t.test(kind.name, async (t) => {
      const absent = await unavailable(t, kind);
      if (absent !== null) {
        t.pass('absent', { skip: absent });
        return;
      }
      const server = await startServer(t, kind);
      const request = 'POST /some%20path?a=b HTTP/1.1\r\nHost: web\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}';
      // Each ends the connection behind its answer.
      const answered = { quietMs: 20_000 * patience() };
      const [taken, ...more] = await takenBy(server, [latin1(request)], answered);
      t.match(taken, { method: 'POST', target: /^\/some(%20| )path/, path: /^\/some(%20| )path$/ });
      t.same(more, []);
      // Waitress calls its app for whatever ends in an empty line, without method and path.
      const takesNonsense = kind.name === 'waitress';
      const nonsense = await takenBy(server, [latin1('nonsense\r\n\r\n')], takesNonsense ? answered : { quietMs: 300 });
      t.same(
        nonsense.map(({ method, path }) => method + path),
        takesNonsense ? [''] : [],
      );
      const cut = ['GET /cut HTT', 'P/1.1\r\nHost: web\r\nConnection: close\r\n\r\n'].map(latin1);
      t.match(await takenBy(server, cut, answered), [{ path: '/cut' }], 'a request in two pieces');
    });
  }
});
