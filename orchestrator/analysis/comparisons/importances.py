"""The importance of each param for a metric by fANOVA, from the blocks of one arm's effects."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from orchestrator.analysis.comparisons.effects import ParamEffect
from orchestrator.core.arms import Arm
from orchestrator.core.trial import Config, FinishedTrial
from orchestrator.sampling.importance import param_importances

_MOST_BLOCKS = 500
"""The most blocks, evenly spread, of which a forest is made: more take longer and tell no more."""


@dataclass(frozen=True, slots=True)
class ParamImportances:
    """What share each param has in the variance of a metric over the configs of an arm.

    The shares are fANOVA's by Optuna, from a random forest over so many `blocks`; of a time's
    logarithm. They add up to 1.
    """

    arm: Arm
    metric: str
    blocks: int
    shares: Mapping[str, float]


def importances(
    effects: Sequence[ParamEffect], trials: Iterable[FinishedTrial]
) -> Iterator[ParamImportances]:
    """Yield the importances for each metric on its first arm, where they can be estimated."""
    configs_of: dict[Arm, dict[int, Config]] = {}
    for trial in trials:
        configs_of.setdefault(trial.arm, {})[trial.block] = trial.config
    for metric in dict.fromkeys(effect.metric for effect in effects):
        of_metric = [effect for effect in effects if effect.metric == metric]
        arm, is_ratio = of_metric[0].arm, of_metric[0].is_ratio
        values = {p.block: p.value for e in of_metric if e.arm == arm for p in e.points}
        if is_ratio:
            values = {block: math.log(value) for block, value in values.items()}
        configs = configs_of.get(arm, {})
        blocks = [block for block in sorted(values) if block in configs]
        blocks = blocks[:: max(1, math.ceil(len(blocks) / _MOST_BLOCKS))]
        shares = param_importances([configs[b] for b in blocks], [values[b] for b in blocks])
        if shares:
            yield ParamImportances(arm, metric, len(blocks), shares)
