"""Of how many steps a slice is made. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass

_SETTLING = 4
"""Steps before the window of a slice that is a part of a pass: as many batches are read ahead."""


@dataclass(frozen=True, slots=True)
class SliceSize:
    """What is run at once: `steps` that count, after `settling` ones; so often for one slice."""

    steps: int
    settling: int
    passes: int


def choose_slice_size(pass_steps: int, step_s: float, slice_s: float) -> SliceSize:
    """The slice that takes about `slice_s`, of a pass of so many steps.

    A part of a pass that would be nearly all of it, once it has settled, is the whole of it.
    """
    wanted = max(1, round(slice_s / step_s))
    passes = round(wanted / pass_steps)
    if passes:
        return SliceSize(pass_steps, 0, passes)
    settling = min(_SETTLING, 1 + wanted // _SETTLING)
    if wanted + settling >= pass_steps:
        return SliceSize(pass_steps, 0, 1)
    return SliceSize(wanted, settling, 1)
