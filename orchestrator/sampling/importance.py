"""The importance of params by functional ANOVA, as Optuna computes it from a random forest.

Source: Hutter, Hoos and Leyton-Brown, "An efficient approach for assessing hyperparameter
importance", International Conference on Machine Learning, 2014.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.core.trial import Config, is_number

FEWEST_CONFIGS = 20
"""The configs from which a forest of regression trees says something about a param."""

_SEED = 0


def param_importances(configs: Sequence[Config], values: Sequence[float]) -> Mapping[str, float]:
    """Return each param's share of the variance of the values over its tried range, by fANOVA.

    Interactions count for each of their params, so that the shares, which Optuna scales to a sum of
    1, are no more than a ranking with sizes. Empty for fewer than `FEWEST_CONFIGS`, for values that
    do not vary, and without a param that varies and that all configs have.
    """
    if len(configs) < FEWEST_CONFIGS or len(set(values)) < 2:
        return {}
    if not all(map(math.isfinite, values)):
        return {}
    shared = set.intersection(*(set(config) for config in configs))
    tried = {name: [config[name] for config in configs] for name in sorted(shared)}
    varied = {name: of_configs for name, of_configs in tried.items() if len(set(of_configs)) > 1}
    if not varied:
        return {}
    import optuna  # noqa: PLC0415  (its import takes a second)

    distributions = {name: _distribution(optuna, of_configs) for name, of_configs in varied.items()}
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)  # of a study that nobody sees
    try:
        study = optuna.create_study()
        for config, value in zip(configs, values, strict=True):
            params = {name: config[name] for name in varied}
            study.add_trial(
                optuna.trial.create_trial(params=params, distributions=distributions, value=value)
            )
        evaluator = optuna.importance.FanovaImportanceEvaluator(seed=_SEED)
        return dict(optuna.importance.get_param_importances(study, evaluator=evaluator))
    finally:
        optuna.logging.set_verbosity(verbosity)


def _distribution(optuna: Any, values: Sequence[Any]) -> Any:
    """Return the distribution of a param over what was tried: numbers, or unordered choices."""
    if not all(map(is_number, values)):
        return optuna.distributions.CategoricalDistribution(list(dict.fromkeys(values)))
    low, high = min(values), max(values)
    if all(isinstance(value, int) for value in values):
        return optuna.distributions.IntDistribution(low, high)
    return optuna.distributions.FloatDistribution(float(low), float(high))
