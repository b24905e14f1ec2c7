"""Keras models as their authors write them, for the tests of rewriting. Imports Keras."""

from collections.abc import Callable, Iterable
from typing import Any

import keras
import numpy as np
from keras import layers

Author = tuple[Any, Any]
"""A model, and inputs for it."""

AUTHORS: dict[str, Callable[[], Author]] = {}
"""The models by the names of the tests' cases."""


def author(build: Callable[[], Author]) -> Callable[[], Author]:
    AUTHORS[build.__name__] = build
    return build


def draw(*shape: int) -> Any:
    return np.random.default_rng(5).normal(size=shape).astype("float32")


@author
def question_1() -> Author:
    """keras-team/keras 20902: two LSTM of 80 units with L2 regularizers."""
    penalty = keras.regularizers.L2(1e-4)
    model = keras.Sequential(
        [
            keras.Input((20, 6)),
            layers.LSTM(80, return_sequences=True, kernel_regularizer=penalty),
            layers.LSTM(80, recurrent_regularizer=penalty, bias_regularizer=penalty),
            layers.Dense(1, kernel_regularizer=penalty),
        ]
    )
    return model, draw(4, 20, 6)


@author
def dropout_between() -> Author:
    model = keras.Sequential(
        [
            keras.Input((7, 3)),
            layers.GRU(5, return_sequences=True),
            layers.Dropout(0.2),
            layers.GRU(5, return_sequences=True),
            layers.Dropout(0.2),
            layers.GRU(5),
        ]
    )
    return model, draw(4, 7, 3)


@author
def both_directions() -> Author:
    model = keras.Sequential(
        [
            keras.Input((7, 3)),
            layers.Conv1D(4, 3),
            layers.Bidirectional(layers.LSTM(5, return_sequences=True)),
            layers.Bidirectional(layers.LSTM(5, return_sequences=True)),
            layers.Bidirectional(layers.LSTM(4)),
            layers.Dense(2),
        ]
    )
    return model, draw(4, 7, 3)


@author
def sequence_to_sequence() -> Author:
    """An encoder whose last states start the decoder, with two inputs."""
    source, target = keras.Input((6, 3), name="source"), keras.Input((5, 2), name="target")
    _, *states = layers.LSTM(4, return_state=True)(source)
    decoded, *_ = layers.LSTM(4, return_sequences=True, return_state=True)(
        target, initial_state=states
    )
    model = keras.Model([source, target], layers.Dense(2)(decoded))
    return model, [draw(4, 6, 3), draw(4, 5, 2)]


@author
def masked() -> Author:
    words = keras.Input((6,), dtype="int32")
    embedded = layers.Embedding(9, 4, mask_zero=True)(words)
    encoded = layers.LSTM(5, return_sequences=True)(embedded)
    model = keras.Model(words, layers.Dense(2)(layers.LSTM(5)(encoded)))
    return model, np.array([[1, 2, 3, 4, 5, 6], [7, 8, 0, 0, 0, 0], [1, 2, 3, 0, 0, 0]])


@author
def nested() -> Author:
    encoder = keras.Sequential([keras.Input((6, 3)), layers.LSTM(5)], name="encoder")
    first, second = keras.Input((6, 3), name="first"), keras.Input((6, 3), name="second")
    both = layers.Concatenate()([encoder(first), encoder(second)])  # shared, too
    return keras.Model([first, second], layers.Dense(2)(both)), [draw(4, 6, 3), draw(8, 6, 3)[4:]]


@author
def shared_layer() -> Author:
    shared = layers.GRU(4)
    first, second = keras.Input((6, 3), name="first"), keras.Input((5, 3), name="second")
    model = keras.Model({"first": first, "second": second}, [shared(first), shared(second)])
    return model, {"first": draw(4, 6, 3), "second": draw(4, 5, 3)}


class Scaling(layers.Layer):
    """A layer of the user's own, without get_config."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def call(self, inputs: Any) -> Any:
        return inputs * self.factor


@author
def own_layer() -> Author:
    model = keras.Sequential(
        [keras.Input((6, 3)), Scaling(0.5), layers.LSTM(4, return_sequences=True), layers.LSTM(4)]
    )
    return model, draw(4, 6, 3)


@author
def some_kept() -> Author:
    """Of three recurrent layers the second has dropout on its inputs, which no library has."""
    model = keras.Sequential(
        [
            keras.Input((6, 3)),
            layers.LSTM(4, return_sequences=True, name="able"),
            layers.LSTM(4, return_sequences=True, dropout=0.1, name="dropped"),
            layers.RNN(layers.LSTMCell(4), name="over_a_cell"),
        ]
    )
    return model, draw(4, 6, 3)


@author
def without_recurrence() -> Author:
    return keras.Sequential([keras.Input((6, 3)), layers.Conv1D(4, 3)]), draw(4, 6, 3)


@author
def replaced_step() -> Author:
    model = keras.Sequential([keras.Input((6, 3)), layers.LSTM(4)])
    model.train_step = lambda data: {}
    return model, draw(4, 6, 3)


class Subclassed(keras.Model):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = layers.LSTM(4)

    def call(self, inputs: Any) -> Any:
        return self.lstm(inputs)


@author
def subclassed() -> Author:
    model, inputs = Subclassed(), draw(4, 6, 3)
    model(inputs)
    return model, inputs


def flat(outputs: Any) -> Iterable[Any]:
    return (keras.ops.convert_to_numpy(array) for array in keras.tree.flatten(outputs))
