"""One implementation declared as two arms with separate trainers: there is no difference."""

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
    """Yield sweeps with different seeds, and so different configs, weights and orders."""
    for number in range(sweeps):
        yield Question(
            f"trust-equal-{number:02}",
            (FUSED, f"{FUSED}+again"),
            seed=number,
            more={"measure": dict(QUICK_SLICES)},
        )


def run(home: Path, notebook: Notebook, sweeps: int = SWEEPS) -> list[Finding]:
    """Run the sweeps and count covering intervals and wrong verdicts."""
    answers = [
        notebook.once(question.name, question.spec(), partial(_answer, question, home))
        for question in questions(sweeps)
    ]
    covering = sum(answer["covers"] for answer in answers)
    wrong = [answer["verdict"] for answer in answers if answer["verdict"] in ("faster", "slower")]
    least, most = fewest_by_chance(sweeps, 1 - PROMISED), most_by_chance(sweeps, PROMISED)
    ratios = sorted(answer["speedup"]["value"] for answer in answers)
    widths = sorted(answer["speedup"]["high"] / answer["speedup"]["low"] for answer in answers)
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
                f"{sum(answer['verdict'] == 'same' for answer in answers)} found the arms the same;"
                f" {sum(answer['disturbed'] for answer in answers)} trials were disturbed",
                f"{sum(answer['seconds'] for answer in answers) / sweeps:.0f} s a sweep",
            ),
        )
    ]


def _answer(question: Question, home: Path) -> dict[str, Any]:
    answer = ask(question, home)
    return {
        **plain(answer.only),
        "covers": covers(answer.only, 1.0),
        "disturbed": answer.disturbed(),
        "slices": answer.slices(),
        "seconds": round(answer.seconds, 1),
    }
