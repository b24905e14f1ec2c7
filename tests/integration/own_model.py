"""A Keras model of two inputs and two outputs, as a user writes it, for sweeps."""

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np

_STEPS, _FEATURES, _SAMPLES = 4, 3, 40


def build(settings: Mapping[str, Any]) -> keras.Model:
    """Return a model of a sequence and a context, with a level (regression) and a kind (class)."""
    sequence = keras.Input((_STEPS, _FEATURES), name="sequence")
    context = keras.Input((2,), name="context")
    hidden = sequence
    for _ in range(int(settings.get("depth", 1)) - 1):
        hidden = keras.layers.LSTM(int(settings["units"]), return_sequences=True)(hidden)
    hidden = keras.layers.LSTM(int(settings["units"]))(hidden)
    joined = keras.layers.Concatenate()([hidden, context])
    level = keras.layers.Dense(1, name="level")(joined)
    kind = keras.layers.Dense(2, activation="softmax", name="kind")(joined)
    model = keras.Model([sequence, context], {"level": level, "kind": kind})
    model.compile(
        optimizer=keras.optimizers.Adam(float(settings.get("rate", 0.001))),
        loss={"level": "mse", "kind": "sparse_categorical_crossentropy"},
        metrics={"level": ["mae"], "kind": ["accuracy"]},
    )
    return model


def load(settings: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return samples as dicts of arrays; the last tenth of them validates."""
    draws = np.random.default_rng(1)
    sequence = draws.normal(size=(_SAMPLES, _STEPS, _FEATURES)).astype("float32")
    context = draws.normal(size=(_SAMPLES, 2)).astype("float32")
    inputs = {"sequence": sequence, "context": context}
    level = sequence.mean(axis=(1, 2))[:, None]
    return inputs, {"level": level, "kind": (context[:, 0] > 0).astype("int32")}
