"""Real sweeps of equal and of slowed arms."""

import dataclasses
import math
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.benchmarks import rig
from infra.benchmarks.trusting.findings import Finding, Notebook
from orchestrator.analysis.contrasts import contrast as contrasts
from orchestrator.analysis.summary import summarise
from orchestrator.core.records import SweepRecord
from orchestrator.report.words import verdict_word
from tests.building.chance import fewest_by_chance, most_by_chance
from tests.building.specs import build_spec_text

FUSED = "torch/fused"
EQUAL = FUSED, "tensorflow/portable"
"""Of equal arms: every second sweep trains on TensorFlow, whose processes keep one of several
speeds for life."""

SMALL: dict[str, Any] = {
    "dataset": "digits",
    "samples": 640,
    "validation_samples": 64,
    "batch_size": 64,
    "cell": "lstm",
    "layers": 1,
    "dense_units": 16,
    "dropout": 0.0,
    "epochs": 2,
}
_QUICK_SLICES = {"mode": "timing", "slices": [12, 16], "slice_s": 0.03}

_SLICES = {"mode": "timing", "slices": [24, 36], "slice_s": 0.03}
"""Many short slices, because cores change their speed several times a second."""

_ONE_THREAD: dict[str, Any] = {"class": "cpu", "threads": 1}
"""Driver, Ray and MLflow use a tenth of two CPUs. Two threads that wait for each other at each
step are as slow as the one that was interrupted, and blocks vary twice as much."""

_WRONG = 0.05
_COVERING = 0.9
"""The least share of intervals of equal arms that cover 1."""

_MAY_MISS = {20: 0, 5: 1}
_INTERVALS = {20: 0.05, 5: 0.03}
"""Of slowdowns in percent: how many sweeps may miss one, and the wanted interval."""

_EXACT = (5,)
"""The slowdowns whose true speed-up is asked for. Steps that spin for 20 % of their time took 23 to
25 % longer (results/trust.txt), for a reason that was not found."""


class Interrupted(Exception):
    """A sweep was stopped by a signal."""


@dataclass(frozen=True, slots=True)
class Question:
    """A sweep of arms on one machine's CPU; `changes` are changes of its spec."""

    name: str
    implementations: Sequence[str]
    changes: Mapping[str, Any]

    def spec(self) -> str:
        return build_spec_text(
            {"configs": 6, "settings": SMALL, "hardware": [_ONE_THREAD], **self.changes},
            name=self.name,
            workload="infra.benchmarks.trusting.workload:run",
            sampler="random",
            space={"units": {"low": 8, "high": 48, "log": True}},
            objectives={"step_ms": "minimize"},
            implementations=list(self.implementations),
        )


def ask(question: Question, home: Path, notebook: Notebook) -> dict[str, Any]:
    return notebook.once(question.name, question.spec(), lambda: answer(question, home))


def answer(question: Question, home: Path) -> dict[str, Any]:
    """Run or resume a sweep and compare its two arms."""
    # `disturbed` is of each trial in the order of their ends.
    began_s = time.monotonic()
    ended, _ = rig.run(question.spec(), home)
    if ended.stopped is not None:
        raise Interrupted(question.name)
    record = ended.record
    wrong = [trial.failure for trial in record.trials if trial.status in ("failed", "wrong_kernel")]
    assert record.trials and not wrong, f"{question.name}: {len(wrong)} trials failed: {wrong[:1]}"
    summary = summarise(record)
    contrast = next(
        contrast
        for contrast in summary.contrasts
        if contrast.question == contrasts.Question.BASELINE
        and contrast.metric == summary.time_metric
    )
    by_end = sorted(record.trials, key=lambda trial: trial.ended_s)
    return {
        "verdict": verdict_word(contrast),
        "pairs": contrast.blocks,
        "speedup": dataclasses.asdict(contrast.estimate),
        "qualifier": contrast.qualifier,
        "trainers_s": round(busy_s(record), 2),
        "seconds": round(time.monotonic() - began_s, 1),
        "slices": round(sum(trial.metrics.get("slices", 0.0) for trial in record.trials)),
        "disturbed": [bool(trial.disturbance) for trial in by_end],
    }


