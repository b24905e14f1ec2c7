"""Arms timed in slices get the verdicts of whole trainings in at most a tenth of the time.

Simulated data with known truth show that stopping early causes no bias.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from orchestrator.analysis.comparisons.speed import Comparison
from orchestrator.analysis.statistics.batch_means import PairedRatio, paired_ratio, planned_looks
from orchestrator.analysis.stopping import StoppingRule
from orchestrator.core.criteria import AutoBlocks, ReportCriteria, Timing
from orchestrator.report.render import summarise
from tests.benchmarks.trusting.findings import Finding, Notebook, fewest_by_chance
from tests.benchmarks.trusting.noise import LEAST_SD, MOST_SD, Logs, drawn, recorded
from tests.benchmarks.trusting.sweeps import (
    FUSED,
    ONE_THREAD,
    QUICK_SLICES,
    SMALL,
    Question,
    ask,
    ratio_text,
)
from tests.benchmarks.trusting.synthetic import made

SHARE = 0.1
_TRUTHS = (1.0, 1.05)
_AUTO = AutoBlocks(interval=0.06, least=6, most=60)
_TIMING = Timing(interval=0.06, least=12, most=96)
_SURE = 2.58
"""Standard errors of a mean that chance exceeds once in a hundred cases."""


def run(home: Path, notebook: Notebook, epochs: int = 500, draws: int = 400) -> list[Finding]:
    """Run the same arms in both modes, and the simulations."""
    answers = {}
    for mode, measure in (("full", "full"), ("timing", dict(QUICK_SLICES))):
        question = Question(
            f"trust-adaptive-{mode}-{epochs}",
            ("torch/portable", FUSED, f"{FUSED}+slow_33"),
            hardware=ONE_THREAD,
            settings={**SMALL, "epochs": epochs},
            more={"measure": measure},
        )
        answers[mode] = ask(question, home, notebook)
    full, timing = answers["full"], answers["timing"]
    verdicts = {
        mode: ", ".join(
            f"{comparison['arm'].partition(' on ')[0]} {comparison['verdict']}"
            for comparison in answer["comparisons"]
        )
        for mode, answer in answers.items()
    }
    pairs = zip(full["comparisons"], timing["comparisons"], strict=True)
    speeds = [(one["speedup"], other["speedup"]) for one, other in pairs]
    agree = [a["low"] <= b["high"] and b["low"] <= a["high"] for a, b in speeds]
    share = timing["warm_s"] / full["warm_s"]
    return [
        Finding(
            f"arms timed in slices get the verdicts of trainings of {epochs} epochs",
            "; ".join(f"{mode}: {arm_verdicts}" for mode, arm_verdicts in verdicts.items()),
            verdicts["full"] == verdicts["timing"] and "inconclusive" not in verdicts["full"],
            [
                f"{mode}: {', '.join(map(ratio_text, answer['comparisons']))};"
                f" {answer['warm_s']:.0f} s"
                for mode, answer in answers.items()
            ],
        ),
        Finding(
            "and speed-ups whose intervals overlap with those of the whole trainings",
            ", ".join("yes" if overlap else "no" for overlap in agree),
            all(agree),
        ),
        Finding(
            f"in at most {SHARE:.0%} of their time, once the trainers are warm",
            f"{share:.1%}",
            share <= SHARE,
            (f"their start included, {timing['trainers_s'] / full['trainers_s']:.1%}",),
        ),
        *stopping(draws),
    ]


def stopping(draws: int) -> list[Finding]:
    """Simulate rounds of slices and sweeps with `blocks: auto`, up to the product's stop."""
    logs, random, truth = recorded(), np.random.default_rng(8), math.log(_TRUTHS[-1])
    rounds = [sliced_until_narrow(truth, logs, random) for _ in range(draws)]
    findings = [
        _unbiased(
            "a round of slices that stops when its interval is narrow: a true ratio of"
            f" {_TRUTHS[-1]:g}",
            [result.log_ratio - truth for result in rounds],
            sum(abs(result.log_ratio - truth) <= (result.half_width or 0) for result in rounds),
            [result.turns for result in rounds],
            "turns",
        )
    ]
    for truth in _TRUTHS:
        random = np.random.default_rng([7, round(100 * truth)])
        comparisons = [drawn_until_enough(truth, logs, random) for _ in range(draws)]
        speedups = [comparison.speedup for comparison in comparisons if comparison.speedup]
        findings.append(
            _unbiased(
                f"a sweep that stops when its interval is narrow: a true speed-up of {truth:g}",
                [math.log(speedup.value / truth) for speedup in speedups],
                sum(speedup.low <= truth <= speedup.high for speedup in speedups),
                [len(comparison.pairs) for comparison in comparisons],
                "blocks",
            )
        )
    return findings


def _unbiased(
    what: str, errors: Sequence[float], covering: int, lengths: Sequence[int], unit: str
) -> Finding:
    """Check that enough intervals cover the truth and that the mean error is negligible."""
    draws, ordered = len(lengths), sorted(lengths)
    least = fewest_by_chance(draws, 0.95)
    bias, spread = statistics.fmean(errors), statistics.stdev(errors) / math.sqrt(len(errors))
    return Finding(
        f"{what} is in at least {least} of {draws} intervals, and the mean error is within chance",
        f"in {covering}; mean error {100 * bias:+.2f} % ± {100 * _SURE * spread:.2f} %",
        covering >= least and abs(bias) <= _SURE * spread,
        (f"{ordered[0]} to {ordered[-1]} {unit}, {ordered[draws // 2]} in the middle",),
    )


def sliced_until_narrow(truth: float, logs: Logs, random: np.random.Generator) -> PairedRatio:
    """Simulate one round of two arms that take turns in a random order, with recorded noise."""
    looks = planned_looks(_TIMING.least, _TIMING.most)
    noise = drawn(logs, 2 * _TIMING.most, random.uniform(LEAST_SD, MOST_SD), random)
    signs = random.choice((-1.0, 1.0), _TIMING.most)
    ratios = (truth + signs * (noise[1::2] - noise[::2])).tolist()
    results = [paired_ratio(ratios[:look], len(looks)) for look in looks]
    return next(
        (result for result in results if (result.interval or 1) <= _TIMING.interval), results[-1]
    )


def drawn_until_enough(truth: float, logs: Logs, random: np.random.Generator) -> Comparison:
    """Simulate one sweep of two arms, of which the second is `truth` times as fast."""
    record = made(_AUTO.most, 2, random, logs, speeds=(1.0, truth))
    stopping_rule = StoppingRule(_AUTO, record.arms, 1)
    for trial in record.trials:
        stopping_rule.take(trial)
        if stopping_rule.stop_decision is not None:
            break
    assert stopping_rule.stop_decision is not None
    blocks = stopping_rule.stop_decision.blocks
    trials = tuple(trial for trial in record.trials if trial.block < blocks)
    stopped = replace(
        record,
        trials=trials,
        blocks=blocks,
        expected_trials=len(trials),
        criteria=ReportCriteria(auto_blocks=_AUTO),
    )
    (comparison,) = summarise(stopped).comparisons
    return comparison
