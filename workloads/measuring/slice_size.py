"""The number of training steps in a slice. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass

_SETTLING_STEPS = 4
"""Untimed steps before a slice that is part of a pass: as many batches are read ahead."""


@dataclass(frozen=True, slots=True)
class SliceSize:
    """The passes of one slice: `passes` times `settling_steps` untimed and `steps` timed steps."""

    steps: int
    settling_steps: int
    passes: int


def choose_slice_size(pass_steps: int, step_s: float, slice_s: float) -> SliceSize:
    """Return the size of a slice that takes about `slice_s`.

    A slice is whole passes over the data, or a part of one pass. A part that would be nearly a
    whole pass, with its settling steps, becomes a whole pass.

    Args:
        pass_steps: steps of a pass.
        step_s: seconds of a step.
        slice_s: intended seconds of a slice.
    """
    steps = max(1, round(slice_s / step_s))
    passes = round(steps / pass_steps)
    if passes:
        return SliceSize(pass_steps, 0, passes)
    settling_steps = min(_SETTLING_STEPS, 1 + steps // _SETTLING_STEPS)
    if steps + settling_steps >= pass_steps:
        return SliceSize(pass_steps, 0, 1)
    return SliceSize(steps, settling_steps, 1)
