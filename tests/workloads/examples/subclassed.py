"""Keras models of classes of the author's own, as public code has them."""

from typing import Any

import keras

from tests.workloads.examples.own_models import Settings, load

__all__ = ["load"]


class Forecaster(keras.Model):
    """Layers that only `call` puts together."""

    def __init__(self, units: int) -> None:
        super().__init__()
        self.lstm = keras.layers.LSTM(units)
        self.head = keras.layers.Dense(1)

    def call(self, inputs: Any) -> Any:
        return self.head(self.lstm(inputs))


class OwnStep(Forecaster):
    """A model whose step unpacks what `fit` gives it."""

    def train_step(self, *arguments: Any) -> Any:
        _inputs, _targets = arguments[-1]
        return super().train_step(*arguments)


class OneSize(Forecaster):
    """A model that knows the size of its batches, which Keras does not."""

    def __init__(self, units: int, batch_size: int) -> None:
        super().__init__(units)
        self.batch_size = batch_size

    def call(self, inputs: Any) -> Any:
        state = [keras.ops.zeros((self.batch_size, self.lstm.units))] * 2
        return self.head(self.lstm(inputs, initial_state=state))


class NeverAlone(keras.layers.Layer):
    """A layer that cannot run a batch of one sample."""

    def call(self, inputs: Any) -> Any:
        if inputs.shape[0] == 1:
            raise RuntimeError("one sample has no neighbour")
        return inputs


def build(settings: Settings) -> Any:
    model = Forecaster(settings["units"])
    model.compile("adam", "mse", metrics=["mae"])
    return model


def build_with_own_step(settings: Settings) -> Any:
    model = OwnStep(settings["units"])
    model.compile("adam", "mse")
    return model


def build_of_one_size(settings: Settings) -> Any:
    model = OneSize(settings["units"], settings["batch_size"])
    model.compile("adam", "mse")
    return model


def build_never_alone(settings: Settings) -> Any:
    model = keras.Sequential(
        [
            keras.Input((5, 3)),
            NeverAlone(),
            keras.layers.LSTM(settings["units"]),
            keras.layers.Dense(1),
        ]
    )
    model.compile("adam", "mse")
    return model
