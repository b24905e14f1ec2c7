"""A user's model that computes something else on PyTorch. Imports Keras."""

from typing import Any

import keras
from keras import layers


def build() -> Any:
    """Build a small model whose gates have another activation on PyTorch."""
    gates = "hard_sigmoid" if keras.backend.backend() == "torch" else "sigmoid"
    model = keras.Sequential(
        [keras.Input((6, 3)), layers.LSTM(4, recurrent_activation=gates), layers.Dense(2)]
    )
    model.compile(optimizer="adam", loss="mse")
    return model
