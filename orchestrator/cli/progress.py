"""Progress of a running sweep: a live view on a terminal, lines in logs and for scripts."""

import threading
import time
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Column, Table
from rich.text import Text

from orchestrator.cli.messages import AS_TEXT, Messages
from orchestrator.core.text import counted
from orchestrator.core.trial import FinishedTrial
from orchestrator.planning.plan import Plan
from orchestrator.scheduling.watcher import Watcher

_REFRESH_PER_S = 1  # more would be work on the machine that is being measured
_SILENCE_S = 30.0  # at most, in a log
_ROWS = 8  # of running jobs, at most


class PlainLines(Watcher):
    """A view for logs and pipes: a line for each event, and one in half a minute."""

    hidden: frozenset[str] = frozenset()  # events that are only logged

    def __init__(self, console: Console, plan: Plan, messages: Messages = AS_TEXT) -> None:
        super().__init__(plan)
        self._console, self._messages = console, messages
        self._printed_s, self._closed = time.monotonic(), threading.Event()

    def __enter__(self) -> Self:
        threading.Thread(target=self._watch, daemon=True, name="progress").start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()

    def _watch(self) -> None:
        while not self._closed.wait(1.0):
            rows = self.running()
            if rows and time.monotonic() - self._printed_s > _SILENCE_S:
                more = f", and {counted(len(rows) - 1, 'other job')}" if len(rows) > 1 else ""
                self.show_event(f"{self.ended.total()}/{self.total}  {rows[0]}{more}", "running")

    def show_event(self, text: str, event: str, trial: FinishedTrial | None = None) -> None:
        """Log an event, and print it unless it is hidden."""
        super().show_event(text, event)
        self._printed_s = time.monotonic()
        if event in self.hidden:
            return
        if self._messages.are_json:
            from orchestrator.report.formats.json_format import to_plain_data  # noqa: PLC0415  (SciPy)

            results = {"trial": to_plain_data(trial)} if trial else {}
            text = self._messages.line(
                text, "trial" if trial else event, **self.totals(), **results
            )
        style = {"failure": "red", "call": "red", "warning": "yellow"}.get(event)
        self._console.print(text, style=style, highlight=False, markup=False, soft_wrap=True)


class LiveView(PlainLines):
    """A view that is redrawn in place, for a terminal. Only failures get a line of their own."""

    hidden = frozenset({"trial", "lead", "running"})

    def __init__(self, console: Console, plan: Plan, messages: Messages = AS_TEXT) -> None:
        super().__init__(console, plan, messages)
        self._live = Live(
            get_renderable=self.drawn,
            console=console,
            refresh_per_second=_REFRESH_PER_S,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def __enter__(self) -> Self:
        self._live.start()
        return super().__enter__()

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self._live.stop()

    def drawn(self) -> RenderableType:
        """Return a bar, other processes, what leads, what runs, and what failed."""
        ended, rows = self.ended.total(), self.running()
        head = [
            f"{ended} of {self.total} trials",
            f"{self.blocks_ended} of {self.blocks_expected} blocks",
            f"{len(self.pruned)} pruned" if self.pruned else "",
            self.remaining(),
        ]
        line = Table.grid(Column(ratio=1), Column(no_wrap=True), padding=(0, 1), expand=True)
        bar = ProgressBar(self.trials_expected, ended, complete_style="cyan")
        line.add_row(bar, " · ".join(filter(None, head)))
        leads = [Text(lead, style="green", no_wrap=False, overflow="fold") for lead in self.leads]
        jobs = [Text(f"▸ {row}", no_wrap=True, overflow="ellipsis") for row in rows[:_ROWS]]
        words = [
            f"{self._arm_name(arm)}: {count} failed" for arm, count in self.failed.items() if count
        ]
        other_processes = self.other_processes()
        busy = [Text(other_processes, style="yellow", overflow="fold")] if other_processes else []
        failed = [Text(text, style="red", no_wrap=True) for text in words]
        return Group(line, *busy, *leads, *jobs, *failed)


def make_view(
    console: Console,
    plan: Plan,
    messages: Messages = AS_TEXT,
    *,
    quiet: bool = False,
) -> PlainLines:
    """Return the live view on a terminal, lines elsewhere; if quiet, only of failures."""
    is_live = console.is_interactive and not quiet and not messages.are_json
    kind = LiveView if is_live else PlainLines
    view = kind(console, plan, messages)
    if is_live:
        return view
    if messages.are_json:
        view.hidden = frozenset({"call"})  # the object of a trial has its whole failure
    elif quiet:
        view.hidden = frozenset({"trial", "lead", "running", "message"})
    return view
