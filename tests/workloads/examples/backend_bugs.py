"""Models that Keras trains on some of its backends only."""

from typing import Any

import keras

from tests.workloads.examples.own_models import Settings, load_parts

__all__ = ["load_parts"]


def build_stateful(settings: Settings) -> Any:
    model = keras.Sequential(
        [
            keras.Input(batch_shape=(8, 5, 3)),
            keras.layers.LSTM(settings["units"], stateful=True),
            keras.layers.Dense(1),
        ]
    )
    model.compile("adam", "mse")
    return model


def build_many_steps_per_call(settings: Settings) -> Any:
    model = keras.Sequential(
        [keras.Input((5, 3)), keras.layers.LSTM(settings["units"]), keras.layers.Dense(1)]
    )
    model.compile("adam", "mse", steps_per_execution=settings.get("steps", 3))
    return model
