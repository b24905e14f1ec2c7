"""The `search.pruner` section: which blocks end before their last epoch.

pruner: median                                    # or hyperband, or wilcoxon
pruner: {name: median, n_startup_trials: 4, n_warmup_steps: 2}
"""

import math
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from orchestrator.spec.fields import Count, refusal
from orchestrator.spec.sections import Share, WordedSection, Words

Natural: TypeAlias = Annotated[int, Field(ge=0)]

_PRUNERS: Mapping[str, tuple[str, ...]] = {
    "median": ("n_startup_trials", "n_warmup_steps", "interval_steps", "n_min_trials"),
    "hyperband": ("min_resource", "max_resource", "reduction_factor"),
    "wilcoxon": ("p_threshold", "n_startup_steps"),
}


class PrunerSpec(WordedSection):
    """The `search.pruner` section: a pruner of Optuna, with the keywords of its class as options.

    Its steps are epochs. Wilcoxon's test pairs them with those of the best block: they depend on
    each other, so that its p value is a threshold and no rate of errors.
    """

    words: ClassVar[Words] = {name: {"name": name} for name in _PRUNERS}

    name: Literal["median", "hyperband", "wilcoxon"]
    n_startup_trials: Natural = 5
    n_warmup_steps: Natural = 0
    interval_steps: Count = 1
    n_min_trials: Count = 1
    min_resource: Count = 1
    max_resource: Count = 1
    reduction_factor: Annotated[int, Field(ge=2)] = 3
    p_threshold: Share = 0.1
    n_startup_steps: Natural = 2

    @model_validator(mode="after")
    def _known_options(self) -> Self:
        valid = _PRUNERS[self.name]
        for key in self.model_fields_set - {"name", *valid}:
            raise refusal(f"an option of {self.name} ({', '.join(valid)})", repr(key), key=key)
        return self

    @property
    def first_epoch(self) -> int:
        """The number of epochs after which a block may end at the earliest."""
        pairs = 1 + int(-math.log2(self.p_threshold))  # of n, the smallest p value is 1 / 2**n
        firsts = {"median": self.n_warmup_steps + 1, "hyperband": self.min_resource + 1}
        return firsts.get(self.name, max(2, self.n_startup_steps, pairs))
