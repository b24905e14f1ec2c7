"""Layers and models of the author's own whose parts are built in their first call."""

from typing import Any

import keras

from tests.workloads.examples.own_models import Settings, load

__all__ = ["load"]


class Late(keras.layers.Layer):
    """A layer without a method `build`: its parts get their weights when they are called first."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.norm = keras.layers.Dense(3), keras.layers.LayerNormalization()

    def call(self, inputs: Any) -> Any:
        return self.norm(self.inner(inputs))


class LateStep(keras.layers.Layer):
    """A recurrent layer around such a layer, one step after the other."""

    def __init__(self, units: int) -> None:
        super().__init__()
        self.cell = keras.layers.LSTMCell(units)
        self.gate = keras.layers.Dense(3, activation="sigmoid")

    def call(self, inputs: Any) -> Any:
        zeros = keras.ops.zeros_like(inputs[:, 0, :1])
        state = [keras.ops.tile(zeros, (1, self.cell.units))] * 2
        for step in range(inputs.shape[1]):
            values = inputs[:, step]
            output, state = self.cell(values * self.gate(values), state)
        return output


def build(settings: Settings) -> Any:
    layers = [Late(), keras.layers.LSTM(settings["units"]), keras.layers.Dense(1)]
    model = keras.Sequential([keras.Input((5, 3)), *layers])
    model.compile("adam", "mse")
    return model


def build_loop(settings: Settings) -> Any:
    layers = [LateStep(settings["units"]), keras.layers.Dense(1)]
    model = keras.Sequential([keras.Input((5, 3)), *layers])
    model.compile("adam", "mse")
    return model


def build_unbuilt(settings: Settings) -> Any:
    model = keras.Sequential([Late(), LateStep(settings["units"]), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    return model
