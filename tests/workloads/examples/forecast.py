"""A task of a user's own: it predicts the next value of a noisy wave, with any recurrent stack."""

import hashlib
from typing import Any

import numpy as np
from pydantic import Field

from workloads.context import Context
from workloads.data.samples import DataSet, Samples
from workloads.settings import StackSettings, TrainingPlan
from workloads.tasks.task import Task


class ForecastSettings(StackSettings):
    """A window of values, the recurrent layers, and how long to train."""

    units: int = Field(16, ge=1, description="width of each recurrent layer")
    window: int = Field(24, ge=2, description="values that the model reads")
    samples: int = Field(256, ge=1, description="number of training windows")
    epochs: int = Field(2, ge=1, description="timed epochs")


def load(settings: ForecastSettings, seed: int) -> DataSet:
    """Cut windows from one wave; the last ones, a quarter as many, are for validation."""
    count = settings.samples + settings.samples // 4
    steps = np.arange(count + settings.window)
    noise = np.random.default_rng(7).normal(0, 0.1, len(steps))  # the same in every trial
    wave = (np.sin(steps / 5) + noise).astype(np.float32)
    windows = np.lib.stride_tricks.sliding_window_view(wave[:-1], settings.window)[:count]
    samples = Samples(windows[..., np.newaxis], wave[settings.window :])
    return DataSet(
        "wave",
        digest=hashlib.sha256(wave.tobytes()).hexdigest(),
        source="computed",
        train=samples.first(settings.samples),
        validation=Samples(samples.inputs[settings.samples :], samples.targets[settings.samples :]),
    )


def build(settings: ForecastSettings, trial: Context, data: DataSet) -> Any:
    """Build a functional model: recurrent layers, and one number."""
    import keras  # noqa: PLC0415 - only in a trainer process, after the backend is chosen

    from workloads.models.layers import recurrent_stack  # noqa: PLC0415

    outputs = inputs = keras.Input((settings.window, 1))
    for layer in recurrent_stack(settings, return_sequences=False, seed=trial.seed):
        outputs = layer(outputs)
    outputs = keras.layers.Dense(1, dtype="float32", name="next_value")(outputs)
    model = keras.Model(inputs, outputs, name="forecast")
    model.compile(optimizer="adam", loss="mse", metrics=["mae"])
    return model


def plan(settings: ForecastSettings) -> TrainingPlan:
    """Return what the measurement needs to know."""
    return TrainingPlan(settings.batch_size, settings.epochs, timed_steps=4)


TASK = Task(settings_model=ForecastSettings, load=load, build=build, plan=plan)
