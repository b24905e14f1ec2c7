"""`image_rows` on PyTorch with additional options for equal and slower arms.

    torch/fused            unchanged
    torch/fused+again      the same, declared as another arm
    torch/fused+slow_20    each training step takes 20 % longer

The additional options (`again`, `slow_20`) are removed before the workload sees them.
"""

import dataclasses
import re
import time
from functools import partial
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
    settings = ImageRowsSettings(**trial.settings)
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
        return with_share(model, sum(shares)) if asked.backend == "torch" else model

    return measure(dataclasses.replace(TASK, build=build), settings, inner)


def with_share(author: Any, share: float) -> Any:
    """Return a model like the author's, whose training takes a share longer."""
    # The kernel fused makes a functional model anew from its class, and a Sequential one as a plain
    # Sequential: the slowdown must be in the class.
    import keras  # noqa: PLC0415 - the framework of this process

    from workloads.models.rewriting import carry_compilation  # noqa: PLC0415 - imports it too

    class Slowed(keras.Model):
        """A model whose training steps take longer."""

        def train_step(self, data: Any) -> Any:
            began_s = time.perf_counter()
            logs = super().train_step(data)
            loop.lengthen(time.perf_counter() - began_s)
            return logs

    loop = Loop(share)
    slowed = Slowed(author.inputs, author.outputs, name=author.name)
    carry_compilation(author, slowed)
    return slowed


class Loop:
    """A training loop that takes a share longer than its steps and what is between them."""

    # It spins and does not sleep: during a sleep other threads evict the caches, and a step after a
    # wait of 20 % took 7 % longer by itself. Each step is longer, because the least slice is one
    # without anything that happens less often than once a slice.

    def __init__(self, share: float) -> None:
        self._share = share
        self._ended_s = 0.0

    def lengthen(self, took_s: float) -> None:
        """Spin for a share of the time since the last step ended; the step itself took `took_s`."""
        since_s = time.perf_counter() - self._ended_s
        end_s = time.perf_counter() + self._share * (
            since_s if since_s < _REST * took_s else took_s
        )
        while (now_s := time.perf_counter()) < end_s:
            pass
        self._ended_s = now_s


def _renamed(trial: Context, event: Any) -> None:
    """Forward an event; a kernel proof gets the name of the arm."""
    if type(event).__name__ == "KernelProof" and event.ran == event.asked:
        name = trial.implementation.kernel_text
        event = dataclasses.replace(event, asked=name, ran=name)
    trial.emit(event)
