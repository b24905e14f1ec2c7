"""One implementation declared as two arms, each in a trainer of its own: nothing is to be found."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from tests.benchmarks.trusting.findings import (
    Finding,
    Notebook,
    fewest_by_chance,
    most_by_chance,
)
from tests.benchmarks.trusting.sweeps import FUSED, QUICK_SLICES, Question, ask, covers, plain

SWEEPS = 30
PROMISED = 0.05


def questions(sweeps: int) -> Iterator[Question]:
    """Sweeps that differ in their seed, and so in their configs, weights and orders."""
    for number in range(sweeps):
        yield Question(
            f"trust-equal-{number:02}",
            (FUSED, f"{FUSED}+again"),
            seed=number,
            more={"measure": dict(QUICK_SLICES)},
        )


def run(home: Path, notebook: Notebook, sweeps: int = SWEEPS) -> list[Finding]:
    """Run them, and count."""
    found = [
        notebook.once(each.name, each.spec(), partial(_told, each, home))
        for each in questions(sweeps)
    ]
    covering = sum(each["covers"] for each in found)
    wrong = [each["verdict"] for each in found if each["verdict"] in ("faster", "slower")]
    least, most = fewest_by_chance(sweeps, 1 - PROMISED), most_by_chance(sweeps, PROMISED)
    ratios = sorted(each["speedup"]["value"] for each in found)
    widths = sorted(each["speedup"]["high"] / each["speedup"]["low"] for each in found)
    return [
        Finding(
            "equal",
            f"at least {least} of {sweeps} real sweeps of two equal arms have an interval that"
            f" covers 1, at most {most} a verdict of a difference",
            f"{covering} cover it; {len(wrong)} verdicts of a difference",
            covering >= least and len(wrong) <= most,
            (
                f"speed-ups {ratios[0]:.3f} to {ratios[-1]:.3f}; the middle interval is"
                f" ± {50 * (widths[len(widths) // 2] - 1):.1f} % wide",
                f"{sum(each['verdict'] == 'same' for each in found)} told the arms the same;"
                f" {sum(each['disturbed'] for each in found)} trials were disturbed",
                f"{sum(each['seconds'] for each in found) / sweeps:.0f} s a sweep",
            ),
        )
    ]


def _told(question: Question, home: Path) -> dict[str, Any]:
    answer = ask(question, home)
    return {
        **plain(answer.only),
        "covers": covers(answer.only, 1.0),
        "disturbed": answer.disturbed(),
        "slices": answer.slices(),
        "seconds": round(answer.seconds, 1),
    }
