"""Real sweeps of equal and slowed arms, of whole trainings, and under a hog."""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from orchestrator.storage.home import SweepFolder
from orchestrator.storage.journal import read
from tests.benchmarks.trusting.findings import Finding, Notebook, fewest_by_chance, most_by_chance
from tests.benchmarks.trusting.sweeps import (
    FUSED,
    ONE_THREAD,
    QUICK_SLICES,
    SMALL,
    Question,
    answer,
    ask,
    covers,
    ratio_text,
)

_SHARE = 0.1
_WRONG = 0.05
_SLICES = {"mode": "timing", "slices": [24, 36], "slice_s": 0.03}
"""Many short slices, because cores change their speed several times a second."""

_MAY_MISS = {20: 0, 5: 1}
_INTERVALS = {20: 0.05, 5: 0.03}
"""Of slowdowns in percent: how many sweeps may miss one, and the wanted interval."""

_BURN = """
import os, time
os.sched_setaffinity(0, {{{cpu}}})
end = time.monotonic() + 600
while time.monotonic() < end: pass
"""
"""One process per core, since the scheduler may put two on one core and spare a trainer."""

_SECONDS_LONG = {**SMALL, "epochs": 60}
"""Trials take some seconds, because telemetry reads the node once a second."""

_POLL_S = 0.2
_NOTICED = 0.8
"""The share of trials during the hog that must be marked."""


def equal_arms(sweeps: int) -> Iterator[Question]:
    """Yield sweeps with different seeds, and so different configs, weights and orders."""
    for number in range(sweeps):
        arms, more = (FUSED, f"{FUSED}+again"), {"measure": QUICK_SLICES}
        yield Question(f"trust-equal-{number:02}", arms, seed=number, more=more)


def equal(home: Path, notebook: Notebook, sweeps: int = 30) -> list[Finding]:
    """Run the sweeps and count covering intervals and wrong verdicts."""
    answers = [ask(question, home, notebook) for question in equal_arms(sweeps)]
    covering = sum(covers(answer, 1.0) for answer in answers)
    wrong = sum(answer["verdict"] in ("faster", "slower") for answer in answers)
    least, most = fewest_by_chance(sweeps, 1 - _WRONG), most_by_chance(sweeps, _WRONG)
    ratios = sorted(answer["speedup"]["value"] for answer in answers)
    return [
        Finding(
            f"at least {least} of {sweeps} real sweeps of two equal arms have an interval that"
            f" covers 1, at most {most} a verdict of a difference",
            f"{covering} cover it; {wrong} verdicts of a difference",
            covering >= least and wrong <= most,
            [f"speed-ups {ratios[0]:.3f} to {ratios[-1]:.3f}"],
        )
    ]


def slowed_arms(percent: int, sweeps: int) -> Iterator[Question]:
    """Yield sweeps of an arm and its slowed version, with `blocks: auto`."""
    auto = {"interval": _INTERVALS[percent], "at_least": 6, "at_most": 24}
    for number in range(sweeps):
        yield Question(
            f"trust-slow-{percent}-{number:02}",
            (FUSED, f"{FUSED}+slow_{percent}"),
            blocks=None,
            seed=1_000 + number,
            hardware=ONE_THREAD,
            more={"measure": _SLICES, "blocks": auto},
        )


def slowdown(home: Path, notebook: Notebook, twenty: int = 5, five: int = 10) -> list[Finding]:
    """Run this many sweeps with a slowdown of 20 % and of 5 %."""
    return [
        finding
        for percent, sweeps in {20: twenty, 5: five}.items()
        for finding in _detected(percent, sweeps, home, notebook)
    ]


def _detected(percent: int, sweeps: int, home: Path, notebook: Notebook) -> Iterator[Finding]:
    answers = [ask(question, home, notebook) for question in slowed_arms(percent, sweeps)]
    hits = sum(answer["verdict"] == "slower" for answer in answers)
    truth = 100 / (100 + percent)
    covering = sum(covers(answer, truth) for answer in answers)
    speeds = sorted(answer["speedup"]["value"] for answer in answers)
    least, certain = sweeps - _MAY_MISS[percent], fewest_by_chance(sweeps, 0.95)
    details = [f"speed-ups {speeds[0]:.3f} to {speeds[-1]:.3f}"]
    for key, unit in (("pairs", "blocks"), ("slices", "slices"), ("trainers_s", "s of trials")):
        values = [answer[key] for answer in answers]
        details.append(
            f"{statistics.median(values):g} {unit} in the middle, {max(values):g} at most"
        )
    yield Finding(
        f"a slowdown of {percent} % is found in at least {least} of {sweeps} sweeps with"
        " blocks: auto",
        f"in {hits}",
        hits >= least,
        details,
    )
    yield Finding(
        f"the true speed-up of {truth:.3f} is in at least {certain} of these intervals",
        f"in {covering}; {statistics.geometric_mean(speeds):.3f} over all of them",
        covering >= certain,
    )


def adaptive(home: Path, notebook: Notebook, epochs: int = 500) -> list[Finding]:
    """Compare arms timed in slices with whole trainings of the same arms."""
    full, timing = (
        ask(
            Question(
                f"trust-adaptive-{mode}-{epochs}",
                ("torch/portable", FUSED, f"{FUSED}+slow_33"),
                hardware=ONE_THREAD,
                settings={**SMALL, "epochs": epochs},
                more={"measure": measure},
            ),
            home,
            notebook,
        )
        for mode, measure in (("full", "full"), ("timing", QUICK_SLICES))
    )
    pairs = list(zip(full["comparisons"], timing["comparisons"], strict=True))
    speeds = [(one["speedup"], other["speedup"]) for one, other in pairs]
    share = timing["warm_s"] / full["warm_s"]
    return [
        Finding(
            f"arms timed in slices get the verdicts of trainings of {epochs} epochs, and speed-ups"
            " whose intervals overlap with theirs",
            "; ".join(f"{one['verdict']} and {other['verdict']}" for one, other in pairs),
            all(one["verdict"] == other["verdict"] != "inconclusive" for one, other in pairs)
            and all(a["low"] <= b["high"] and b["low"] <= a["high"] for a, b in speeds),
            [
                f"{', '.join(map(ratio_text, answer['comparisons']))}; {answer['warm_s']:.0f} s"
                for answer in (full, timing)
            ],
        ),
        Finding(
            f"in at most {_SHARE:.0%} of their time, once the trainers are warm",
            f"{share:.1%}",
            share <= _SHARE,
            (f"their start included, {timing['trainers_s'] / full['trainers_s']:.1%}",),
        ),
    ]


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


def hog(home: Path, notebook: Notebook, blocks: int = 12) -> list[Finding]:
    """Compare equal arms, and an arm a third slower: without the hog and with it."""
    parts = {
        "equal arms": (f"{FUSED}+again", ("same", "inconclusive")),
        "an arm a third slower": (f"{FUSED}+slow_33", ("slower",)),
    }
    return [
        _hog_finding(
            what, right, *(_with_hog(other, on, home, notebook, blocks) for on in (False, True))
        )
        for what, (other, right) in parts.items()
    ]


def _hog_finding(
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


def _with_hog(
    other: str, with_hog: bool, home: Path, notebook: Notebook, blocks: int
) -> Mapping[str, Any]:
    question = Question(
        f"trust-hog-{other.partition('+')[2].replace('_', '-')}-{'loud' if with_hog else 'quiet'}",
        (FUSED, other),
        blocks=blocks,
        settings=_SECONDS_LONG,
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
