"""Golden reports: whole documents, kept as files next to this module and compared by a test.

`python -m tests.orchestrator.report.golden` writes them again after an intended change.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from orchestrator.analysis.summary import ReportSummary, summarise
from orchestrator.core.arms import Arm, HardwareUse, Usage
from orchestrator.core.criteria import PublishedRow, ReportCriteria
from orchestrator.core.formats import this_rnnsweep
from orchestrator.core.records import SweepRecord
from orchestrator.core.start_command import StartCommand
from orchestrator.core.trial import DatasetRecord, FinishedTrial, Kernel
from orchestrator.report.compare.changes import Changes, compare_sides
from orchestrator.report.compare.document import changes_document
from orchestrator.report.compare.sides import Side
from orchestrator.report.formats.text import to_text
from orchestrator.report.render import render, to_short_markdown
from orchestrator.storage.tracking.limits import ANSWER_LIMIT
from tests.building.arms import ARMS_OF_CELLS, CPU, GRU, LSTM, PORTABLE, UNROLL, XLA
from tests.building.hardware import build_timing_use
from tests.building.large_records import build_large_record
from tests.building.records import build_record
from tests.building.trials import build_trial, change_trial

FOLDER = Path(__file__).parent
EAGER = Arm("tensorflow/portable+eager", CPU)
SLICED = tuple(Arm(name, build_timing_use(CPU)) for name in ("torch/fused", "tensorflow/portable"))
DIGITS = DatasetRecord("digits", "0123456789abcdef", "scikit-learn", 1437, 360)


def reports() -> dict[str, Callable[[], str]]:
    """Return the function that makes the text of each file: one of each format."""
    return {
        "answers.txt": lambda: "\n".join(
            render(summarise(record), "text", width=80) for record in _short()
        ),
        "crossing.txt": lambda: render(summarise(crossing()), "text", full=True),
        "crossing.json": lambda: _of_no_version(render(summarise(crossing()), "json")),
        "everything-short.md": lambda: to_short_markdown(everything(), ANSWER_LIMIT, "report.html"),
        "changes.txt": lambda: to_text(changes_document(_changes())),
    }


def _short() -> tuple[SweepRecord, ...]:
    """Return the sweeps whose short reports are kept, each named after what it shows."""
    ten = quickstart().trials
    load = {"other_processes": 41.0}
    busy = [change_trial(t, disturbance=load) if t.block < 4 else t for t in ten]
    failure = "out_of_memory: the kernel ended the trainer at 15,109 MiB"
    failures = [
        change_trial(t, status="failed", failure=failure, metrics={}) if t.arm == XLA else t
        for t in ten[:12]
    ]
    own = [
        change_trial(t, metrics={"step_ms": t.metrics["step_ms"], "f1": 0.5 + 0.1 * (t.arm == XLA)})
        for t in ten
    ]
    return (
        quickstart(),
        _of_quickstart(busy, name="busy"),
        _of_quickstart([t for t in ten if t.arm == XLA], name="one-arm", arms=(XLA,)),
        _of_quickstart(failures, name="failures", state="stopped", expected_trials=18),
        replace(threads(), name="threads"),
        _of_quickstart(own, name="own-objective", objectives={"f1": "maximize"}),
    )


def quickstart() -> SweepRecord:
    """Return six configs on three implementations; XLA gains with the size, and compiles long."""
    units = (40, 48, 60, 72, 96, 120)
    speeds = {
        PORTABLE: (1.0,) * 6,
        XLA: (1.15, 1.3, 1.45, 1.6, 1.8, 2.1),
        UNROLL: (1.2, 1.35, 1.5, 1.45, 1.6, 1.7),
    }
    trials = [
        build_trial(
            block,
            arm,
            config={"units": size, "layers": 1, "batch_size": 64},
            step_ms=size / 8 / speeds[arm][block],
            val_accuracy=0.86 + size / 4000 + 0.001 * ((block + place) % 3),
            train_s=0.15 * size / 8 / speeds[arm][block],
            compile_s=compile_s,
        )
        for block, size in enumerate(units)
        for place, (arm, compile_s) in enumerate(((PORTABLE, 3.0), (XLA, 10.0), (UNROLL, 2.0)))
    ]
    return _of_quickstart(trials)


def _of_quickstart(
    trials: Sequence[FinishedTrial], arms: Sequence[Arm] = (PORTABLE, XLA, UNROLL), **changes: Any
) -> SweepRecord:
    start = StartCommand(("rnnsweep", "run", "quickstart"))
    return build_record(trials, arms, start=start, sampler="tpe", datasets=(DIGITS,), **changes)


def _changes() -> Changes:
    before, after = crossing(), replace(crossing(slower=1.2), run_id="after", state="running")
    return compare_sides(Side("quickstart#1", before), Side("quickstart#2", after))


def _of_no_version(text: str) -> str:
    """Leave out who wrote JSON: each commit would change the files."""
    writer = this_rnnsweep()
    return text.replace(f'"{writer.version}"', '""').replace(f'"{writer.commit}"', '""')


@cache
def everything() -> ReportSummary:
    """Return a sweep on two hardware classes, with failures, disturbances and all metrics."""
    record = build_large_record(blocks=14, kernels=3, epochs=3)
    trials = [_spoiled(finished) for finished in record.trials]
    configs = {finished.block: finished.config for finished in trials}
    reason = "the timed epochs took 3.0 s, less than the 10 s it takes"
    trials += [
        build_trial(b, EAGER, config=config, step_ms=5.0 + b, energy_absent=reason)
        for b, config in configs.items()
    ]
    row = PublishedRow(
        "a paper", "tensorflow/portable", "Tesla P100", {"units": 64}, {"fit_s": 39.82}, "fp32"
    )
    record = replace(
        build_record(trials, (*record.arms, EAGER), expected_trials=100, state="stopped"),
        criteria=ReportCriteria(published=(row,)),
        settings={"cell": "gru", "epochs": 3, "data_path": None},
        datasets=(DIGITS,),
        sampler="qmc",
        seed=7,
    )
    return summarise(record, targets=(0.85,))


def _spoiled(finished: FinishedTrial) -> FinishedTrial:
    place = finished.block, finished.arm.implementation
    finished = change_trial(finished, cost_basis="2 USD/h (a bill, 2026)")
    if place == (13, "tensorflow/portable+unroll"):
        return change_trial(finished, status="failed", failure="crash: signal 11", metrics={})
    if place == (12, "tensorflow/portable+xla"):
        kernel = Kernel("portable", "fused", "no while loop")
        return change_trial(finished, status="wrong_kernel", kernel=kernel)
    if place in ((2, "tensorflow/portable"), (5, "tensorflow/portable+xla")):
        return change_trial(finished, disturbance={"other_processes": 43.0}, attempt=2, node="n2")
    if place == (3, "tensorflow/portable"):
        later = finished.started_s + 2.5 * 86_400
        return change_trial(finished, node="n1", other_trainers=1, started_s=later)
    noise = {"steal_pct": 0.5, "throttled_pct": 2.0, "sm_clock_mhz": 1980.0}
    return change_trial(finished, node="n1", metrics={**finished.metrics, **noise})


def crossing(slower: float = 1.0) -> SweepRecord:
    """Return a sweep in which XLA overtakes from some 80 units on, and compiles longer."""
    trials = [
        build_trial(
            block,
            arm,
            step_ms=10.0 / ratio * (1 + 0.002 * (block % 3)),
            compile_s=compile_s + 0.1 * (block % 2),
            val_accuracy=0.9 + 0.001 * (block % 4),
            train_s=3.0,
        )
        for block in range(12)
        for arm, ratio, compile_s in ((PORTABLE, 1.0, 2.0), (XLA, (0.8 + block / 20) / slower, 5.0))
    ]
    return build_record(trials, datasets=(DIGITS,))


def variants() -> SweepRecord:
    """Return a sweep of two cells on two implementations: GRUs are faster and more accurate."""
    trials = [
        build_trial(
            block, arm, step_ms=ms + 0.01 * (block % 3), val_accuracy=accuracy + 0.01 * block
        )
        for block in range(8)
        for arm, ms, accuracy in zip(
            ARMS_OF_CELLS, (10, 8, 5, 4.5), (0.8, 0.82, 0.8, 0.82), strict=True
        )
    ]
    return build_record(trials, ARMS_OF_CELLS, settings={"cell": "lstm", "epochs": 3})


def threads() -> SweepRecord:
    """Return a sweep of two cells on one and on two threads; two help the LSTM more."""
    uses = [HardwareUse(CPU.hardware_class, Usage(threads=count)) for count in (1, 2)]
    arms = tuple(Arm("torch/fused", use, cell) for use in uses for cell in (LSTM, GRU))
    trials = [
        build_trial(
            block,
            arm,
            step_ms=ms * (1 + 0.01 * ((block + place) % 3)),
            val_accuracy=(0.9, 0.92)[arm.variant == GRU] + 0.001 * ((block * place) % 4),
            train_s=ms * 0.3,
            compile_s=0.1,
        )
        for block in range(8)
        for place, (arm, ms) in enumerate(zip(arms, (10.0, 8.0, 5.0, 4.6), strict=True))
    ]
    return build_record(trials, arms, datasets=(DIGITS,))
