"""A slowdown of one arm is detected with `blocks: auto`."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from scipy.stats import norm

from tests.benchmarks.trusting.findings import Finding, Notebook, fewest_by_chance
from tests.benchmarks.trusting.sweeps import (
    FUSED,
    ONE_THREAD,
    SMALL,
    Answer,
    Question,
    ask,
    plain,
)

SWEEPS: Mapping[int, int] = {20: 5, 5: 10}
"""The percentage of a slowdown, and the number of sweeps."""

_MISSED: Mapping[int, int] = {20: 0, 5: 1}
_SLICES = {"mode": "timing", "slices": [24, 36], "slice_s": 0.03}
"""Many short slices, because cores change their speed several times a second."""

_AUTO: Mapping[int, Mapping[str, Any]] = {
    20: {"interval": 0.05, "at_least": 6, "at_most": 24},
    5: {"interval": 0.03, "at_least": 6, "at_most": 24},
}
_POWER = 0.9


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


def run(home: Path, notebook: Notebook, share: float = 1.0) -> list[Finding]:
    """Run a share of the sweeps, at least one of each percentage."""
    findings = []
    for percent, promised in SWEEPS.items():
        sweeps = max(1, round(promised * share))
        answers = [_answer(question, home, notebook) for question in questions(percent, sweeps)]
        hits = sum(answer["verdict"] == "slower" for answer in answers)
        truth = 100 / (100 + percent)
        speeds = [answer["speedup"] for answer in answers]
        covering = sum(speed["low"] <= truth <= speed["high"] for speed in speeds)
        least = sweeps - _MISSED[percent] if sweeps == promised else sweeps
        findings.append(
            Finding(
                "slowdown",
                f"a slowdown of {percent} % is answers in at least {least} of {sweeps} sweeps with"
                " blocks: auto",
                f"in {hits}",
                hits >= least,
                tuple(_details(answers)),
            )
        )
        findings.append(
            Finding(
                "slowdown",
                f"the true speed-up of {truth:.3f} is in at least"
                f" {(certain := fewest_by_chance(sweeps, 0.95))} of these intervals",
                f"in {covering}; {statistics.geometric_mean(e['value'] for e in speeds):.3f} over"
                " all of them",
                covering >= certain,
            )
        )
    findings.append(_whole_trials(home, notebook, 12 if share == 1 else 6))
    return findings


def _answer(question: Question, home: Path, notebook: Notebook) -> Mapping[str, Any]:
    return notebook.once(question.name, question.spec(), lambda: _plain(ask(question, home)))


def _plain(answer: Answer) -> dict[str, Any]:
    ratios = [math.log(pair.baseline / pair.arm) for pair in answer.only.pairs]
    return {
        **plain(answer.only),
        "slices": answer.slices(),
        "disturbed": answer.disturbed(),
        "trainers_s": round(answer.trainers_s(), 1),
        "seconds": round(answer.seconds, 1),
        "pair_sd": round(statistics.stdev(ratios), 4) if len(ratios) > 1 else None,
    }


def _details(answers: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    speeds = sorted(answer["speedup"]["value"] for answer in answers)
    yield f"speed-ups {speeds[0]:.3f} to {speeds[-1]:.3f}"
    for key, unit in (("pairs", "blocks"), ("slices", "slices"), ("trainers_s", "s of trials")):
        values = [answer[key] for answer in answers]
        yield f"{statistics.median(values):g} {unit} in the middle, {max(values):g} at most"


def _whole_trials(home: Path, notebook: Notebook, blocks: int) -> Finding:
    """Estimate the number of pairs of whole trainings from the spread of some."""
    question = Question(
        "trust-slow-whole",
        (FUSED, f"{FUSED}+slow_5"),
        blocks=blocks,
        seed=1_000,
        hardware=ONE_THREAD,
        settings={**SMALL, "epochs": 4},
    )
    answer = _answer(question, home, notebook)
    sliced = [
        other["pair_sd"]
        for name, other in notebook.answers.items()
        if name.startswith("trust-slow-5-") and other["pair_sd"]
    ]
    whole_sd, slice_sd = answer["pair_sd"], statistics.median(sliced) if sliced else math.nan
    pair_s = answer["trainers_s"] / blocks
    whole, by_slices = pairs_for(0.05, whole_sd), pairs_for(0.05, slice_sd)
    return Finding(
        "slowdown",
        "fewer pairs of arms timed in slices than of whole trainings detect 5 % nine times in ten",
        f"{by_slices} against {whole}, by the spread of the pairs: {slice_sd:.3f} and"
        f" {whole_sd:.3f} (standard deviation of the log-ratios)",
        by_slices <= whole,
        (f"whole trainings as short as these take {pair_s:.1f} s a pair",),
    )


def pairs_for(difference: float, sd: float, power: float = _POWER) -> int:
    """Return the number of pairs that detect a difference at the 5 % level with this power.

    It uses the normal approximation n = ((z₀.₉₇₅ + z_power) · sd / log(1 + d))², plus two for the
    t interval. The result is at least six, the minimum for a verdict.
    """
    if math.isnan(sd):
        return 0
    quantiles = float(norm.ppf(0.975) + norm.ppf(power))
    return max(6, 2 + math.ceil((quantiles * sd / math.log1p(difference)) ** 2))
