"""The built-in pruners. To add one, write its class here and add it to `PRUNERS`.

Options have the names and the defaults of Optuna's classes.
"""

# ruff: noqa: PLC0415  (Optuna is imported when a pruner is made)

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from orchestrator.sampling.kinds import PrunerKind

if TYPE_CHECKING:
    from optuna.pruners import BasePruner


class Median(PrunerKind):
    """Optuna's median rule: a block ends if it is worse than the median of the earlier ones."""

    name: Literal["median"] = "median"
    about: ClassVar[str] = "ends configs that are worse than the median of the earlier ones"
    n_startup_trials: Annotated[
        int, Field(ge=0, description="How many blocks must end before one may be pruned.")
    ] = 5
    n_warmup_steps: Annotated[
        int, Field(ge=0, description="How many epochs of each block pass without pruning.")
    ] = 0

    @property
    def first_epoch(self) -> int:
        """The first epoch after the warm-up."""
        return self.n_warmup_steps + 1

    @property
    def startup_blocks(self) -> int:
        """The blocks that give the first median."""
        return self.n_startup_trials

    def make(self) -> BasePruner:
        """Return Optuna's pruner with these options."""
        from optuna.pruners import MedianPruner

        return MedianPruner(**self.options)


PRUNERS: tuple[type[PrunerKind], ...] = (Median,)
"""The built-in pruners, in the order of the documents."""
