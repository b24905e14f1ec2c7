"""Arms timed in slices get the verdicts of whole trainings in at most a tenth of the time.

Simulated data with known truth show that stopping early causes no bias.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from orchestrator.analysis.comparisons.speed import Comparison
from orchestrator.analysis.statistics.batch_means import PairedRatio, paired_ratio, planned_looks
from orchestrator.analysis.stopping import StoppingRule
from orchestrator.core.criteria import AutoBlocks, ReportCriteria, Timing
from orchestrator.core.records import SweepRecord
from orchestrator.core.trial import FinishedTrial
from orchestrator.report.render import summarise
from tests.benchmarks.trusting.findings import Finding, Notebook, fewest_by_chance
from tests.benchmarks.trusting.noise import LEAST_SD, MOST_SD, drawn, recorded
from tests.benchmarks.trusting.sweeps import (
    FUSED,
    ONE_THREAD,
    QUICK_SLICES,
    SMALL,
    Answer,
    Question,
    ask,
    plain,
)
from tests.benchmarks.trusting.synthetic import made
from tests.orchestrator.sample_records import changed

ARMS = ("torch/portable", FUSED, f"{FUSED}+slow_33")
EPOCHS = 500
SHARE = 0.1

_BLOCKS = 6
_TRUTHS = (1.0, 1.05)
_AUTO = AutoBlocks(interval=0.06, least=6, most=60)
_TIMING = Timing(interval=0.06, least=12, most=96)
_SURE = 2.58
"""Standard errors of a mean that chance exceeds once in a hundred cases."""


def run(home: Path, notebook: Notebook, epochs: int = EPOCHS, draws: int = 400) -> list[Finding]:
    """Run the same arms in both modes, and the simulations."""
    answers = {measure: _answer(measure, home, notebook, epochs) for measure in ("full", "timing")}
    verdicts = {measure: _verdicts(answer) for measure, answer in answers.items()}
    agree = _overlaps(answers)
    share = answers["timing"]["warm_s"] / answers["full"]["warm_s"]
    started = answers["timing"]["trainers_s"] / answers["full"]["trainers_s"]
    return [
        Finding(
            "adaptive",
            f"arms timed in slices get the verdicts of trainings of {epochs} epochs",
            "; ".join(f"{measure}: {arm_verdicts}" for measure, arm_verdicts in verdicts.items()),
            verdicts["full"] == verdicts["timing"] and "inconclusive" not in verdicts["full"],
            tuple(
                f"{measure}: {_ratios(answer)}; {answer['warm_s']:.0f} s"
                for measure, answer in answers.items()
            ),
        ),
        Finding(
            "adaptive",
            "and speed-ups whose intervals overlap with those of the whole trainings",
            ", ".join("yes" if overlap else "no" for overlap in agree),
            all(agree),
        ),
        Finding(
            "adaptive",
            f"in at most {SHARE:.0%} of their time, once the trainers are warm",
            f"{share:.1%}",
            share <= SHARE,
            (f"their start included, {started:.1%}",),
        ),
        *stopping(draws),
    ]


def _answer(measure: str, home: Path, notebook: Notebook, epochs: int) -> Mapping[str, Any]:
    question = Question(
        f"trust-adaptive-{measure}-{epochs}",
        ARMS,
        blocks=_BLOCKS,
        hardware=ONE_THREAD,
        settings={**SMALL, "epochs": epochs},
        more={"measure": dict(QUICK_SLICES) if measure == "timing" else "full"},
    )
    return notebook.once(question.name, question.spec(), lambda: _plain(ask(question, home)))


def _plain(answer: Answer) -> dict[str, Any]:
    return {
        "comparisons": [plain(comparison) for comparison in answer.comparisons],
        "warm_s": round(warm_s(answer), 2),
        "trainers_s": round(answer.trainers_s(), 2),
        "seconds": round(answer.seconds, 1),
        "slices": answer.slices(),
    }


def warm_s(answer: Answer) -> float:
    """Return the seconds of all blocks except the first, in which the trainers were started."""
    trials = answer.record.trials
    first = min(trials, key=lambda trial: trial.started_s).block
    spans: dict[tuple[int, int], list[FinishedTrial]] = {}
    for trial in trials:
        if trial.block != first:
            spans.setdefault((trial.block, trial.repeat), []).append(trial)
    return sum(
        max(member.ended_s for member in members) - min(member.started_s for member in members)
        for members in spans.values()
    )


def _verdicts(answer: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{_arm(comparison)} {comparison['verdict']}" for comparison in answer["comparisons"]
    )


def _overlaps(answers: Mapping[str, Mapping[str, Any]]) -> list[bool]:
    """Return for each comparison whether the intervals of both modes overlap."""
    both = zip(answers["full"]["comparisons"], answers["timing"]["comparisons"], strict=True)
    speeds = [(full["speedup"], timing["speedup"]) for full, timing in both]
    return [a["low"] <= b["high"] and b["low"] <= a["high"] for a, b in speeds]


def _ratios(answer: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{_arm(comparison)} {comparison['speedup']['value']:.2f}"
        f" ({comparison['speedup']['low']:.2f}–{comparison['speedup']['high']:.2f})"
        for comparison in answer["comparisons"]
    )


def _arm(comparison: Mapping[str, Any]) -> str:
    return str(comparison["arm"]).partition(" on ")[0]


def stopping(draws: int) -> list[Finding]:
    """Simulate rounds of slices and sweeps with `blocks: auto`, up to the product's stop."""
    return [_sliced(draws), *(_stopped(truth, draws) for truth in _TRUTHS)]


