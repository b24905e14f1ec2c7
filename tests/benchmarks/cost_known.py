"""The cost model on simulated data with known truth: overhead, arithmetic and noise.

With little noise, the remaining error is that of the model. In a real sweep on a busy machine, most
of it is that of the machine.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Iterator
from dataclasses import dataclass

from orchestrator.analysis.cost_model import Method, NotPredicted, Observation, fit
from orchestrator.core.arms import Arm
from orchestrator.core.trial import Config
from tests.orchestrator.sample_hardware import on_cpu

_ARMS = tuple(Arm(f"made/{kind}", on_cpu("CPU", 2)) for kind in ("plain", "compiled", "fused"))
_OVERHEAD_S = (0.05, 0.02, 0.2)
_SPEED = (1.0, 0.7, 0.5)
_START_S = (3.0, 30.0, 5.0)
_SEEDS = 4
_MEDIANS: Method = "medians"


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Errors against the noise-free truth on new configs, also for medians alone."""

    configs: int
    noise: float
    median: float
    ninetieth: float
    medians_alone: float
    coverage: float


def simulated_accuracies() -> Iterator[Accuracy]:
    """Measure accuracies for few and many configs, with little and much noise."""
    for configs in (8, 16, 40):
        for noise in (0.03, 0.15):
            yield _accuracy(configs, noise)


def _accuracy(configs: int, noise: float) -> Accuracy:
    errors, alone, inside = list[float](), list[float](), list[bool]()
    for seed in range(_SEEDS):
        dice = random.Random(seed)
        shown, hidden = _draw(dice, configs, noise), _draw(dice, 30, noise)
        model, medians = fit(shown, "trial_s"), fit(shown, "trial_s", [_MEDIANS])
        for observation in hidden:
            truth = _seconds(observation.params, _ARMS.index(observation.arm))
            try:
                prediction = model.predict(observation.params, observation.arm)
            except NotPredicted:
                continue
            errors.append(abs(prediction.value / truth - 1))
            inside.append(prediction.low <= observation.took["trial_s"] <= prediction.high)
            alone.append(
                abs(medians.predict(observation.params, observation.arm).value / truth - 1)
            )
    return Accuracy(
        configs,
        noise,
        statistics.median(errors),
        statistics.quantiles(errors, n=10)[-1],
        statistics.median(alone),
        sum(inside) / len(inside),
    )


def _draw(dice: random.Random, configs: int, noise: float) -> list[Observation]:
    drawn: list[Config] = [
        {
            "units": round(math.exp(dice.uniform(math.log(16), math.log(512)))),
            "layers": dice.randint(1, 3),
            "batch_size": dice.choice([32, 64, 128]),
            "sequence_length": dice.choice([32, 64, 128]),
        }
        for _ in range(configs)
    ]
    return [
        Observation(
            config, arm, {"trial_s": _seconds(config, kind) * dice.lognormvariate(0, noise)}
        )
        for config in drawn
        for kind, arm in enumerate(_ARMS)
    ]


def _seconds(config: Config, kind: int) -> float:
    steps = float(config["sequence_length"]) * float(config["layers"])
    arithmetic = float(config["batch_size"]) * steps * float(config["units"]) ** 2 / 4e6
    return _OVERHEAD_S[kind] * steps + _SPEED[kind] * arithmetic + _START_S[kind]
