/** Node's own server. Answers a request that it took with "taken " and what it was told, as JSON. */
import { createServer } from 'node:http';

const server = createServer((request, response) => {
  const { method, url, rawHeaders } = request;
  const headers = [];
  for (let at = 0; at < rawHeaders.length; at += 2) headers.push([rawHeaders[at].toLowerCase(), rawHeaders[at + 1]]);
  let path = url;
  try {
    path = decodeURIComponent(new URL(url, 'http://base').pathname);
  } catch {
    // Not to be resolved: the app would see it as it came.
  }
  response.end(`taken ${JSON.stringify({ method, target: url, path, headers })}\n`);
});
server.listen(Number(process.argv[2]), '127.0.0.1');