def busy_s(record: SweepRecord) -> float:
    """Return the seconds in which trials ran; interleaved trials count once."""
    total, until_s = 0.0, 0.0
    for trial in sorted(record.trials, key=lambda trial: trial.started_s):
        total += max(0.0, trial.ended_s - max(trial.started_s, until_s))
        until_s = max(until_s, trial.ended_s)
    return total


def covering(answers: Sequence[Mapping[str, Any]], truth: float) -> int:
    speedups = [answer["speedup"] for answer in answers]
    return sum(speedup["low"] <= truth <= speedup["high"] for speedup in speedups)


def equal_arms(sweeps: int) -> Iterator[Question]:
    for number in range(sweeps):
        arm = EQUAL[number % len(EQUAL)]
        changes = {"hardware": ["cpu"], "measure": _QUICK_SLICES, "seed": number}
        yield Question(f"trust-equal-{number:02}", (arm, f"{arm}+again"), changes)


def equal(home: Path, notebook: Notebook, sweeps: int = 20) -> list[Finding]:
    answers = [ask(question, home, notebook) for question in equal_arms(sweeps)]
    hits, wrong = covering(answers, 1.0), sum(a["verdict"] in ("faster", "slower") for a in answers)
    least, most = math.ceil(_COVERING * sweeps), most_by_chance(sweeps, _WRONG)
    ratios = sorted(answer["speedup"]["value"] for answer in answers)
    disturbed = [each for answer in answers for each in answer["disturbed"]]
    return [
        Finding(
            f"at least {least} of {sweeps} real sweeps of two equal arms have an interval that"
            f" covers 1, at most {most} a verdict of a difference",
            f"{hits} cover it; {wrong} verdicts of a difference",
            hits >= least and wrong <= most,
            [
                f"speed-ups {ratios[0]:.3f} to {ratios[-1]:.3f}",
                f"{sum(disturbed)} of {len(disturbed)} trials disturbed",
            ],
        )
    ]


def slowed_arms(percent: int, sweeps: int) -> Iterator[Question]:
    auto = {"interval": _INTERVALS[percent], "at_least": 6, "at_most": 24}
    usual = {"configs": auto, "measure": _SLICES}
    for number in range(sweeps):
        name, arms = f"trust-slow-{percent}-{number:02}", (FUSED, f"{FUSED}+slow_{percent}")
        yield Question(name, arms, {**usual, "seed": 1_000 + number})


def slowdown(home: Path, notebook: Notebook, twenty: int = 5, five: int = 10) -> list[Finding]:
    findings: list[Finding] = []
    for percent, sweeps in {20: twenty, 5: five}.items():
        answers = [ask(question, home, notebook) for question in slowed_arms(percent, sweeps)]
        hits = sum(answer["verdict"] == "slower" for answer in answers)
        speeds = sorted(answer["speedup"]["value"] for answer in answers)
        least = sweeps - _MAY_MISS[percent]
        details = [f"speed-ups {speeds[0]:.3f} to {speeds[-1]:.3f}"]
        for key, unit in (("pairs", "blocks"), ("slices", "slices"), ("trainers_s", "s of trials")):
            values = [answer[key] for answer in answers]
            median = statistics.median(values)
            details.append(f"{median:g} {unit} in the middle, {max(values):g} at most")
        findings.append(
            Finding(
                f"a slowdown of {percent} % is found in at least {least} of {sweeps} sweeps with"
                " configs: auto",
                f"in {hits}",
                hits >= least,
                details,
            )
        )
        if percent in _EXACT:
            truth = 100 / (100 + percent)
            covered, certain = covering(answers, truth), fewest_by_chance(sweeps, 0.95)
            findings.append(
                Finding(
                    f"the true speed-up of {truth:.3f} is in at least {certain} of these intervals",
                    f"in {covered}; {statistics.geometric_mean(speeds):.3f} over all of them",
                    covered >= certain,
                )
            )
    return findings
