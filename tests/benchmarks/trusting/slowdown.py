"""A slowdown that is built into one arm is found, by as many blocks as it takes."""

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
"""Percent, and how many sweeps are to find it."""

_MISSED: Mapping[int, int] = {20: 0, 5: 1}
_SLICES = {"mode": "timing", "slices": [24, 36], "slice_s": 0.03}
"""Short ones, and many: this machine's cores change their speed several times in a second."""

_AUTO: Mapping[int, Mapping[str, Any]] = {
    20: {"interval": 0.05, "at_least": 6, "at_most": 24},
    5: {"interval": 0.03, "at_least": 6, "at_most": 24},
}
_POWER = 0.9


def questions(percent: int, sweeps: int) -> Iterator[Question]:
    """Sweeps of an arm and the same with a wait after each step, to as many blocks as it takes."""
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
    """Run them; `share` of the sweeps, at least one of each."""
    findings = []
    for percent, promised in SWEEPS.items():
        sweeps = max(1, round(promised * share))
        found = [_told(question, home, notebook) for question in questions(percent, sweeps)]
        hits = sum(each["verdict"] == "slower" for each in found)
        truth = 100 / (100 + percent)
        speeds = [each["speedup"] for each in found]
        covering = sum(each["low"] <= truth <= each["high"] for each in speeds)
        least = sweeps - _MISSED[percent] if sweeps == promised else sweeps
        findings.append(
            Finding(
                "slowdown",
                f"a slowdown of {percent} % is found in at least {least} of {sweeps} sweeps with"
                " blocks: auto",
                f"in {hits}",
                hits >= least,
                tuple(_details(found)),
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


def _told(question: Question, home: Path, notebook: Notebook) -> Mapping[str, Any]:
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


def _details(found: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    speeds = sorted(each["speedup"]["value"] for each in found)
    yield f"speed-ups {speeds[0]:.3f} to {speeds[-1]:.3f}"
    for what, unit in (("pairs", "blocks"), ("slices", "slices"), ("trainers_s", "s of trials")):
        values = [each[what] for each in found]
        yield f"{statistics.median(values):g} {unit} in the middle, {max(values):g} at most"


def _whole_trials(home: Path, notebook: Notebook, blocks: int) -> Finding:
    """How many pairs of whole trainings it would take, by the spread of some."""
    question = Question(
        "trust-slow-whole",
        (FUSED, f"{FUSED}+slow_5"),
        blocks=blocks,
        seed=1_000,
        hardware=ONE_THREAD,
        settings={**SMALL, "epochs": 4},
    )
    told = _told(question, home, notebook)
    sliced = [
        each["pair_sd"]
        for name, each in notebook.answers.items()
        if name.startswith("trust-slow-5-") and each["pair_sd"]
    ]
    whole_sd, slice_sd = told["pair_sd"], statistics.median(sliced) if sliced else math.nan
    each_s = told["trainers_s"] / blocks
    whole, by_slices = pairs_for(0.05, whole_sd), pairs_for(0.05, slice_sd)
    return Finding(
        "slowdown",
        "fewer pairs of arms timed in slices than of whole trainings tell 5 % apart nine times in"
        " ten",
        f"{by_slices} against {whole}, by the spread of the pairs: {slice_sd:.3f} and"
        f" {whole_sd:.3f} (standard deviation of the log-ratios)",
        by_slices <= whole,
        (f"whole trainings as short as these take {each_s:.1f} s a pair",),
    )


def pairs_for(difference: float, sd: float, power: float = _POWER) -> int:
    """Pairs that tell a difference (a share) from none at the 5 % level, so often.

    By the normal approximation, n = ((z₀.₉₇₅ + z_power) · sd / log(1 + d))², and two more for the
    t interval's sake; at least six, below which there is no verdict.
    """
    if math.isnan(sd):
        return 0
    quantiles = float(norm.ppf(0.975) + norm.ppf(power))
    return max(6, 2 + math.ceil((quantiles * sd / math.log1p(difference)) ** 2))
