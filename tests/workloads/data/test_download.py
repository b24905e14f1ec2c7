from __future__ import annotations

import hashlib
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from workloads.data.cache import fetch
from workloads.data.text import load_text
from workloads.failures import DataError

CONTENT = b"Speak, speak.\n" * 1000
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Home(BaseHTTPRequestHandler):
    """A server of `/whole`, and of `/short` with fewer bytes than announced."""

    requested_paths: list[str]

    def do_GET(self) -> None:
        self.requested_paths.append(self.path)
        self.send_response(200 if self.path in ("/whole", "/short") else 404)
        self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        self.wfile.write(CONTENT if self.path == "/whole" else CONTENT[:100])

    def log_message(self, format: str, *arguments: object) -> None:
        """Log nothing."""


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Return the address of a server on this machine."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    Home.requested_paths = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Home) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def deaf_port() -> Iterator[int]:
    """Return a bound port of this machine that refuses connections."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


def test_a_file_is_downloaded_once(home: str, tmp_path: Path) -> None:
    copy = tmp_path / "cache" / "text"
    for _ in range(2):
        assert fetch(f"{home}/whole", copy, sha256=SHA256) == CONTENT
    assert Home.requested_paths == ["/whole"]
    assert [path.name for path in copy.parent.iterdir()] == ["text"]


def test_a_damaged_copy_is_downloaded_again(home: str, tmp_path: Path) -> None:
    copy = tmp_path / "text"
    copy.write_bytes(CONTENT[:50])
    assert fetch(f"{home}/whole", copy, sha256=SHA256) == CONTENT
    assert copy.read_bytes() == CONTENT


def test_a_download_works_without_a_writable_cache(home: str, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")
    assert fetch(f"{home}/whole", tmp_path / "cache" / "text", sha256=SHA256) == CONTENT


def test_a_download_with_another_digest_is_refused(home: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=rf"expected SHA-256 0000; received 14,000 .* {SHA256}"):
        fetch(f"{home}/whole", tmp_path / "text", sha256="0000")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("path", "reason"), [("/absent", "HTTP Error 404"), ("/short", "IncompleteRead")]
)
def test_a_failed_download_is_explained(home: str, path: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=rf"expected to download it; .*{reason}.*data_path"):
        fetch(f"{home}{path}", tmp_path / "text", sha256=SHA256)
    assert list(tmp_path.iterdir()) == []


def test_shakespeare_without_network_is_explained(
    home: str, deaf_port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RNNSWEEP_CACHE", str(tmp_path))
    with pytest.raises(DataError, match=r"without network, set settings\.data_path .*shakespeare"):
        load_text("shakespeare", url=f"http://127.0.0.1:{deaf_port}/input.txt")
    with pytest.raises(DataError, match="expected SHA-256 86c4e6aa"):
        load_text("shakespeare", url=f"{home}/whole")
