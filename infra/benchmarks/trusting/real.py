"""Real sweeps of equal and slowed arms, of whole trainings, and under a hog."""

import contextlib
import dataclasses
import functools
import math
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from infra.benchmarks import rig
from infra.benchmarks.trusting.findings import Finding, Notebook
from orchestrator.analysis.contrasts import contrast as contrasts
from orchestrator.analysis.summary import summarise
from orchestrator.core.records import SweepRecord
from orchestrator.report.words import TIME_WORDS, verdict_word
from orchestrator.storage.home import SweepFolder
from orchestrator.storage.journal import read
from tests.building.chance import fewest_by_chance, most_by_chance
from tests.building.specs import build_spec_text

FUSED = "torch/fused"
AGAIN, SLOW_THIRD = f"{FUSED}+again", f"{FUSED}+slow_33"
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

_SHARE = 0.1
_WRONG = 0.05
_COVERING = 0.9
"""The least share of intervals of equal arms that cover 1."""

_MAY_MISS = {20: 0, 5: 1}
_INTERVALS = {20: 0.05, 5: 0.03}
"""Of slowdowns in percent: how many sweeps may miss one, and the wanted interval."""

_BURN = """
import os, time
os.sched_setaffinity(0, {{{cpu}}})
end = time.monotonic() + 600
while time.monotonic() < end: pass
"""
"""One process per core, since the scheduler may put two on one core and spare a trainer."""

_SECONDS_LONG = {**SMALL, "epochs": 60}
"""Trials take some seconds, because telemetry reads the node once a second."""

_OPEN = TIME_WORDS[contrasts.Verdict.OPEN]
_POLL_S = 0.2
_NOTICED = 0.8


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
    """Run or resume a sweep and compare its arms, the first with each other."""
    # `warm_s` is without the first block, in which trainers were started; `disturbed` is of each
    # trial in the order of their ends.
    began_s = time.monotonic()
    ended, _ = rig.run(question.spec(), home)
    if ended.stopped is not None:
        raise Interrupted(question.name)
    record = ended.record
    wrong = [trial.failure for trial in record.trials if trial.status in ("failed", "wrong_kernel")]
    assert record.trials and not wrong, f"{question.name}: {len(wrong)} trials failed: {wrong[:1]}"
    summary = summarise(record)
    comparisons = [
        {
            "arm": contrast.subject,
            "verdict": verdict_word(contrast),
            "pairs": contrast.blocks,
            "speedup": dataclasses.asdict(contrast.estimate),
            "qualifier": contrast.qualifier,
        }
        for contrast in summary.contrasts
        if contrast.question == contrasts.Question.BASELINE
        and contrast.metric == summary.time_metric
    ]
    by_end = sorted(record.trials, key=lambda trial: trial.ended_s)
    return {
        **comparisons[0],
        "comparisons": comparisons,
        "warm_s": round(busy_s(record, min(record.trials, key=lambda t: t.started_s).block), 2),
        "trainers_s": round(busy_s(record), 2),
        "seconds": round(time.monotonic() - began_s, 1),
        "slices": round(sum(trial.metrics.get("slices", 0.0) for trial in record.trials)),
        "disturbed": [bool(trial.disturbance) for trial in by_end],
    }


def busy_s(record: SweepRecord, without_block: int | None = None) -> float:
    """Return the seconds in which trials ran; interleaved trials count once."""
    total, until_s = 0.0, 0.0
    for trial in sorted(record.trials, key=lambda trial: trial.started_s):
        if trial.block != without_block:
            total += max(0.0, trial.ended_s - max(trial.started_s, until_s))
            until_s = max(until_s, trial.ended_s)
    return total


def covering(answers: Sequence[Mapping[str, Any]], truth: float) -> int:
    speedups = [answer["speedup"] for answer in answers]
    return sum(speedup["low"] <= truth <= speedup["high"] for speedup in speedups)


def ratio_text(answer: Mapping[str, Any]) -> str:
    speedup = answer["speedup"]
    return f"{speedup['value']:.3f} ({speedup['low']:.3f}–{speedup['high']:.3f})"


def equal_arms(sweeps: int, kind: Literal["arms", "variants"]) -> Iterator[Question]:
    usual: dict[str, Any] = {"hardware": ["cpu"], "measure": _QUICK_SLICES}
    if kind == "variants":
        usual["variants"] = [{"name": "one"}, {"name": "other"}]
    for number in range(sweeps):
        arm = EQUAL[number % len(EQUAL)] if kind == "arms" else FUSED
        arms = [arm, f"{arm}+again"] if kind == "arms" else [arm]
        name = f"trust-{'equal' if kind == 'arms' else kind}-{number:02}"
        yield Question(name, arms, {**usual, "seed": number})


