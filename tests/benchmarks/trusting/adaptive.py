"""Arms timed in slices get the verdicts of whole trainings, in a tenth of their time or less.

And without a bias from when they stop: shown on draws whose truth is known.
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
from orchestrator.analysis.statistics.batch_means import Paired, paired, planned_looks
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
"""Standard errors of a mean that chance exceeds once in a hundred times."""


def run(home: Path, notebook: Notebook, epochs: int = EPOCHS, draws: int = 400) -> list[Finding]:
    """The same arms both ways, and the draws."""
    told = {measure: _told(measure, home, notebook, epochs) for measure in ("full", "timing")}
    verdicts = {measure: _verdicts(each) for measure, each in told.items()}
    agree = _overlaps(told)
    share = told["timing"]["warm_s"] / told["full"]["warm_s"]
    started = told["timing"]["trainers_s"] / told["full"]["trainers_s"]
    return [
        Finding(
            "adaptive",
            f"arms timed in slices get the verdicts of trainings of {epochs} epochs",
            "; ".join(f"{measure}: {each}" for measure, each in verdicts.items()),
            verdicts["full"] == verdicts["timing"] and "inconclusive" not in verdicts["full"],
            tuple(
                f"{measure}: {_ratios(each)}; {each['warm_s']:.0f} s"
                for measure, each in told.items()
            ),
        ),
        Finding(
            "adaptive",
            "and speed-ups whose intervals overlap with those of the whole trainings",
            ", ".join("yes" if each else "no" for each in agree),
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


def _told(measure: str, home: Path, notebook: Notebook, epochs: int) -> Mapping[str, Any]:
    question = Question(
        f"trust-adaptive-{measure}-{epochs}",
        ARMS,
        blocks=_BLOCKS,
        hardware=ONE_THREAD,
        settings={**SMALL, "epochs": epochs},
        more={"measure": dict(QUICK_SLICES) if measure == "timing" else "full"},
    )
    return notebook.once(question.name, question.spec(), lambda: _found(ask(question, home)))


def _found(answer: Answer) -> dict[str, Any]:
    return {
        "comparisons": [plain(each) for each in answer.comparisons],
        "warm_s": round(warm_s(answer), 2),
        "trainers_s": round(answer.trainers_s(), 2),
        "seconds": round(answer.seconds, 1),
        "slices": answer.slices(),
    }


def warm_s(answer: Answer) -> float:
    """Seconds of all blocks but the first one that ran, in which the trainers were started."""
    trials = answer.record.trials
    first = min(trials, key=lambda each: each.started_s).block
    spans: dict[tuple[int, int], list[FinishedTrial]] = {}
    for each in trials:
        if each.block != first:
            spans.setdefault((each.block, each.repeat), []).append(each)
    return sum(
        max(each.ended_s for each in members) - min(each.started_s for each in members)
        for members in spans.values()
    )


def _verdicts(told: Mapping[str, Any]) -> str:
    return ", ".join(f"{_arm(each)} {each['verdict']}" for each in told["comparisons"])


def _overlaps(told: Mapping[str, Mapping[str, Any]]) -> list[bool]:
    """Of each comparison, whether what both ways say of it may be true at once."""
    both = zip(told["full"]["comparisons"], told["timing"]["comparisons"], strict=True)
    speeds = [(full["speedup"], timing["speedup"]) for full, timing in both]
    return [a["low"] <= b["high"] and b["low"] <= a["high"] for a, b in speeds]


def _ratios(told: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{_arm(each)} {each['speedup']['value']:.2f}"
        f" ({each['speedup']['low']:.2f}–{each['speedup']['high']:.2f})"
        for each in told["comparisons"]
    )


def _arm(told: Mapping[str, Any]) -> str:
    return str(told["arm"]).partition(" on ")[0]


def stopping(draws: int) -> list[Finding]:
    """Rounds of slices and sweeps with `blocks: auto`, drawn until the product's own rule ends."""
    return [_sliced(draws), *(_stopped(truth, draws) for truth in _TRUTHS)]


def _sliced(draws: int) -> Finding:
    logs, random = recorded(), np.random.default_rng(8)
    found = [sliced_until_narrow(math.log(_TRUTHS[-1]), logs, random) for _ in range(draws)]
    errors = [each.log_ratio - math.log(_TRUTHS[-1]) for each in found]
    covering = sum(abs(e) <= (f.half_width or 0) for e, f in zip(errors, found, strict=True))
    what = (
        f"a round of slices that stops when its interval is narrow: a true ratio of {_TRUTHS[-1]:g}"
    )
    return _unbiased(what, errors, covering, [each.turns for each in found], "turns")


def _unbiased(
    what: str, errors: Sequence[float], covering: int, lengths: Sequence[int], unit: str
) -> Finding:
    """Whether as many intervals cover as is promised, and the mean error is next to nothing."""
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
) -> Paired:
    """One round of two arms that take turns, in a random order, under recorded noise."""
    looks = planned_looks(_TIMING.least, _TIMING.most)
    noise = drawn(logs, 2 * _TIMING.most, random.uniform(LEAST_SD, MOST_SD), random)
    signs = random.choice((-1.0, 1.0), _TIMING.most)
    ratios = [
        float(truth + s * (b - a)) for s, a, b in zip(signs, noise[::2], noise[1::2], strict=True)
    ]
    found = [paired(ratios[:look], len(looks)) for look in looks]
    return next((each for each in found if (each.interval or 1) <= _TIMING.interval), found[-1])


def _stopped(truth: float, draws: int) -> Finding:
    logs, random = recorded(), np.random.default_rng([7, round(100 * truth)])
    found = [drawn_until_enough(truth, logs, random) for _ in range(draws)]
    errors = [math.log(each.speedup.value / truth) for each in found if each.speedup]
    covering = sum(
        each.speedup is not None and each.speedup.low <= truth <= each.speedup.high
        for each in found
    )
    what = f"a sweep that stops when its interval is narrow: a true speed-up of {truth:g}"
    return _unbiased(what, errors, covering, [len(each.pairs) for each in found], "blocks")


def drawn_until_enough(
    truth: float, logs: np.ndarray[Any, Any], random: np.random.Generator
) -> Comparison:
    """One sweep of two arms, of which the second is `truth` times as fast."""
    record = _faster(made(_AUTO.most, 2, random, logs), truth)
    stopping_rule = StoppingRule(_AUTO, record.arms, 1)
    for each in record.trials:
        stopping_rule.take(each)
        if stopping_rule.stop_decision is not None:
            break
    assert stopping_rule.stop_decision is not None
    blocks = stopping_rule.stop_decision.blocks
    trials = tuple(each for each in record.trials if each.block < blocks)
    (found,) = summarise(_replaced(record, trials, blocks)).comparisons
    return found


def _faster(record: SweepRecord, truth: float) -> SweepRecord:
    trials = tuple(
        changed(each, metrics={"step_ms": each.metrics["step_ms"] / truth})
        if each.arm == record.arms[1]
        else each
        for each in record.trials
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
