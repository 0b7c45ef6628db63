"""Python's HTTP servers. Each answers a request that it took with "taken " and what it was told, as JSON."""
import json
import os
import sys
from urllib.parse import unquote

kind, port = sys.argv[1], int(sys.argv[2])


def taken(method, target, path, headers):
    return ("taken " + json.dumps({"method": method, "target": target, "path": path, "headers": headers}) + "\n").encode()


def wsgi(environ, start_response):
    path = environ.get("PATH_INFO", "")
    target = environ.get("RAW_URI") or environ.get("REQUEST_URI") or path
    headers = [[name[5:].lower(), value] for name, value in environ.items() if name.startswith("HTTP_")]
    body = taken(environ.get("REQUEST_METHOD", ""), target, path, headers)
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]


async def asgi(scope, receive, send):
    if scope["type"] == "lifespan":
        while True:
            event = (await receive())["type"]
            await send({"type": event + ".complete"})
            if event == "lifespan.shutdown":
                return
    if scope["type"] != "http":
        return
    headers = [[name.decode("latin-1"), value.decode("latin-1")] for name, value in scope["headers"]]
    body = taken(scope["method"], scope.get("raw_path", b"").decode("latin-1"), scope["path"], headers)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", str(len(body)).encode())]})
    await send({"type": "http.response.body", "body": body})


if kind == "http.server":
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self):
            path = unquote(self.path.split("?", 1)[0].split("#", 1)[0])
            body = taken(self.command, self.path, path, [[n.lower(), v] for n, v in self.headers.items()])
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = do_HEAD = answer

        def log_message(self, *_):
            pass

    ThreadingHTTPServer.request_queue_size = 256
    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
elif kind == "wsgiref":
    from socketserver import ThreadingMixIn
    from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

    class Quiet(WSGIRequestHandler):
        def log_message(self, *_):
            pass

    class Server(ThreadingMixIn, WSGIServer):
        daemon_threads = True
        request_queue_size = 256

    server = Server(("127.0.0.1", port), Quiet)
    server.set_app(wsgi)
    server.serve_forever()
elif kind == "waitress":
    from waitress import serve

    serve(wsgi, host="127.0.0.1", port=port, threads=8, _quiet=True)
elif kind == "cheroot":
    from cheroot.wsgi import Server

    Server(("127.0.0.1", port), wsgi).start()
elif kind == "gunicorn":
    from gunicorn.app.base import BaseApplication

    class App(BaseApplication):
        def load_config(self):
            self.cfg.set("bind", f"127.0.0.1:{port}")
            self.cfg.set("worker_class", "gthread")
            self.cfg.set("threads", 8)
            self.cfg.set("loglevel", "critical")

        def load(self):
            return wsgi

    App().run()
elif kind in ("uvicorn-h11", "uvicorn-httptools"):
    import uvicorn

    uvicorn.run(asgi, host="127.0.0.1", port=port, http=kind.split("-")[1], log_level="critical", access_log=False)
elif kind == "tornado":
    import tornado.ioloop
    import tornado.httpserver

    class App:
        def __call__(self, request):
            headers = [[n.lower(), v] for n, v in request.headers.get_all()]
            body = taken(request.method, request.uri, unquote(request.path or ""), headers)
            request.connection.write_headers(
                __import__("tornado.httputil").httputil.ResponseStartLine("HTTP/1.1", 200, "OK"),
                __import__("tornado.httputil").httputil.HTTPHeaders({"Content-Length": str(len(body))}),
                body,
            )
            request.connection.finish()

    tornado.httpserver.HTTPServer(App()).listen(port, "127.0.0.1")
    tornado.ioloop.IOLoop.current().start()
elif kind == "twisted":
    from twisted.internet import reactor
    from twisted.web import resource, server

    class Root(resource.Resource):
        isLeaf = True

        def render(self, request):
            headers = [
                [n.decode("latin-1").lower(), v.decode("latin-1")]
                for n, vs in request.requestHeaders.getAllRawHeaders()
                for v in vs
            ]
            target = request.uri.decode("latin-1")
            return taken(request.method.decode("latin-1"), target, unquote(target.split("?")[0]), headers)

    reactor.listenTCP(port, server.Site(Root()), interface="127.0.0.1")
    reactor.run()
else:
    sys.exit(os.EX_USAGE)
