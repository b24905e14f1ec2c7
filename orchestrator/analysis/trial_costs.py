"""Measured costs of a sweep: of its trials, of the starts of trainers, and between trials."""

import contextlib
import math
import random
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from orchestrator.analysis import cost_model
from orchestrator.core.arms import Arm
from orchestrator.core.trial import Config, FinishedTrial, Trial, canonical
from workloads.implementations import parse_implementation

START_S, REPORT_S, PAUSE_S, _TRAINER_S = 25.0, 6.0, 0.1, 12.0
"""Seconds before the first trial of a start (Ray, MLflow), after its last one (the report), between
two trials, and for a trainer that was not measured: two cores of an AMD EPYC, 2026-11-22."""

MEASURED = 2
"""The fewest trials of an arm that show how much its costs differ."""


def process_of(arm: Arm) -> object:
    """Return what identifies the trainer process of an arm on its node."""
    name = parse_implementation(arm.implementation).process
    name = name if arm.measure == "full" else arm.implementation
    return name, arm.hardware_class, arm.usage.threads


def trainer_starts(finished: Iterable[FinishedTrial]) -> Callable[[Arm], float]:
    """Return a function that gives the median seconds of the start of an arm's trainer."""
    starts_s = defaultdict[object, list[float]](list)
    for trial in finished:
        if trial.trainer_trials == 0 and "setup_s" in trial.metrics:
            took_s = trial.metrics["setup_s"] + trial.metrics.get("import_s", 0.0)
            starts_s[process_of(trial.arm)].append(took_s)
    return lambda arm: statistics.median(starts_s.get(process_of(arm), [_TRAINER_S]))


class TrialCosts:
    """A cost of trials (`target`), drawn from what was measured.

    The cost of a config that an arm has run is drawn from these trials. The cost of another config
    is what its sizes predict, with an error of that prediction. If sizes predict nothing, or a
    config is not known yet, the cost is drawn from all trials of the arm. `by_arm` has the measured
    costs. `model_error` is the median error of predictions on held-out configs, if any was used.
    """

    def __init__(
        self,
        target: str,
        observations: Sequence[cost_model.MeasuredTrial],
        settings: Mapping[str, Any],
        configs: Iterable[Config],
    ) -> None:
        self._settings = settings
        self.by_arm = defaultdict[Arm, list[float]](list)
        self._by_config = defaultdict[tuple[str, Arm], list[float]](list)
        for seen in observations:
            if target in seen.took:
                self.by_arm[seen.arm].append(seen.took[target])
                self._by_config[canonical(seen.params), seen.arm].append(seen.took[target])
        self.model_error: float | None = None
        self._errors: list[float] = []
        self._predicted: dict[tuple[str, Arm], float] = {}
        rows = [(config, arm) for config in configs for arm in self.by_arm]
        asked = [row for row in rows if self._key(*row) not in self._by_config]
        with contextlib.suppress(cost_model.NotPredicted):
            model = cost_model.fit(observations, target) if asked else None
            if model is not None and model.method == "ridge":
                self.model_error, self._errors = model.median_error, model.errors.tolist()
                for prediction in model.predict(asked, settings):
                    if prediction.value is not None:
                        self._predicted[self._key(prediction.config, prediction.arm)] = (
                            prediction.value
                        )
        self._error = statistics.pstdev(self._errors or [0.0])
        self._spread = {
            a: statistics.pstdev(v) / statistics.fmean(v) for a, v in self.by_arm.items()
        }

    def unmeasured(self, arms: Iterable[Arm]) -> list[Arm]:
        """Return the arms with too few trials."""
        return [arm for arm in arms if len(self.by_arm.get(arm, ())) < MEASURED]

    def draw(self, replicate: int) -> Callable[[Trial], float]:
        """Return a function that draws the cost of a trial in one possible future.

        The mean of an arm has an error of its own in each future, as its trials are a sample. A
        trial has the same luck on any fleet. The cost is 0 on an arm without a trial.
        """
        errors = {
            arm: _student(len(costs), f"{replicate} {arm}") for arm, costs in self.by_arm.items()
        }

        def cost(trial: Trial) -> float:
            arm, key = trial.arm, self._key(trial.config, trial.arm)
            chance = random.Random(f"{replicate} {trial.key}")
            if key in self._predicted:
                luck = math.exp(chance.choice(self._errors))
                return self._predicted[key] * luck * max(0.1, 1 + errors[arm] * self._error)
            if arm not in self.by_arm:
                return 0.0
            value = chance.choice(self._by_config.get(key) or self.by_arm[arm])
            return value * max(0.1, 1 + errors[arm] * self._spread[arm])

        return cost

    def _key(self, config: Config, arm: Arm) -> tuple[str, Arm]:
        return canonical(cost_model.params_of(self._settings, config, arm)), arm


def _student(count: int, seed: str) -> float:
    """Draw the error of a mean of so many values, in their standard deviations."""
    freedom, chance = max(1, count - 1), random.Random(seed)
    return chance.gauss() / math.sqrt(chance.gammavariate(freedom / 2, 2) / freedom * count)
