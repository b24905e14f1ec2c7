"""The page of a report on a port of this machine, renewed while its sweep runs.

It is for reading by the user who started the command. It listens on the loopback address; the path
has a random word, because others on this machine reach that address, too; a request that names
another host is refused, because a page of the web may have its name resolved to 127.0.0.1. There
is nothing to write.
"""

from __future__ import annotations

import gzip
import json
import os
import secrets
import signal
import threading
import time
from collections.abc import Callable, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator import api
from orchestrator.analysis.summary import summarise
from orchestrator.cli.exit_codes import COMPLETE, interrupted_by
from orchestrator.cli.local import LocalProgress, read_progress
from orchestrator.cli.messages import show
from orchestrator.core.errors import Refusal, one_line
from orchestrator.core.records import SweepRecord
from orchestrator.core.text import duration
from orchestrator.report.formats.html import to_html
from orchestrator.storage.home import SweepFolder
from orchestrator.storage.tracking.errors import SweepNotFound

if TYPE_CHECKING:
    from orchestrator.spec import Price

_HOST, _PORT = "127.0.0.1", 8765
"""The address, and the port if nobody else has it."""

_LOOK_S, _LOOK_AT_STORE_S = 2.0, 15.0
"""How often to look whether there is something new, in the home and in a store alone."""

_SHARE = 0.05
"""The most of one CPU for reading and drawing: the sweep may be measured on this machine."""

_BEHIND = 20
"""How often the store is asked for trials that the journal has: it gets them later."""

_NICE = 10


class LiveReport:
    """The page of a sweep as it is now, and what the sweep does."""

    def __init__(
        self,
        home: Path,
        sweep: str,
        *,
        generation: int | None = None,
        baseline: str | None = None,
        targets: Sequence[float] = (),
        prices: Sequence[Price] = (),
    ) -> None:
        """Read the sweep; raise `Refusal` if there is none, or it cannot be reported."""
        name, _, number = sweep.partition("#")
        self._folder = SweepFolder(home, name)
        self._number = generation or (int(number) if number.isdecimal() else None)
        self._sweep, self._generation = sweep, generation
        self._baseline, self._targets, self._prices = baseline, targets, prices
        self._lock = threading.Lock()
        self._seen: object = None
        self._behind = 0
        self._progress: LocalProgress | None = None
        self._trouble = ""
        self._shown: object = None
        self._record = SweepRecord(name, generation=self._number or 1, state="running")
        self.version, self.page = 0, b""
        self._look_here()
        try:
            self._read()
        except SweepNotFound:
            if self._progress is None:
                raise
            self._draw(self._record)  # it has just begun

    def renew(self) -> bool:
        """Look once whether there is something new; draw the page again if there is."""
        self._look_here()
        if self._progress is not None and not self._behind:
            return False
        self._behind = max(0, self._behind - 1)
        with self._lock:
            self._trouble = ""
        try:
            return self._read()
        except SweepNotFound:
            return False
        except Refusal as error:  # a store that does not answer; what is drawn stays
            with self._lock:
                self._trouble = one_line(error)
            return False

    def state(self) -> dict[str, Any]:
        """Return what the sweep does, as JSON data."""
        with self._lock:
            progress, record, trouble = self._progress, self._record, self._trouble
        done, expected = len(record.trials), record.expected_trials
        words, running = [f"{record.label}: {record.state}"], list[str]()
        if progress is not None:
            done, expected = progress.ended, progress.trials
            words = [f"{record.label}: {progress.activity}", progress.trials_text]
            words += [progress.left] if progress.left else []
            running = [f"{text}, for {duration(seconds)}" for text, seconds in progress.running]
        if trouble:
            words.append(f"the store does not answer: {trouble}")
        return {
            "version": self.version,
            "text": " · ".join(words),
            "trials_done": done,
            "trials": expected or None,
            "running": running,
        }

    def _look_here(self) -> None:
        """Read the journal and what runs, if this machine has the sweep and it has changed."""
        number = self._folder.latest()
        if number == 0 or self._number not in (None, number):
            return
        progress = read_progress(self._folder, self._progress)
        with self._lock:
            self._progress = progress
        if progress.fingerprint != self._seen:
            self._seen, self._behind = progress.fingerprint, _BEHIND

    def _read(self) -> bool:
        """Read the sweep from the store, and draw it if it differs; return whether it does."""
        record = api.read_sweep(self._sweep, generation=self._generation)
        progress = self._progress
        if progress is not None:
            has_trials = len(record.trials) >= progress.ended
            # The store says that a sweep is complete some time after its last trial.
            may_be_complete = record.state == "running" and progress.ended >= progress.trials
            if has_trials and not may_be_complete:
                self._behind = 0
        content = (record.label, record.state, len(record.trials), record.arms, record.current)
        if content == self._shown:
            return False
        self._draw(record)
        self._shown = content
        return True

    def _draw(self, record: SweepRecord) -> None:
        if self._prices:
            from orchestrator.planning.pricing import with_prices  # noqa: PLC0415

            record = with_prices(record, self._prices)
        summary = summarise(record, self._baseline if record.trials else None, self._targets)
        page = to_html(summary, live_version=self.version + 1).encode(errors="replace")
        with self._lock:
            self.version, self.page, self._record = self.version + 1, page, record


