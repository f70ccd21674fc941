from __future__ import annotations

import http.client
import re
import signal
import subprocess
import sys
import threading

import pytest

from crosslevel.cli.report import make_server, reports_of
from crosslevel.errors import InputError

NASTY = "<img src=x onerror=alert(1)> & 'é'.html"


@pytest.fixture
def folder(tmp_path):
    """Reports, other files, and ways out of the folder."""
    inside = tmp_path / "reports"
    (inside / "deeper").mkdir(parents=True)
    (inside / "a.html").write_text("<p>first</p>")
    (inside / NASTY).write_text("<p>second</p>")
    (inside / "data.csv").write_text("secret")
    (inside / ".hidden.html").write_text("secret")
    (inside / "deeper" / "b.html").write_text("secret")
    (tmp_path / "outside.html").write_text("secret")
    (inside / "link.html").symlink_to(tmp_path / "outside.html")
    (inside / "folder.html").mkdir()
    return inside


@pytest.fixture
def ask(folder):
    server = make_server(folder, 0)
    host, port = server.server_address[:2]
    assert host == "127.0.0.1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()

    def ask(path, method="GET", headers=None):
        connection = http.client.HTTPConnection(host, port, timeout=600)
        connection.putrequest(method, path, skip_host=headers is not None)
        for name, value in (headers or {}).items():
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        body = answer.read().decode()
        connection.close()
        return answer, body

    ask.port = port
    yield ask
    server.shutdown()
    thread.join()
    server.server_close()


def test_only_plain_reports_are_listed(folder):
    assert list(reports_of(folder)) == [NASTY, "a.html"]


def test_the_list_is_text_and_leads_to_the_reports(ask):
    answer, body = ask("/")
    assert answer.status == 200
    assert "<img" not in body
    assert "&lt;img src=x onerror=alert(1)&gt; &amp; &#x27;é&#x27;.html" in body
    assert "secret" not in body
    assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'")
    addresses = [part.split('"')[0] for part in body.split('href="')[1:]]
    assert len(addresses) == 2
    assert [ask("/" + a)[1] for a in addresses] == ["<p>second</p>", "<p>first</p>"]
    answer, _ = ask("/a.html?x=1#y")
    assert answer.status == 200
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"


@pytest.mark.parametrize(
    "path",
    [
        "/link.html",
        "/../outside.html",
        "/..%2Foutside.html",
        "/%2e%2e/outside.html",
        "/deeper/b.html",
        "/deeper%2Fb.html",
        "/deeper/../a.html",
        "//a.html/../../outside.html",
        "/.hidden.html",
        "/data.csv",
        "/folder.html",
        "/a.html%00",
        "/..\\outside.html",
        "/nothing.html",
    ],
)
def test_there_is_no_way_out(ask, path):
    answer, body = ask(path)
    assert answer.status == 404
    assert "secret" not in body


def test_a_link_put_in_place_of_a_report_is_not_followed(ask, folder, monkeypatch):
    from crosslevel.cli import report

    listed = reports_of(folder) | {"link.html": (folder / "a.html").stat()}
    monkeypatch.setattr(report, "reports_of", lambda _: listed)
    assert ask("/link.html")[0].status == 404


def test_other_names_of_this_machine_are_refused(ask):
    for host in ("evil.example", f"evil.example:{ask.port}", "127.0.0.1", ""):
        answer, body = ask("/a.html", headers={"Host": host})
        assert answer.status == 421
        assert "first" not in body
    assert ask("/a.html", headers={"Host": f"localhost:{ask.port}"})[0].status == 200


def test_heads_and_other_methods(ask):
    answer, body = ask("/a.html", method="HEAD")
    assert (answer.status, body, answer.headers["Content-Length"]) == (200, "", "12")
    assert ask("/a.html", method="POST")[0].status == 501


def test_a_port_that_is_taken(ask, folder):
    with pytest.raises(InputError):
        make_server(folder, ask.port)


def test_an_empty_folder_says_so(tmp_path):
    from crosslevel.cli.report import _listing

    assert b"no report in this folder" in _listing(tmp_path)


START = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from crosslevel.cli import main; main()"
)
"""A shell that starts tests in the background has them ignore Ctrl-C."""


def test_ctrl_c_ends_it_cleanly(folder):
    done = subprocess.Popen(
        [sys.executable, "-c", START, "report", "--serve", str(folder), "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        line = done.stdout.readline()
        assert "http://127.0.0.1:" in line
        connection = http.client.HTTPConnection("127.0.0.1", int(re.search(r":(\d+)/", line)[1]), timeout=600)
        connection.request("GET", "/")
        assert connection.getresponse().read()  # who answers has begun to serve
        connection.close()
        done.send_signal(signal.SIGINT)
        out, err = done.communicate(timeout=600)
    finally:
        done.kill()
        done.wait()
    assert done.returncode == 0
    assert out.strip() == "Stopped."
    assert err == ""