def equal(
    home: Path, notebook: Notebook, sweeps: int, kind: Literal["arms", "variants"] = "arms"
) -> list[Finding]:
    answers = [ask(question, home, notebook) for question in equal_arms(sweeps, kind)]
    hits, wrong = covering(answers, 1.0), sum(a["verdict"] in ("faster", "slower") for a in answers)
    least, most = fewest_by_chance(sweeps, 1 - _WRONG), most_by_chance(sweeps, _WRONG)
    if kind == "arms":
        least = math.ceil(_COVERING * sweeps)
    ratios = sorted(answer["speedup"]["value"] for answer in answers)
    disturbed = [each for answer in answers for each in answer["disturbed"]]
    return [
        Finding(
            f"at least {least} of {sweeps} real sweeps of two equal {kind} have an interval that"
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
        truth = 100 / (100 + percent)
        covered = covering(answers, truth)
        speeds = sorted(answer["speedup"]["value"] for answer in answers)
        least, certain = sweeps - _MAY_MISS[percent], fewest_by_chance(sweeps, 0.95)
        details = [f"speed-ups {speeds[0]:.3f} to {speeds[-1]:.3f}"]
        for key, unit in (("pairs", "blocks"), ("slices", "slices"), ("trainers_s", "s of trials")):
            values = [answer[key] for answer in answers]
            median = statistics.median(values)
            details.append(f"{median:g} {unit} in the middle, {max(values):g} at most")
        findings += [
            Finding(
                f"a slowdown of {percent} % is found in at least {least} of {sweeps} sweeps with"
                " configs: auto",
                f"in {hits}",
                hits >= least,
                details,
            ),
            Finding(
                f"the true speed-up of {truth:.3f} is in at least {certain} of these intervals",
                f"in {covered}; {statistics.geometric_mean(speeds):.3f} over all of them",
                covered >= certain,
            ),
        ]
    return findings


def adaptive(home: Path, notebook: Notebook, epochs: int = 500) -> list[Finding]:
    arms, whole = ("torch/portable", FUSED, SLOW_THIRD), {"settings": {**SMALL, "epochs": epochs}}
    measures: dict[str, Any] = {"full": "full", "timing": _QUICK_SLICES}
    questions = (
        Question(f"trust-adaptive-{mode}-{epochs}", arms, {**whole, "measure": measure})
        for mode, measure in measures.items()
    )
    full, timing = (ask(question, home, notebook) for question in questions)
    pairs = list(zip(full["comparisons"], timing["comparisons"], strict=True))
    speeds = [(first["speedup"], second["speedup"]) for first, second in pairs]
    share = timing["warm_s"] / full["warm_s"]
    return [
        Finding(
            f"arms timed in slices get the verdicts of trainings of {epochs} epochs, and speed-ups"
            " whose intervals overlap with theirs",
            "; ".join(f"{first['verdict']} and {second['verdict']}" for first, second in pairs),
            all(first["verdict"] == second["verdict"] != _OPEN for first, second in pairs)
            and all(a["low"] <= b["high"] and b["low"] <= a["high"] for a, b in speeds),
            [
                f"{', '.join(map(ratio_text, answer['comparisons']))}; {answer['warm_s']:.0f} s"
                for answer in (full, timing)
            ],
        ),
        Finding(
            f"in at most {_SHARE:.0%} of their time, once the trainers are warm",
            f"{share:.1%}",
            share <= _SHARE,
            (f"their start included, {timing['trainers_s'] / full['trainers_s']:.1%}",),
        ),
    ]


def burn(cpus: Iterable[int]) -> list[subprocess.Popen[bytes]]:
    commands = [_BURN.format(cpu=cpu) for cpu in cpus]
    return [subprocess.Popen([sys.executable, "-c", text]) for text in commands]


@contextlib.contextmanager
def hogged(folder: SweepFolder, after: int, during: int) -> Iterator[threading.Event]:
    """Load all cores after so many trials of a sweep, for so many; yield whether it has begun."""
    begun, over = threading.Event(), threading.Event()

    def watch() -> None:
        processes: list[subprocess.Popen[bytes]] = []
        ended = 0
        while ended < after + during and not over.wait(_POLL_S):
            state = read(folder.generation(1))
            ended = 0 if state is None else len(state.finished)
            if ended >= after and not processes:
                processes = burn(os.sched_getaffinity(0))
                begun.set()
        for process in processes:
            process.kill()
            process.wait()

    watcher = threading.Thread(target=watch, daemon=True, name="hog")
    watcher.start()
    try:
        yield begun
    finally:
        over.set()
        watcher.join()


def hog(home: Path, notebook: Notebook, blocks: int = 12) -> list[Finding]:
    findings: list[Finding] = []
    for what, other, right in (
        ("equal arms", AGAIN, ("same", _OPEN)),
        ("an arm a third slower", SLOW_THIRD, ("slower",)),
    ):
        name = f"trust-hog-{other.partition('+')[2].replace('_', '-')}"
        changes = {"configs": blocks, "settings": _SECONDS_LONG}
        asked = Question(f"{name}-quiet", (FUSED, other), changes)
        quiet = ask(asked, home, notebook)
        asked = dataclasses.replace(asked, name=f"{name}-loud")
        find = functools.partial(_with_hog, asked, home, 2 * (blocks // 3))
        loud = notebook.once(asked.name, asked.spec(), find)
        after = len(loud["disturbed"]) // 3
        # The first and last trial of the hog are only partly disturbed.
        marked = loud["disturbed"][after + 1 : 2 * after]
        others = sum(loud["disturbed"]) - sum(marked)
        verdicts = quiet["verdict"], loud["verdict"]
        findings.append(
            Finding(
                f"{what}: a hog on every core during a third of the sweep is detected, and the"
                f" verdict stays {' or '.join(right)}",
                f"without it {verdicts[0]}, with it {verdicts[1]}",
                sum(marked) >= _NOTICED * len(marked) and all(v in right for v in verdicts),
                [
                    f"without it: {sum(quiet['disturbed'])} trials marked; speed-up"
                    f" {ratio_text(quiet)}",
                    f"with it: {sum(marked)} of {len(marked)} trials during the hog marked, and"
                    f" {others} of {len(loud['disturbed']) - len(marked)} others; speed-up"
                    f" {ratio_text(loud)}",
                ],
            )
        )
    return findings


def _with_hog(question: Question, home: Path, third: int) -> dict[str, Any]:
    with hogged(SweepFolder(home, question.name), third, third) as begun:
        loud = answer(question, home)
    assert begun.is_set(), f"{question.name}: the sweep was over before the hog began"
    return loud
