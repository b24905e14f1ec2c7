"""Whether blocks in which something else was at work may decide: by how many of them there are.

A disturbance hits implementations unequally (one busy core: one framework takes 1.8 times as long,
another no longer at all), so that a mean over many disturbed blocks is that of another machine.
"""

from __future__ import annotations

from orchestrator.analysis.statistics.estimates import MIN_BLOCKS

_ONE_IN = 3
"""Of so many blocks one may be disturbed where all have to count."""


def doubt(used: int, quiet: int, disturbed: int, unit: str = "block") -> str:
    """Why nothing can be told from blocks that all count, for want of quiet ones; else empty.

    Args:
        used: the blocks that are compared.
        quiet: those with an undisturbed round.
        disturbed: those with a disturbed one.
        unit: what they are.
    """
    if used < MIN_BLOCKS or quiet >= MIN_BLOCKS or _ONE_IN * disturbed <= used:
        return ""
    return (
        f"{quiet} of {used} {unit}s were quiet, and {MIN_BLOCKS} are needed where more than a "
        "third are disturbed: run with disturbed: rerun, or on a quieter node"
    )