def serve(report: LiveReport, port: int | None) -> int:
    """Serve the page until Ctrl-C; return the exit code."""
    word = secrets.token_urlsafe(9)
    server = _listen(port, _handler(report, word))
    ended = threading.Event()
    os.nice(_NICE)
    show(
        f"http://{_HOST}:{server.server_port}/{word}/ shows the report, and what is new while the"
        " sweep runs (Ctrl-C ends it)\n"
    )
    threading.Thread(target=server.serve_forever, daemon=True, name="server").start()
    try:
        with interrupted_by(signal.SIGTERM, signal.SIGHUP):
            _keep_renewing(report.renew, ended)
    except KeyboardInterrupt:
        show("\n", err=True)
    finally:
        server.shutdown()
        server.server_close()
    return COMPLETE


def _keep_renewing(renew: Callable[[], object], ended: threading.Event) -> None:
    """Call `renew` again and again, with pauses that keep it below its share of a CPU."""
    pause_s = _LOOK_S
    while not ended.wait(pause_s):
        began_s = time.thread_time()
        renew()
        pause_s = max(_LOOK_S, (time.thread_time() - began_s) / _SHARE)


def _listen(port: int | None, handler: type[BaseHTTPRequestHandler]) -> ThreadingHTTPServer:
    """Listen on a port; on the usual one, or any that is free, if none is given."""
    for number in (_PORT, 0) if port is None else (port,):
        try:
            return ThreadingHTTPServer((_HOST, number), handler)
        except OSError as error:
            if port is not None:
                raise Refusal(
                    f"--port {port}: expected a free port, received: {error.strerror or error}."
                    " Choose another, or leave it out"
                ) from error
    raise AssertionError("some port is free")


def _handler(report: LiveReport, word: str) -> type[BaseHTTPRequestHandler]:
    """Return the class that answers requests below `/WORD/`."""

    class Handler(BaseHTTPRequestHandler):
        timeout = 30
        server_version, sys_version = "rnnsweep", ""

        def do_GET(self) -> None:
            assert isinstance(self.server, ThreadingHTTPServer)
            port = self.server.server_port
            if self.headers.get("Host") not in (f"{_HOST}:{port}", f"localhost:{port}"):
                self._answer(
                    HTTPStatus.FORBIDDEN,
                    "text/plain",
                    f"expected http://{_HOST}:{port} as address; through a tunnel, use the same"
                    " port on both sides\n".encode(),
                )
            elif self.path == f"/{word}/":
                self._answer(HTTPStatus.OK, "text/html", report.page)
            elif self.path == f"/{word}/live.json":
                content = json.dumps(report.state()).encode()
                self._answer(HTTPStatus.OK, "application/json", content)
            else:
                self._answer(HTTPStatus.NOT_FOUND, "text/plain", b"no such page\n")

        do_HEAD = do_GET  # noqa: N815

        def _answer(self, status: HTTPStatus, kind: str, content: bytes) -> None:
            self.send_response(status)
            is_packed = "gzip" in self.headers.get("Accept-Encoding", "")
            if is_packed:
                content = gzip.compress(content, 1)
                self.send_header("Content-Encoding", "gzip")
            for name, value in {
                "Content-Type": f"{kind}; charset=utf-8",
                "Content-Length": str(len(content)),
                "Cache-Control": "no-store",
                "Cross-Origin-Resource-Policy": "same-origin",
                "Referrer-Policy": "no-referrer",
                "X-Content-Type-Options": "nosniff",
                "X-Frame-Options": "DENY",
            }.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            """Print nothing for a request."""

    return Handler
