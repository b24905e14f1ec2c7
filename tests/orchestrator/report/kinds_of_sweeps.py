"""Sweeps of every kind that a report must bear, from no trial to hostile names."""

import math
from dataclasses import replace
from typing import Any

from orchestrator.core.arms import Arm
from orchestrator.core.trial import FinishedTrial
from tests.building.arms import CPU, PORTABLE, XLA
from tests.building.hardware import build_timing_use
from tests.building.large_records import build_hostile_record, build_large_record
from tests.building.records import build_record
from tests.building.trials import build_trial

SLICED = tuple(Arm(name, build_timing_use(CPU)) for name in ("torch/fused", "tensorflow/portable"))
UNICODE = Arm('名 <script> [red]"quoted"[/red] \n \x1b\x07 \u202e\ud800 =cmd|', CPU)


def several(**changes: Any) -> list[FinishedTrial]:
    return [build_trial(block, arm, **changes) for block in range(7) for arm in (PORTABLE, XLA)]


RECORDS = {
    "no trial": build_record([]),
    "no arm": build_record([], arms=()),
    "one arm": build_record([build_trial(block, PORTABLE) for block in range(7)], (PORTABLE,)),
    "all failed": build_record(several(status="failed", failure="crash: signal 11", metrics={})),
    "no metric": build_record(several(metrics={})),
    "no number": build_record(several(step_ms=math.nan, val_accuracy=math.inf, train_s=-math.inf)),
    "zeros": build_record(
        several(step_ms=0.0, energy_j=0.0, energy_per_sample_j=0.0, train_cost_usd=0.0)
    ),
    "no config": build_record(several(config={})),
    "only timed": build_record(
        [build_trial(b, a, val_accuracy=None) for b in range(7) for a in SLICED], SLICED
    ),
    "all disturbed": build_record(several(disturbance={"other_processes": 90.0})),
    "no common block": build_record([build_trial(0, PORTABLE), build_trial(1, XLA)]),
    "no objective": replace(build_record(several()), objectives={}),
    "large": build_large_record(blocks=8, kernels=3),
    "unicode": build_record([build_trial(0, UNICODE, config={"rate": math.inf})], (UNICODE,)),
    "hostile": build_hostile_record(),
}
