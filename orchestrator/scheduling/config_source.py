"""The source of a sweep's configs, as the scheduling core sees it."""

from collections.abc import Sequence
from typing import Protocol

from orchestrator.core.trial import Config


class ConfigSource(Protocol):
    """Gives each block its config, and learns the results of blocks.

    `Suggestions` calls it. For each block, in this order: `suggest` once (or `replay`, if an
    earlier start suggested the block), `should_prune` for each epoch of the trial that it follows,
    and `report` once. A resumed start makes the same calls from the journal, with `replay` in place
    of `suggest`. So a source follows from its calls and a seed alone: it then suggests the same.
    """

    def suggest(self, index: int) -> Config | None:
        """Return the config of block `index`, which no earlier block has; None if none is left."""

    def replay(self, index: int, config: Config) -> None:
        """Take over a block that an earlier start suggested."""

    def should_prune(self, index: int, step: int, value: float) -> bool:
        """Take the value of an epoch of an open block; return whether the block ends now."""

    def report(self, index: int, values: Sequence[float] | None, *, is_bad: bool = False) -> None:
        """Take a block's values, one for each objective; None for a failed or a bad block.

        A bad block was pruned, or its training diverged: its config is to be avoided.
        """
