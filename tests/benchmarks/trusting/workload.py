"""`image_rows` on PyTorch under names of our own: the same implementation again, or a slower one.

    torch/fused            as it is
    torch/fused+again      the same, declared as an arm of its own
    torch/fused+slow_20    the same, and 20 % more work: now and then a training step is done again

Options that are not ours (`again`, `slow_20`) are taken off before the workload sees them.
"""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from workloads.context import Context
from workloads.measuring.measurement import measure
from workloads.settings.image_rows import ImageRowsSettings
from workloads.tasks import image_rows

_SLOW = re.compile(r"slow_(\d+)")

_REST = 4.0
"""A pause before a step that is so many times as long as the step is no part of the loop."""


def run(trial: Context) -> dict[str, float]:
    """One trial, with the slowdown that its implementation's name asks for."""
    settings = ImageRowsSettings(**trial.settings)
    asked = trial.implementation
    ours = tuple(each for each in asked.options if each == "again" or _SLOW.fullmatch(each))
    plain = tuple(each for each in asked.options if each not in ours)
    inner = dataclasses.replace(
        trial,
        implementation=dataclasses.replace(asked, options=plain),
        emit=partial(_renamed, trial),
    )

    def build(data: Any) -> Any:
        model: Any = image_rows.build(settings, inner, data)
        if share := slowdown(ours):
            model.train_step = Slowed(model.train_step, share)
        return model

    load = partial(image_rows.load, settings)
    return measure(inner, settings, load=load, build=build)


def slowdown(options: tuple[str, ...]) -> float:
    """The share of a step that is waited after it: 0.2 for `slow_20`."""
    found = [_SLOW.fullmatch(each) for each in options]
    return sum(int(each[1]) for each in found if each) / 100


class Slowed:
    """A training step that is done again now and then, so that the whole loop takes a share longer.

    What the loop does between two steps counts as the step's; a pause between two slices or epochs
    does not. It is work and no wait: while a thread waits, strangers take its caches, and a step
    after a wait of 20 % took 7 % longer by itself.
    """

    def __init__(
        self, step: Any, share: float, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._step, self._share, self._clock = step, share, clock
        self._ended_s = self._owed_s = 0.0

    def __call__(self, data: Any) -> Any:
        began_s = self._clock()
        logs = self._step(data)
        now_s = self._clock()
        took_s, since_s = now_s - began_s, now_s - self._ended_s
        self._owed_s += self._share * (since_s if since_s < _REST * took_s else took_s)
        if self._owed_s >= took_s:
            logs = self._step(data)
            again_s = self._clock()
            self._owed_s -= again_s - now_s
            now_s = again_s
        self._ended_s = now_s
        return logs


def _renamed(trial: Context, event: Any) -> None:
    """Pass an event on; what proves a kernel speaks of the arm's own name."""
    if type(event).__name__ == "KernelProof" and event.ran == event.asked:
        name = trial.implementation.kernel_text
        event = dataclasses.replace(event, asked=name, ran=name)
    trial.emit(event)
