"""`image_rows` on PyTorch with additional options for equal and slower arms.

    torch/fused            unchanged
    torch/fused+again      the same, declared as another arm
    torch/fused+slow_20    20 % more work: some training steps are repeated

The additional options (`again`, `slow_20`) are removed before the workload sees them. With the
setting `gate`, a path, a trial waits with its model until that file exists.
"""

import dataclasses
import re
import time
from functools import partial
from pathlib import Path
from typing import Any

from workloads.context import Context
from workloads.data.labelled import LabelledData
from workloads.measuring.measurement import measure
from workloads.tasks.image_rows.settings import ImageRowsSettings
from workloads.tasks.image_rows.task import TASK

_SLOW = re.compile(r"slow_(\d+)")

_REST = 4.0
"""A pause of at least this many step durations does not belong to the loop."""


def run(trial: Context) -> dict[str, float]:
    given = dict(trial.settings)
    gate = Path(given.pop("gate", "."))
    settings = ImageRowsSettings(**given)
    asked = trial.implementation
    shares = [int(match[1]) / 100 for match in map(_SLOW.fullmatch, asked.options) if match]
    plain = tuple(o for o in asked.options if o != "again" and not _SLOW.fullmatch(o))
    inner = dataclasses.replace(
        trial,
        implementation=dataclasses.replace(asked, options=plain),
        emit=partial(_renamed, trial),
    )

    def build(settings: ImageRowsSettings, trial: Context, data: LabelledData) -> Any:
        model = TASK.build(settings, trial, data)
        if shares:
            # Looked up when it is called: the trial has its own class of the model by then.
            model.train_step = Slowed(lambda data: type(model).train_step(model, data), sum(shares))
        while not gate.exists():
            time.sleep(0.05)
        return model

    return measure(dataclasses.replace(TASK, build=build), settings, inner)


class Slowed:
    """A training step that is sometimes repeated, so that the whole loop takes a share longer."""

    # The slowdown is work, not sleep: during a sleep other threads evict the caches, and a step
    # after a wait of 20 % took 7 % longer by itself.

    def __init__(self, step: Any, share: float) -> None:
        self._step, self._share = step, share
        self._ended_s = self._owed_s = 0.0

    def __call__(self, data: Any) -> Any:
        began_s = time.perf_counter()
        logs = self._step(data)
        now_s = time.perf_counter()
        took_s, since_s = now_s - began_s, now_s - self._ended_s
        self._owed_s += self._share * (since_s if since_s < _REST * took_s else took_s)
        if self._owed_s >= took_s:
            logs = self._step(data)
            again_s = time.perf_counter()
            self._owed_s -= again_s - now_s
            now_s = again_s
        self._ended_s = now_s
        return logs


def _renamed(trial: Context, event: Any) -> None:
    """Forward an event; a kernel proof gets the name of the arm."""
    if type(event).__name__ == "KernelProof" and event.ran == event.asked:
        name = trial.implementation.kernel_text
        event = dataclasses.replace(event, asked=name, ran=name)
    trial.emit(event)
