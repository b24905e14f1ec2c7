"""Keras models whose stateful layers are inside other layers, or inside a class of the author's."""

from typing import Any

import keras

from tests.workloads.examples.own_models import Settings, build_stateful, load_parts

__all__ = ["build_stateful", "load_parts"]


class Carrying(keras.Model):
    """A recurrent layer of any kind, and the value that follows its last step."""

    def __init__(self, recurrent: Any) -> None:
        super().__init__()
        self.recurrent, self.head = recurrent, keras.layers.Dense(1)

    def call(self, inputs: Any) -> Any:
        return self.head(self.recurrent(inputs))


class Block(keras.layers.Layer):
    """A layer around a list of layers."""

    def __init__(self, layers: list[Any]) -> None:
        super().__init__()
        self.inner = layers

    def build(self, shape: Any) -> None:
        for layer in self.inner:
            layer.build(shape)
            shape = layer.compute_output_shape(shape)

    def compute_output_shape(self, shape: Any) -> Any:
        for layer in self.inner:
            shape = layer.compute_output_shape(shape)
        return shape

    def call(self, inputs: Any) -> Any:
        for layer in self.inner:
            inputs = layer(inputs)
        return inputs


def compiled(model: Any) -> Any:
    model.compile("adam", "mse")
    return model


def build_attribute(settings: Settings) -> Any:
    return compiled(Carrying(keras.layers.LSTM(settings["units"], stateful=True)))


def build_cells(settings: Settings) -> Any:
    cells = [keras.layers.LSTMCell(settings["units"]), keras.layers.GRUCell(3)]
    return compiled(Carrying(keras.layers.RNN(cells, stateful=True)))


def build_nested(settings: Settings) -> Any:
    both = keras.layers.Bidirectional(keras.layers.GRU(settings["units"], stateful=True))
    layers = [keras.Input(batch_shape=(8, 5, 3)), Block([Block([both])]), keras.layers.Dense(1)]
    return compiled(keras.Sequential(layers))
