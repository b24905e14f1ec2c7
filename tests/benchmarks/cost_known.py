"""The cost model where the truth is known: overhead that gives way to arithmetic, and noise.

What is left of an error with little noise is the model's; a real sweep on a busy machine has mostly
the machine's.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Iterator
from dataclasses import dataclass

from orchestrator.analysis.cost_model import Method, NotPredicted, Observation, fit
from orchestrator.core.trial import Arm, Config
from tests.orchestrator.sample_hardware import on_cpu

_ARMS = tuple(Arm(f"made/{kind}", on_cpu("CPU", 2)) for kind in ("plain", "compiled", "fused"))
_OVERHEAD_S = (0.05, 0.02, 0.2)
_SPEED = (1.0, 0.7, 0.5)
_START_S = (3.0, 30.0, 5.0)
_SEEDS = 4
_MEDIANS: Method = "medians"


@dataclass(frozen=True, slots=True)
class Known:
    """Errors against the truth, without its noise, over new configs; and of the medians alone."""

    configs: int
    noise: float
    median: float
    ninetieth: float
    medians_alone: float
    coverage: float


def known() -> Iterator[Known]:
    """For few and many configs, with little noise and much."""
    for configs in (8, 16, 40):
        for noise in (0.03, 0.15):
            yield _known(configs, noise)


def _known(configs: int, noise: float) -> Known:
    errors, alone, inside = list[float](), list[float](), list[bool]()
    for seed in range(_SEEDS):
        dice = random.Random(seed)
        shown, hidden = _draw(dice, configs, noise), _draw(dice, 30, noise)
        model, medians = fit(shown, "trial_s"), fit(shown, "trial_s", [_MEDIANS])
        for each in hidden:
            truth = _seconds(each.params, _ARMS.index(each.arm))
            try:
                found = model.predict(each.params, each.arm)
            except NotPredicted:
                continue
            errors.append(abs(found.value / truth - 1))
            inside.append(found.low <= each.took["trial_s"] <= found.high)
            alone.append(abs(medians.predict(each.params, each.arm).value / truth - 1))
    return Known(
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
