"""The built-in pruners. To add one, write its class here and add it to `PRUNERS`.

Options have the names and the defaults of Optuna's classes.
"""

# ruff: noqa: PLC0415  (Optuna is imported when a pruner is made)

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field

from orchestrator.sampling.kinds import PrunerKind

if TYPE_CHECKING:
    from optuna.pruners import BasePruner


class Median(PrunerKind):
    """Optuna's median rule: a block ends if it is worse than the median of the earlier ones."""

    name: Literal["median"] = "median"
    about: ClassVar[str] = "ends blocks that are worse than the median of the earlier ones"
    n_startup_trials: Annotated[
        int, Field(ge=0, description="Blocks that end before the first one may be pruned.")
    ] = 5
    n_warmup_steps: Annotated[
        int, Field(ge=0, description="Epochs of each block before it may be pruned.")
    ] = 0
    interval_steps: Annotated[
        int, Field(ge=1, description="Epochs from one check to the next.")
    ] = 1
    n_min_trials: Annotated[
        int, Field(ge=1, description="Values of an epoch that are needed to prune in it.")
    ] = 1

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


def _epochs_or_auto(value: Any) -> Any:
    is_count = isinstance(value, int) and not isinstance(value, bool) and value >= 1
    if value != "auto" and not is_count:
        raise ValueError("a whole number of at least 1, or auto")
    return value


class Hyperband(PrunerKind):
    """Optuna's Hyperband: successive halving, in brackets that differ in how early they begin."""

    name: Literal["hyperband"] = "hyperband"
    about: ClassVar[str] = "lets only the best blocks reach the next rung of epochs"
    min_resource: Annotated[
        int, Field(ge=1, description="Epochs before a block may be pruned.")
    ] = 1
    max_resource: Annotated[
        Annotated[int, Field(ge=1)] | Literal["auto"],
        BeforeValidator(_epochs_or_auto),
        Field(description="Epochs of a whole training; auto: the epochs of the first whole one."),
    ] = "auto"
    reduction_factor: Annotated[
        int, Field(ge=2, description="One block in so many reaches the next rung.")
    ] = 3

    @property
    def first_epoch(self) -> int:
        """The epoch after the lowest rung."""
        return self.min_resource + 1

    def make(self) -> BasePruner:
        """Return Optuna's pruner with these options."""
        from optuna.pruners import HyperbandPruner

        return HyperbandPruner(**self.options)


class Wilcoxon(PrunerKind):
    """Optuna's signed-rank test against the best block so far.

    It pairs a block's epochs with the epochs of the best block. They depend on each other, so that
    its p value is a threshold and no rate of errors.
    """

    name: Literal["wilcoxon"] = "wilcoxon"
    about: ClassVar[str] = "ends blocks whose epochs are worse than the epochs of the best block"
    p_threshold: Annotated[
        float, Field(gt=0, lt=1, description="Prune if the test's p value is below this.")
    ] = 0.1
    n_startup_steps: Annotated[
        int, Field(ge=0, description="Epochs before a block may be pruned.")
    ] = 2

    @property
    def first_epoch(self) -> int:
        """The first epoch with enough pairs: of n, the smallest p value is 1 / 2**n."""
        pairs = 1 + int(-math.log2(self.p_threshold))
        return max(2, self.n_startup_steps, pairs)

    def make(self) -> BasePruner:
        """Return Optuna's pruner with these options."""
        from optuna.pruners import WilcoxonPruner

        return WilcoxonPruner(**self.options)


PRUNERS: tuple[type[PrunerKind], ...] = (Median, Hyperband, Wilcoxon)
"""The built-in pruners, in the order of the documents."""
