"""A hog (load on every core in the middle of a sweep) is detected and changes no verdict."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.storage.home import SweepFolder
from orchestrator.storage.journal import TrialFinished, read
from tests.benchmarks.trusting.findings import Finding, Notebook
from tests.benchmarks.trusting.sweeps import (
    FUSED,
    ONE_THREAD,
    SMALL,
    Answer,
    Question,
    ask,
    plain,
)

_BURN = """
import os, time
os.sched_setaffinity(0, {{{cpu}}})
end = time.monotonic() + {seconds}
while time.monotonic() < end: pass
"""
"""One process per core, since the scheduler may put two on one core and spare a trainer."""

_SETTINGS = {**SMALL, "epochs": 60}
"""Trials take some seconds, because telemetry reads the node once a second."""

ACTIONS = ("mark", "rerun")

_BLOCKS = 12
_POLL_S = 0.2
_NOTICED = 0.8
"""The share of trials during the hog that must be marked."""


@dataclass(slots=True)
class Hog:
    """Load on all cores, after a number of trials of a sweep and during a number of trials."""

    folder: SweepFolder
    after: int
    during: int
    burned: bool = False
    over: bool = False
    _over: threading.Event = field(default_factory=threading.Event)

    @contextlib.contextmanager
    def around(self) -> Iterator[None]:
        """Watch the sweep's journal during the block."""
        watcher = threading.Thread(target=self._watch, daemon=True, name="hog")
        watcher.start()
        try:
            yield
        finally:
            self._over.set()
            watcher.join()

    def _watch(self) -> None:
        if not self._ended(self.after):
            return
        processes = [
            subprocess.Popen([sys.executable, "-c", _BURN.format(cpu=cpu, seconds=600)])
            for cpu in os.sched_getaffinity(0)
        ]
        self.burned = True
        self._ended(self.after + self.during)
        for process in processes:
            process.kill()
            process.wait()
        self.over = True

    def _ended(self, wanted: int) -> bool:
        """Wait until a number of trials have ended; return False if the sweep ends before."""
        while not self._over.wait(_POLL_S):
            with contextlib.suppress(OSError):
                if _count(self.folder) >= wanted:
                    return True
        return False


def _count(folder: SweepFolder) -> int:
    return len(ended(folder))


def ended(folder: SweepFolder) -> list[TrialFinished]:
    """Return every outcome in the sweep's journal, including re-run trials."""
    return [record for record in read(folder.generation(1)) if isinstance(record, TrialFinished)]


def run(home: Path, notebook: Notebook, blocks: int = _BLOCKS) -> list[Finding]:
    """Compare equal arms, and an arm a third slower: without the hog, with it, and with re-runs."""
    return [
        _part("equal arms", f"{FUSED}+again", ("same", "inconclusive"), home, notebook, blocks),
        _part("an arm a third slower", f"{FUSED}+slow_33", ("slower",), home, notebook, blocks),
    ]


def _part(
    what: str,
    other: str,
    right: tuple[str, ...],
    home: Path,
    notebook: Notebook,
    blocks: int,
) -> Finding:
    answers = {action: _answer(other, action, home, notebook, blocks) for action in ACTIONS}
    quiet = _answer(other, "", home, notebook, blocks)
    noticed = all(
        answer["marked_beside"] >= _NOTICED * answer["beside"] for answer in answers.values()
    )
    verdicts = [quiet["verdict"], *(answer["verdict"] for answer in answers.values())]
    return Finding(
        "hog",
        f"{what}: a hog on every core during a third of the sweep is detected, and the"
        f" verdict stays {' or '.join(right)}",
        f"without it {verdicts[0]}; disturbed: mark gives {verdicts[1]}, disturbed: rerun"
        f" {verdicts[2]}",
        noticed and all(verdict in right for verdict in verdicts),
        (
            f"without it: {quiet['marked_else']} of {quiet['else']} trials marked; speed-up"
            f" {_range(quiet)}",
            *(
                f"{action}: {answer['marked_beside']} of {answer['beside']} trials during the hog"
                f" marked, and {answer['marked_else']} of {answer['else']} others;"
                f" {answer['outcomes']} outcomes of {2 * blocks} trials; speed-up {_range(answer)}"
                f"{', of undisturbed rounds only' if answer['quiet_only'] else ''}"
                for action, answer in answers.items()
            ),
        ),
    )


def _range(answer: Mapping[str, Any]) -> str:
    speedup = answer["speedup"]
    return f"{speedup['value']:.3f} ({speedup['low']:.3f}–{speedup['high']:.3f})"


def _answer(
    other: str, action: str, home: Path, notebook: Notebook, blocks: int
) -> Mapping[str, Any]:
    """Run a sweep with the hog and an action of `disturbed`; without an action, without the hog."""
    question = Question(
        f"trust-hog-{other.partition('+')[2].replace('_', '-')}-{action or 'quiet'}",
        (FUSED, other),
        blocks=blocks,
        settings=_SETTINGS,
        hardware=ONE_THREAD,
        more={"disturbed": action or "mark"},
    )
    hog = Hog(SweepFolder(home, question.name), 2 * (blocks // 3), 2 * (blocks // 3))

    def find() -> Mapping[str, Any]:
        if not action:
            return _described(ask(question, home), hog, range(0))
        with hog.around():
            answer = ask(question, home)
        assert hog.burned, f"{question.name}: the sweep was over before the hog began"
        # the first and last trial of the hog are only partly disturbed
        return _described(answer, hog, range(hog.after + 1, hog.after + hog.during))

    return notebook.once(question.name, question.spec(), find)


def _described(answer: Answer, hog: Hog, hogged: range) -> dict[str, Any]:
    outcomes = [record.finished.outcome for record in ended(hog.folder)]
    marks = [bool(outcome.disturbance) for outcome in outcomes]
    return {
        **plain(answer.only),
        "outcomes": len(outcomes),
        "beside": len(hogged),
        "marked_beside": sum(marks[at] for at in hogged if at < len(marks)),
        "else": len(outcomes) - len(hogged),
        "marked_else": sum(marks) - sum(marks[at] for at in hogged if at < len(marks)),
        "trials_s": round(answer.trainers_s(), 1),
    }
