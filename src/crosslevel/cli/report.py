"""``crosslevel report``: saved estimates and models to one HTML page, or a folder of pages shown on this machine.

A folder of reports shown on this machine, and to nobody else.

Only files are given out that the list of the folder names: a name in an address is looked up there and never becomes a path. So
there is no way out of the folder, by dots, by slashes or by links.
"""

from __future__ import annotations

import contextlib
import html
import io
import json
import os
import stat
import tempfile
import time
from collections.abc import Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from crosslevel.cli.job import OUTPUT, Job, quiet
from crosslevel.cli.options import Given, Option
from crosslevel.data.codebook import KINDS, read_labels
from crosslevel.errors import FileError, InputError
from crosslevel.reports import report
from crosslevel.results import Estimates, load

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


EXAMPLES = (
    "crosslevel report run/sex-by-region.crosslevel --out report.html --map regions.geojson --title 'Men and women'",
    "crosslevel report --serve reports/ --port 8350",
)
PAGE = ("results", "out", "title", "map", "labels")
OPTIONS = [
    Option("results", "file", "Estimates (.crosslevel or .json) and models saved by crosslevel.", True, argument=True),
    Option("out", "file", "The HTML file to write; default: report.html."),
    Option("title", help="Heading of the page."),
    Option("map", "file", "GeoJSON or TopoJSON of the places."),
    Option(
        "labels",
        "file",
        'Labels for codes: JSON, {"eth5": {"1": "white"}}; a table with columns variable, code and label; or an SPSS or Stata file.',
    ),
    Option("serve", "file", "Show the reports of this folder in a browser on this machine.", excludes=PAGE),
    Option(
        "reproduce",
        "file",
        "A folder that --bundle wrote: make its results again and compare every byte.",
        excludes=(*PAGE, "serve"),
    ),
    Option("port", "whole", "Port of --serve; 0 takes any free port.", needs=("serve",)),
    *(option for option in OUTPUT if option.name == "as_json"),
]


def run(given: Given, job: Job) -> None:
    """Write the page and say where; or show a folder of pages until Ctrl-C."""
    results, page = given.get("results", ()), given.get("out", Path("report.html"))
    if "serve" in given:
        from crosslevel.cli.report import DEFAULT_PORT, serve_folder

        serve_folder(given["serve"], given.get("port", DEFAULT_PORT), job.as_json)
        return
    if "reproduce" in given:
        _reproduce(given["reproduce"], job)
        return
    if not results:
        raise InputError("name at least one file of saved results, or --serve a folder of reports.")
    polygons = job.read_map("map") if "map" in given else None
    with quiet():
        labels = _labels(given["labels"], job) if "labels" in given else None
        report(named_results(results), page, title=given.get("title"), polygons=polygons, labels=labels)
    print(json.dumps({"report": str(page)}) if job.as_json else f"Report: {page}")


def _reproduce(folder: Path, job: Job) -> None:
    """Run a sealed folder's command on the same inputs, and compare the bytes of all results."""
    from crosslevel.cli.app import run as run_verb
    from crosslevel.reports.sealed import RESULTS, changed_inputs, read_command

    command, changed = read_command(folder), changed_inputs(folder)
    if changed:
        raise FileError(
            f"--reproduce {folder}: {changed[0]} is missing or is not a file the results were made from; put the inputs back."
        )
    with tempfile.TemporaryDirectory(prefix="crosslevel-") as place, contextlib.redirect_stdout(io.StringIO()):
        run_verb([*command, "--bundle", str(Path(place) / "again")])
        again = Path(place) / "again" / RESULTS
        names = {p.relative_to(root) for root in (folder / RESULTS, again) for p in root.rglob("*.json")}
        differ = sorted(str(n) for n in names if not _same_bytes(folder / RESULTS / n, again / n))
    if differ:
        raise FileError(
            f"{len(differ):,} of {len(names):,} results differ from {folder} ({', '.join(differ[:3])}); compare versions.json."
        )
    told = {"reproduced": str(folder), "results": len(names)}
    print(
        json.dumps(told)
        if job.as_json
        else f"Reproduced: {len(names):,} results of {folder} are the same to the last byte."
    )


def _same_bytes(left: Path, right: Path) -> bool:
    return left.is_file() and right.is_file() and left.read_bytes() == right.read_bytes()


def named_results(paths: Sequence[Path]) -> dict[str, Any]:
    """Read results and give each a heading: its title or kind, with the file's name where two are alike."""
    found = [(path, read_result(path)) for path in paths]
    heads = [(r.title or r.method) if isinstance(r, Estimates) else type(r).__name__ for _, r in found]
    out: dict[str, Any] = {}
    for (path, result), head in zip(found, heads, strict=True):
        if type(result).__name__ == "MeanEmbedding":
            raise InputError(
                f"{path} holds a MeanEmbedding, which turns people into vectors and has no page; name the embeddings it made, or "
                "estimates."
            )
        name = head if heads.count(head) == 1 else f"{head} ({path.stem})"
        while name in out:
            name = f"{name}, again"
        out[name] = result
    return out


def _labels(path: Path, job: Job) -> Any:
    """Read words for codes from JSON, from the labels of a statistics package, or from a codebook."""
    kind = path.suffix.casefold()
    if kind != ".json":
        return read_labels(path if kind in KINDS else job.read("labels"))
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise FileError(
            f"--labels {path} cannot be read as JSON ({error}); name a file with words for codes."
        ) from error


def read_result(path: Path) -> Any:
    """Read a saved result: Estimates, or a fitted model; or Estimates written as JSON."""
    if path.suffix.casefold() != ".json":
        return load(path)
    if not path.is_file():
        raise FileError(f"{path} does not exist; name a file of saved estimates.")
    try:
        return Estimates.from_json(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise FileError(f"{path} is not JSON text ({error.reason}); name a file of saved estimates.") from error
