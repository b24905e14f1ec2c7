"""One implementation declared as two arms with separate trainers: there is no difference."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.trusting.findings import Finding, Notebook, fewest_by_chance, most_by_chance
from tests.benchmarks.trusting.sweeps import FUSED, QUICK_SLICES, Question, ask, covers

PROMISED = 0.05


def questions(sweeps: int) -> Iterator[Question]:
    """Yield sweeps with different seeds, and so different configs, weights and orders."""
    for number in range(sweeps):
        arms, more = (FUSED, f"{FUSED}+again"), {"measure": dict(QUICK_SLICES)}
        yield Question(f"trust-equal-{number:02}", arms, seed=number, more=more)


def run(home: Path, notebook: Notebook, sweeps: int = 30) -> list[Finding]:
    """Run the sweeps and count covering intervals and wrong verdicts."""
    answers = [ask(question, home, notebook) for question in questions(sweeps)]
    covering = sum(covers(answer, 1.0) for answer in answers)
    wrong = sum(answer["verdict"] in ("faster", "slower") for answer in answers)
    least, most = fewest_by_chance(sweeps, 1 - PROMISED), most_by_chance(sweeps, PROMISED)
    ratios = sorted(answer["speedup"]["value"] for answer in answers)
    widths = sorted(answer["speedup"]["high"] / answer["speedup"]["low"] for answer in answers)
    return [
        Finding(
            f"at least {least} of {sweeps} real sweeps of two equal arms have an interval that"
            f" covers 1, at most {most} a verdict of a difference",
            f"{covering} cover it; {wrong} verdicts of a difference",
            covering >= least and wrong <= most,
            (
                f"speed-ups {ratios[0]:.3f} to {ratios[-1]:.3f}; the middle interval is"
                f" ± {50 * (widths[len(widths) // 2] - 1):.1f} % wide",
                f"{sum(answer['verdict'] == 'same' for answer in answers)} found the arms the same;"
                f" {sum(sum(answer['disturbed']) for answer in answers)} trials were disturbed",
                f"{sum(answer['seconds'] for answer in answers) / sweeps:.0f} s a sweep",
            ),
        )
    ]
