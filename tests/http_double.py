"""A double of an HTTP server, which answers every request by a function."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Answer = Callable[[BaseHTTPRequestHandler], tuple[int, str | bytes]]
"""Returns the status and the content for a request."""


@contextmanager
def answering(answer: Answer) -> Iterator[str]:
    """Yield the address of a server that answers so."""

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            status, content = answer(self)
            payload = content.encode() if isinstance(content, str) else content
            self.send_response(status)
            self.send_header("Content-Length", str(len(payload)))
            self.end_headers()
            with suppress(ConnectionError):  # the other side did not wait
                self.wfile.write(payload)

        do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = _answer  # noqa: N815

        def log_message(self, format: str, *args: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
