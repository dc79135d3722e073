"""A server of pages for this machine only.

It listens on 127.0.0.1. Its address contains a random token, so other users of the machine cannot read the pages. The
token is in no command line, because all users can read these. The server answers only requests for this address, so a
page from the internet cannot read them through a name that it controls.
"""

import errno
import hmac
import json
import os
import secrets
import socket
import sys
import tempfile
import webbrowser
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from html import escape
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from penstock.errors import OutputError, PenstockError, naming
from penstock.stopping import raised

HOST = "127.0.0.1"
FILES = Path(__file__).parent
LARGEST = 1 << 16
"""The largest body of a request [B]."""
IDLE_S = 60.0
"""The time after which the server closes a connection without requests [s]."""

TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".json": "application/json"}

HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
"""The browser loads nothing from other servers, and other pages load nothing from this one."""


class Query:
    """The parameters of a request. A missing or wrong parameter is an error with its name."""

    def __init__(self, values: Mapping[str, list[str]]) -> None:
        """Take the values of each name."""
        self._values = values

    def every(self, name: str) -> list[str]:
        """All values of a parameter; none if it is missing."""
        return self._values.get(name, [])

    def one(self, name: str) -> str:
        """The only value of a parameter."""
        values = self.every(name)
        if len(values) != 1:
            raise PenstockError(f"the request needs one value of {name!r}")
        return values[0]

    def number(self, name: str) -> int:
        """The only value of a parameter, a whole number."""
        text = self.one(name)
        if not (text.isascii() and text.isdecimal() and len(text) < 20):
            raise PenstockError(f"the value of {name!r} must be a whole number, not {text!r}")
        return int(text)


class Page(NamedTuple):
    """The content of a server: files, functions that answer questions, and functions that act."""

    files: Mapping[str, Path]
    """The files of the page by address; the address `""` is the page itself."""
    asks: Mapping[str, Callable[[Query], Any]]
    """Answers to GET, which become JSON."""
    acts: Mapping[str, Callable[[Any], Any]] = {}
    """Answers to POST, with the JSON of its body."""


class Server(ThreadingHTTPServer):
    """The server of one page."""

    daemon_threads = True
    # A port that another process listens on must be refused.
    allow_reuse_address = False

    def __init__(self, page: Page, port: int = 0) -> None:
        """Listen on `port`, or on any free port.

        Raises:
            OutputError: if the port is in use or not permitted.
        """
        self.page = page
        self.token = secrets.token_urlsafe(16)
        try:
            super().__init__((HOST, port), _Handler)
        except OSError as error:
            raise OutputError(
                f"cannot listen on port {port}: {(error.strerror or str(error)).lower()}; choose another --port, or "
                "leave it out for a free one"
            ) from error

    def server_bind(self) -> None:
        """Bind the socket. A port in TIME_WAIT is free."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        super().server_bind()

    @property
    def names(self) -> set[str]:
        """The names by which a browser on this machine may address the server."""
        return {f"{HOST}:{self.server_port}", f"localhost:{self.server_port}"}

    @property
    def address(self) -> str:
        """The address of the page."""
        return f"http://{HOST}:{self.server_port}/{self.token}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore browsers that leave early; report other errors."""
        error = sys.exception()
        # Ctrl-C closes the socket of a request whose thread is about to start.
        is_closed = isinstance(error, OSError) and error.errno == errno.EBADF
        if not is_closed and not isinstance(error, ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: Server
    server_version = "penstock"
    sys_version = ""
    protocol_version = "HTTP/1.1"
    timeout = IDLE_S

    def do_GET(self) -> None:
        path = self._inside()
        if path is None:
            return
        name, _, query = path.partition("?")
        page = self.server.page
        if file := page.files.get(name):
            self._send(HTTPStatus.OK, file.read_bytes(), TYPES[file.suffix])
        elif ask := page.asks.get(name):
            self._answer(lambda: ask(Query(parse_qs(query, keep_blank_values=True))))
        else:
            self._refuse(HTTPStatus.NOT_FOUND)

    def do_POST(self) -> None:
        path = self._inside()
        if path is None:
            return
        act = self.server.page.acts.get(path)
        length = self.headers.get("Content-Length", "")
        own = urlsplit(self.headers.get("Origin", "")).netloc in self.server.names
        if act is None:
            self._refuse(HTTPStatus.NOT_FOUND)
        elif not own or self.headers.get_content_type() != TYPES[".json"]:
            self._refuse(HTTPStatus.FORBIDDEN)
        elif not length.isdecimal() or len(length) > 9 or int(length) > LARGEST:
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        else:
            body = self.rfile.read(int(length))
            self._answer(lambda: act(_parsed(body)))

    def _inside(self) -> str | None:
        """The path below the token; None after a refusal."""
        token, slash, path = self.path.removeprefix("/").partition("/")
        right = hmac.compare_digest(token.encode(), self.server.token.encode())
        if self.headers.get("Host") not in self.server.names or not right or not slash:
            self._refuse(HTTPStatus.FORBIDDEN)
            return None
        return path

    def _answer(self, make: Callable[[], Any]) -> None:
        try:
            status, body = HTTPStatus.OK, json.dumps(make(), allow_nan=False)
        except PenstockError as error:
            status, body = HTTPStatus.BAD_REQUEST, json.dumps({"error": str(error)})
        except Exception as error:
            message = f"penstock has a bug, please report it: {type(error).__name__}: {error}"
            status, body = HTTPStatus.INTERNAL_SERVER_ERROR, json.dumps({"error": " ".join(message.split())})
        self._send(status, body.encode(), TYPES[".json"])

    def _refuse(self, status: HTTPStatus) -> None:
        self.close_connection = True
        self._send(status, f"{status.phrase}\n".encode(), "text/plain")

    def _send(self, status: HTTPStatus, body: bytes, kind: str) -> None:
        self.send_response(status)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the name in the base class)
        """Log nothing: the address contains the token."""


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise PenstockError("the body of the request is not JSON") from error


def serve(page: Page, port: int, what: str, *, browser: bool) -> None:
    """Print the address of a page, open it in a browser of the desktop, and answer requests until Ctrl-C."""
    with raised(), Server(page, port) as server, ExitStack() as at_end:
        try:
            print(f"{what}: {server.address}\nto stop: Ctrl-C", flush=True)
            if browser and (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
                webbrowser.open(at_end.enter_context(_redirect(server.address)))
            server.serve_forever(poll_interval=0.1)
        except KeyboardInterrupt:
            # Ctrl-C is the usual end of a server, not an error.
            print()


@contextmanager
def _redirect(address: str) -> Iterator[str]:
    """The address of a file that leads a browser to `address`, and that only this user can read.

    The command line of the browser names this file. It must not contain the token, because all users of the machine can
    read command lines.
    """
    with naming(tempfile.gettempdir(), "write into"):
        # The mode of a temporary file is 0600.
        file = tempfile.NamedTemporaryFile("w", prefix="penstock-", suffix=".html", encoding="utf-8")  # noqa: SIM115
    with file:
        file.write(
            f'<!doctype html>\n<title>Penstock</title>\n<meta http-equiv="refresh" content="0; {escape(address)}">\n'
        )
        file.flush()
        yield Path(file.name).as_uri()


def files(page: str, *scripts: str) -> dict[str, Path]:
    """The addresses of a page, its scripts, and the files that all pages have."""
    shared = ["style.css", "chart.js", "vendor/uPlot.iife.min.js", "vendor/uPlot.min.css"]
    return {"": FILES / page, **{Path(name).name: FILES / name for name in (*shared, *scripts)}}
