"""A slowdown of one arm is detected with `blocks: auto`."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.benchmarks.trusting.findings import Finding, Notebook, fewest_by_chance
from tests.benchmarks.trusting.sweeps import FUSED, ONE_THREAD, Question, ask, covers

_SLICES = {"mode": "timing", "slices": [24, 36], "slice_s": 0.03}
"""Many short slices, because cores change their speed several times a second."""

_MAY_MISS: Mapping[int, int] = {20: 0, 5: 1}
_AUTO: Mapping[int, Mapping[str, Any]] = {
    20: {"interval": 0.05, "at_least": 6, "at_most": 24},
    5: {"interval": 0.03, "at_least": 6, "at_most": 24},
}


def questions(percent: int, sweeps: int) -> Iterator[Question]:
    """Yield sweeps of an arm and its slowed version, with `blocks: auto`."""
    for number in range(sweeps):
        yield Question(
            f"trust-slow-{percent}-{number:02}",
            (FUSED, f"{FUSED}+slow_{percent}"),
            blocks=None,
            seed=1_000 + number,
            hardware=ONE_THREAD,
            more={"measure": dict(_SLICES), "blocks": dict(_AUTO[percent])},
        )


def run(home: Path, notebook: Notebook, twenty: int = 5, five: int = 10) -> list[Finding]:
    """Run this many sweeps with a slowdown of 20 % and of 5 %."""
    return [
        finding
        for percent, sweeps in {20: twenty, 5: five}.items()
        for finding in _detected(percent, sweeps, home, notebook)
    ]


def _detected(percent: int, sweeps: int, home: Path, notebook: Notebook) -> Iterator[Finding]:
    answers = [ask(question, home, notebook) for question in questions(percent, sweeps)]
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