def _sliced(draws: int) -> Finding:
    logs, random = recorded(), np.random.default_rng(8)
    results = [sliced_until_narrow(math.log(_TRUTHS[-1]), logs, random) for _ in range(draws)]
    errors = [result.log_ratio - math.log(_TRUTHS[-1]) for result in results]
    covering = sum(abs(e) <= (f.half_width or 0) for e, f in zip(errors, results, strict=True))
    what = (
        f"a round of slices that stops when its interval is narrow: a true ratio of {_TRUTHS[-1]:g}"
    )
    return _unbiased(what, errors, covering, [result.turns for result in results], "turns")


def _unbiased(
    what: str, errors: Sequence[float], covering: int, lengths: Sequence[int], unit: str
) -> Finding:
    """Check that enough intervals cover the truth and that the mean error is negligible."""
    draws = len(lengths)
    least, ordered = fewest_by_chance(draws, 0.95), sorted(lengths)
    bias, spread = statistics.fmean(errors), statistics.stdev(errors) / math.sqrt(len(errors))
    return Finding(
        "adaptive",
        f"{what} is in at least {least} of {draws} intervals, and the mean error is next to"
        " nothing",
        f"in {covering}; mean error {100 * bias:+.2f} % ± {100 * _SURE * spread:.2f} %",
        covering >= least and abs(bias) <= _SURE * spread,
        (f"{ordered[0]} to {ordered[-1]} {unit}, {ordered[draws // 2]} in the middle",),
    )


def sliced_until_narrow(
    truth: float, logs: np.ndarray[Any, Any], random: np.random.Generator
) -> PairedRatio:
    """Simulate one round of two arms that take turns in a random order, with recorded noise."""
    looks = planned_looks(_TIMING.least, _TIMING.most)
    noise = drawn(logs, 2 * _TIMING.most, random.uniform(LEAST_SD, MOST_SD), random)
    signs = random.choice((-1.0, 1.0), _TIMING.most)
    ratios = [
        float(truth + s * (b - a)) for s, a, b in zip(signs, noise[::2], noise[1::2], strict=True)
    ]
    results = [paired_ratio(ratios[:look], len(looks)) for look in looks]
    return next(
        (result for result in results if (result.interval or 1) <= _TIMING.interval), results[-1]
    )


def _stopped(truth: float, draws: int) -> Finding:
    logs, random = recorded(), np.random.default_rng([7, round(100 * truth)])
    comparisons = [drawn_until_enough(truth, logs, random) for _ in range(draws)]
    errors = [
        math.log(comparison.speedup.value / truth)
        for comparison in comparisons
        if comparison.speedup
    ]
    covering = sum(
        comparison.speedup is not None
        and comparison.speedup.low <= truth <= comparison.speedup.high
        for comparison in comparisons
    )
    what = f"a sweep that stops when its interval is narrow: a true speed-up of {truth:g}"
    return _unbiased(
        what, errors, covering, [len(comparison.pairs) for comparison in comparisons], "blocks"
    )


def drawn_until_enough(
    truth: float, logs: np.ndarray[Any, Any], random: np.random.Generator
) -> Comparison:
    """Simulate one sweep of two arms, of which the second is `truth` times as fast."""
    record = _faster(made(_AUTO.most, 2, random, logs), truth)
    stopping_rule = StoppingRule(_AUTO, record.arms, 1)
    for trial in record.trials:
        stopping_rule.take(trial)
        if stopping_rule.stop_decision is not None:
            break
    assert stopping_rule.stop_decision is not None
    blocks = stopping_rule.stop_decision.blocks
    trials = tuple(trial for trial in record.trials if trial.block < blocks)
    (comparison,) = summarise(_replaced(record, trials, blocks)).comparisons
    return comparison


def _faster(record: SweepRecord, truth: float) -> SweepRecord:
    trials = tuple(
        changed(trial, metrics={"step_ms": trial.metrics["step_ms"] / truth})
        if trial.arm == record.arms[1]
        else trial
        for trial in record.trials
    )
    return dataclasses.replace(record, trials=trials)


def _replaced(record: SweepRecord, trials: tuple[FinishedTrial, ...], blocks: int) -> SweepRecord:
    return dataclasses.replace(
        record,
        trials=trials,
        blocks=blocks,
        expected_trials=len(trials),
        criteria=ReportCriteria(auto_blocks=_AUTO),
    )
