"""A hog that burns every core in the middle of a sweep is noticed, and changes no verdict."""

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
"""On a core of its own: the scheduler may set two beside each other, and leave a trainer alone."""

_SETTINGS = {**SMALL, "epochs": 60}
"""Trials of some seconds: telemetry reads the node once a second."""

ACTIONS = ("mark", "rerun")

_BLOCKS = 12
_POLL_S = 0.2
_NOTICED = 0.8
"""The least share of the trials wholly beside it that is to be marked."""


@dataclass(slots=True)
class Hog:
    """Burns all cores from when so many trials of a sweep have ended, for so many trials more."""

    folder: SweepFolder
    after: int
    during: int
    burned: bool = False
    over: bool = False
    _over: threading.Event = field(default_factory=threading.Event)

    @contextlib.contextmanager
    def around(self) -> Iterator[None]:
        """Watch the sweep's journal meanwhile."""
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
        for each in processes:
            each.kill()
            each.wait()
        self.over = True

    def _ended(self, wanted: int) -> bool:
        """Wait until so many trials have ended; False where the sweep ends before."""
        while not self._over.wait(_POLL_S):
            with contextlib.suppress(OSError):
                if _count(self.folder) >= wanted:
                    return True
        return False


def _count(folder: SweepFolder) -> int:
    return len(ended(folder))


def ended(folder: SweepFolder) -> list[TrialFinished]:
    """Every outcome in the sweep's journal, those that were done again among them."""
    return [each for each in read(folder.generation(1)) if isinstance(each, TrialFinished)]


def run(home: Path, notebook: Notebook, blocks: int = _BLOCKS) -> list[Finding]:
    """Equal arms, and one that is a third slower: without the hog, with it, and done again."""
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
    found = {action: _told(other, action, home, notebook, blocks) for action in ACTIONS}
    quiet = _told(other, "", home, notebook, blocks)
    noticed = all(each["marked_beside"] >= _NOTICED * each["beside"] for each in found.values())
    verdicts = [quiet["verdict"], *(each["verdict"] for each in found.values())]
    return Finding(
        "hog",
        f"{what}: a hog on every core during a third of the sweep is noticed, and the"
        f" verdict stays {' or '.join(right)}",
        f"without it {verdicts[0]}; disturbed: mark tells {verdicts[1]}, disturbed: rerun"
        f" {verdicts[2]}",
        noticed and all(verdict in right for verdict in verdicts),
        (
            f"without it: {quiet['marked_else']} of {quiet['else']} trials marked; speed-up"
            f" {_range(quiet)}",
            *(
                f"{action}: {each['marked_beside']} of {each['beside']} trials beside it marked,"
                f" and {each['marked_else']} of {each['else']} others; {each['outcomes']} outcomes"
                f" of {2 * blocks} trials; speed-up {_range(each)}"
                f"{', of quiet rounds alone' if each['quiet_only'] else ''}"
                for action, each in found.items()
            ),
        ),
    )


def _range(told: Mapping[str, Any]) -> str:
    speedup = told["speedup"]
    return f"{speedup['value']:.3f} ({speedup['low']:.3f}–{speedup['high']:.3f})"


def _told(
    other: str, action: str, home: Path, notebook: Notebook, blocks: int
) -> Mapping[str, Any]:
    """With the hog, and what `disturbed` is to do; without an action, without the hog."""
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
        # wholly beside it: it came and went in others
        return _described(answer, hog, range(hog.after + 1, hog.after + hog.during))

    return notebook.once(question.name, question.spec(), find)


def _described(answer: Answer, hog: Hog, beside: range) -> dict[str, Any]:
    outcomes = [each.finished.outcome for each in ended(hog.folder)]
    marks = [bool(each.disturbance) for each in outcomes]
    return {
        **plain(answer.only),
        "outcomes": len(outcomes),
        "beside": len(beside),
        "marked_beside": sum(marks[at] for at in beside if at < len(marks)),
        "else": len(outcomes) - len(beside),
        "marked_else": sum(marks) - sum(marks[at] for at in beside if at < len(marks)),
        "trials_s": round(answer.trainers_s(), 1),
    }
