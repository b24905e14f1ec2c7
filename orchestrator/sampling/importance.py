"""How important each param was for a value of the blocks, by Optuna."""

from collections.abc import Sequence

from orchestrator.core.trial import Config
from orchestrator.sampling.study_file import optuna_value, param_distributions

_FEWEST = 6
"""With fewer configs a forest tells nothing."""


def param_importances(
    configs: Sequence[Config], values: Sequence[float]
) -> dict[str, float] | None:
    """Return the share of the values' variance that each param explains, the largest share first.

    It is Optuna's fANOVA over the configs and their values: a random forest, which tells more than
    PED-ANOVA about the few configs of a sweep. Params that some configs lack have no share. None
    for fewer than six configs, equal values, or fewer than two params that vary.

    Source: Hutter, Hoos and Leyton-Brown, "An efficient approach for assessing hyperparameter
    importance", ICML 2014.
    """
    shared = set.intersection(*map(set, configs)) if configs else set()
    varied = [name for name in sorted(shared) if len({config[name] for config in configs}) > 1]
    if len(configs) < _FEWEST or len(varied) < 2 or len(set(values)) < 2:
        return None
    import optuna  # noqa: PLC0415  (with its importance it takes a second)

    tried = [{name: optuna_value(config[name]) for name in varied} for config in configs]
    distributions = param_distributions(tried)
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        study = optuna.create_study()
        for params, value in zip(tried, values, strict=True):
            study.add_trial(
                optuna.trial.create_trial(params=params, distributions=distributions, value=value)
            )
        evaluator = optuna.importance.FanovaImportanceEvaluator(seed=0)
        shares = optuna.importance.get_param_importances(study, evaluator=evaluator)
    except (ValueError, RuntimeError):  # a forest that found no variance
        return None
    finally:
        optuna.logging.set_verbosity(verbosity)
    return {name: float(share) for name, share in shares.items()}
