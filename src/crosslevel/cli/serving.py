"""A folder of reports shown on this machine, and to nobody else.

Only files are given out that the list of the folder names: a name in an address is looked up there and never becomes a path. So
there is no way out of the folder, by dots, by slashes or by links.
"""

from __future__ import annotations

import html
import json
import os
import stat
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from crosslevel.errors import FileError, InputError

__all__ = ["DEFAULT_PORT", "make_server", "reports_of", "serve_folder"]

DEFAULT_PORT = 8350
HOST = "127.0.0.1"
POLICY = "default-src 'none'; style-src 'unsafe-inline'"
REPORT_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
"""For a page that is no report of ours too: it reads no other page of the folder and tells nobody."""
STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:50rem;padding:0 1rem}"
    "li{margin:.3rem 0}:root{color-scheme:light dark}"
)


def reports_of(folder: Path) -> dict[str, os.stat_result]:
    """List the reports of a folder: plain ``.html`` files in it, no links and no hidden ones.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as name:
    ...     _ = (Path(name) / "a.html").write_text("x")
    ...     _ = (Path(name) / "b.txt").write_text("x")
    ...     list(reports_of(Path(name)))
    ['a.html']
    """
    found = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(".") or not entry.name.casefold().endswith(".html"):
                continue
            facts = entry.stat(follow_symlinks=False)
            if stat.S_ISREG(facts.st_mode):
                found[entry.name] = facts
    return dict(sorted(found.items(), key=lambda item: item[0].casefold()))


def _listing(folder: Path) -> bytes:
    found = reports_of(folder)
    lines = [
        f'<li><a href="{html.escape(quote(name, safe="", errors="surrogateescape"))}">'
        f"{html.escape(name.encode('utf-8', 'replace').decode())}</a> "
        f"({facts.st_size / 1e6:.1f} MB, {time.strftime('%Y-%m-%d %H:%M', time.localtime(facts.st_mtime))})</li>"
        for name, facts in found.items()
    ]
    body = f"<ul>{''.join(lines)}</ul>" if lines else "<p>There is no report in this folder yet.</p>"
    title = html.escape(str(folder).encode("utf-8", "replace").decode())
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Reports in {title}</title><style>{STYLE}</style></head>'
        f"<body><h1>Reports in {title}</h1>{body}</body></html>"
    ).encode()


def _read(folder: Path, name: str) -> bytes | None:
    """Read a report that the folder lists; a link put there meanwhile is not followed."""
    if name not in reports_of(folder):
        return None
    try:
        handle = os.open(folder / name, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    except OSError:
        return None
    with os.fdopen(handle, "rb") as file:
        return file.read()


def make_server(folder: Path, port: int) -> ThreadingHTTPServer:
    """Make the server, on 127.0.0.1 only; port 0 takes any that is free."""
    if not folder.is_dir():
        raise FileError(f"--serve {folder} is no folder; name the folder of the reports.")
    if not 0 <= port <= 65535:
        raise InputError(f"--port {port} is no port; pass a number from 0 (any that is free) to 65535.")
    folder = folder.resolve()

    class Handler(BaseHTTPRequestHandler):
        """Answer GET and HEAD for the list and for what it names."""

        server_version = "crosslevel"
        sys_version = ""

        def do_GET(self) -> None:
            """Answer with a body."""
            self._answer(body=True)

        def do_HEAD(self) -> None:
            """Answer without."""
            self._answer(body=False)

        def _answer(self, body: bool) -> None:
            # a page elsewhere could point a name of its own at this machine and read the answers
            own = {f"{host}:{self.connection.getsockname()[1]}" for host in (HOST, "localhost")}
            if self.headers.get("Host", "") not in own:
                self.send_error(HTTPStatus.MISDIRECTED_REQUEST, "This server is for this machine only")
                return
            path = urlsplit(self.path).path
            listed = path == "/"
            content = (
                _listing(folder) if listed else _read(folder, unquote(path.removeprefix("/"), errors="surrogateescape"))
            )
            if content is None:
                self.send_error(HTTPStatus.NOT_FOUND, "There is no such report in this folder")
                return
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Cache-Control", "no-store")
            self.send_header("X-Content-Type-Options", "nosniff")
            self.send_header("Referrer-Policy", "no-referrer")
            self.send_header("Content-Security-Policy", POLICY if listed else REPORT_POLICY)
            self.end_headers()
            if body:
                self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing of every request."""

    try:
        server = ThreadingHTTPServer((HOST, port), Handler)
    except OSError as error:
        raise InputError(
            f"--port {port} cannot be had ({error.strerror}); pass another, or 0 for any that is free."
        ) from error
    server.daemon_threads = True
    return server


def serve_folder(folder: Path, port: int, as_json: bool) -> None:
    """Serve until Ctrl-C, and say where."""
    with make_server(folder, port) as server:
        address = f"http://{HOST}:{server.server_address[1]}/"
        said = json.dumps({"address": address}) if as_json else f"Reports of {folder}: {address} (Ctrl-C ends)"
        try:
            print(said, flush=True)
            server.serve_forever(poll_interval=0.2)
        except KeyboardInterrupt:
            if not as_json:
                print("\nStopped.")
