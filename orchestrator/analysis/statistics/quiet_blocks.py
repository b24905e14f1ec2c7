"""The largest number of disturbed blocks that still permits a verdict.

A disturbance affects implementations unequally (with one busy core, one framework takes 1.8 times
as long, another is not slower at all). A mean over many disturbed blocks describes a busy machine.
"""

from __future__ import annotations

from orchestrator.analysis.statistics.estimates import MIN_BLOCKS

_ONE_IN = 3
"""One block in this many may be disturbed if all blocks have to count."""


def disturbance_reason(used: int, quiet: int, disturbed: int, unit: str = "block") -> str | None:
    """Return why too many blocks are disturbed for a verdict; None if they are few enough.

    Args:
        used: number of blocks that are compared.
        quiet: number of those with an undisturbed round.
        disturbed: number of those with a disturbed one.
        unit: the noun for them.
    """
    if used < MIN_BLOCKS or quiet >= MIN_BLOCKS or _ONE_IN * disturbed <= used:
        return None
    return (
        f"{quiet} of {used} {unit}s were quiet, and {MIN_BLOCKS} are needed where more than a "
        "third are disturbed: run more blocks (blocks: auto), or use a quieter node"
    )
