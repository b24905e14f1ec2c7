"""`synthetic`: the recurrent layers alone, forward and backward, on random input.

Braun 2018 and DeepBench report the same measurement: no data, no head, no optimizer.
"""

from typing import Any

import numpy as np

from workloads.context import Context
from workloads.data.samples import DataSet, Samples
from workloads.settings import TrainingPlan
from workloads.tasks.synthetic.settings import SyntheticSettings
from workloads.tasks.task import Task


def load(settings: SyntheticSettings, seed: int) -> DataSet:
    """Draw a batch, which has no targets."""
    samples = Samples(random_inputs(settings, seed), np.zeros(settings.batch_size, np.int32))
    return DataSet("random", "", "drawn for each seed", samples, samples.first(0))


def random_inputs(settings: SyntheticSettings, seed: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Draw a batch of shape (batch_size, sequence_length, features), uniform in [-1, 1]."""
    shape = settings.batch_size, settings.sequence_length, settings.features
    return np.random.default_rng([seed, 2]).uniform(-1, 1, shape).astype(np.float32)


def build(settings: SyntheticSettings, trial: Context, data: DataSet) -> Any:
    """Build the recurrent layers alone; every step has an output."""
    import keras  # noqa: PLC0415 - the framework of this process

    from workloads.models.layers import recurrent_stack  # noqa: PLC0415

    inputs = keras.Input((settings.sequence_length, settings.features))
    layers = recurrent_stack(settings, return_sequences=True, seed=trial.seed)
    return keras.Sequential([inputs, *layers], name="synthetic")


def training_plan(settings: SyntheticSettings) -> TrainingPlan:
    """Return the size of the batch, and the number of timed passes."""
    return TrainingPlan(settings.batch_size, timed_steps=settings.timed_steps)


TASK = Task(
    settings_model=SyntheticSettings, load=load, build=build, plan=training_plan, timed="passes"
)
