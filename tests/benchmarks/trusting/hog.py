"""A hog (load on every core in the middle of a sweep) is detected and changes no verdict."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from orchestrator.storage.home import SweepFolder
from orchestrator.storage.journal import read
from tests.benchmarks.trusting.findings import Finding, Notebook
from tests.benchmarks.trusting.sweeps import FUSED, ONE_THREAD, SMALL, Question, answer, ratio_text

_BURN = """
import os, time
os.sched_setaffinity(0, {{{cpu}}})
end = time.monotonic() + 600
while time.monotonic() < end: pass
"""
"""One process per core, since the scheduler may put two on one core and spare a trainer."""

_SETTINGS = {**SMALL, "epochs": 60}
"""Trials take some seconds, because telemetry reads the node once a second."""

_POLL_S = 0.2
_NOTICED = 0.8
"""The share of trials during the hog that must be marked."""


@contextlib.contextmanager
def hogged(folder: SweepFolder, after: int, during: int) -> Iterator[threading.Event]:
    """Load all cores after so many trials of a sweep, for so many; yield whether it has begun."""
    begun, over = threading.Event(), threading.Event()

    def is_reached(wanted: int) -> bool:
        while not over.wait(_POLL_S):
            with contextlib.suppress(OSError):
                state = read(folder.generation(1))
                if state is not None and len(state.finished) >= wanted:
                    return True
        return False

    def watch() -> None:
        if not is_reached(after):
            return
        processes = [
            subprocess.Popen([sys.executable, "-c", _BURN.format(cpu=cpu)])
            for cpu in os.sched_getaffinity(0)
        ]
        begun.set()
        is_reached(after + during)
        for process in processes:
            process.kill()
            process.wait()

    watcher = threading.Thread(target=watch, daemon=True, name="hog")
    watcher.start()
    try:
        yield begun
    finally:
        over.set()
        watcher.join()


def run(home: Path, notebook: Notebook, blocks: int = 12) -> list[Finding]:
    """Compare equal arms, and an arm a third slower: without the hog and with it."""
    parts = {
        "equal arms": (f"{FUSED}+again", ("same", "inconclusive")),
        "an arm a third slower": (f"{FUSED}+slow_33", ("slower",)),
    }
    return [
        _judge(what, right, *(_answer(other, on, home, notebook, blocks) for on in (False, True)))
        for what, (other, right) in parts.items()
    ]


def _judge(
    what: str, right: tuple[str, ...], quiet: Mapping[str, Any], loud: Mapping[str, Any]
) -> Finding:
    after = during = len(loud["disturbed"]) // 3
    # The first and last trial of the hog are only partly disturbed.
    marked = loud["disturbed"][after + 1 : after + during]
    others = sum(loud["disturbed"]) - sum(marked)
    verdicts = quiet["verdict"], loud["verdict"]
    return Finding(
        f"{what}: a hog on every core during a third of the sweep is detected, and the verdict"
        f" stays {' or '.join(right)}",
        f"without it {verdicts[0]}, with it {verdicts[1]}",
        sum(marked) >= _NOTICED * len(marked) and all(verdict in right for verdict in verdicts),
        [
            f"without it: {sum(quiet['disturbed'])} trials marked; speed-up {ratio_text(quiet)}",
            f"with it: {sum(marked)} of {len(marked)} trials during the hog marked, and {others} of"
            f" {len(loud['disturbed']) - len(marked)} others; speed-up {ratio_text(loud)}",
        ],
    )


def _answer(
    other: str, with_hog: bool, home: Path, notebook: Notebook, blocks: int
) -> Mapping[str, Any]:
    question = Question(
        f"trust-hog-{other.partition('+')[2].replace('_', '-')}-{'loud' if with_hog else 'quiet'}",
        (FUSED, other),
        blocks=blocks,
        settings=_SETTINGS,
        hardware=ONE_THREAD,
    )

    def find() -> Mapping[str, Any]:
        if not with_hog:
            return answer(question, home)
        folder = SweepFolder(home, question.name)
        with hogged(folder, 2 * (blocks // 3), 2 * (blocks // 3)) as begun:
            loud = answer(question, home)
        assert begun.is_set(), f"{question.name}: the sweep was over before the hog began"
        return loud

    return notebook.once(question.name, question.spec(), find)
