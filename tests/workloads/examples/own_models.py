"""Models and data of a user's own, most of which break a rule."""

import random
from typing import Any

import keras
import numpy as np

Settings = dict[str, Any]


def build(settings: Settings) -> Any:
    model = keras.Sequential(
        [keras.Input((5, 3)), keras.layers.LSTM(settings["units"]), keras.layers.Dense(1)]
    )
    model.compile("adam", "mse", metrics=["mae"])
    return model


def build_classifier_of_tokens(settings: Settings) -> Any:
    model = keras.Sequential(
        [
            keras.Input((6,)),
            keras.layers.Embedding(11, 4),
            keras.layers.GRU(settings["units"]),
            keras.layers.Dense(5, activation="softmax"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def build_of_two_inputs(settings: Settings) -> Any:
    past, facts = keras.Input((5, 3), name="past"), keras.Input((2,), name="facts")
    encoded = keras.layers.LSTM(settings["units"])(past)
    outputs = [keras.layers.Dense(1, name=name)(encoded) for name in ("mean", "spread")]
    outputs[0] = keras.layers.Add(name="shifted")([outputs[0], keras.layers.Dense(1)(facts)])
    model = keras.Model({"past": past, "facts": facts}, outputs)
    model.compile("adam", ["mse", "mae"])
    return model


def build_with_unrecordable_metric(settings: Settings) -> Any:
    model = build(settings)
    model.compile("adam", "mse", metrics=[keras.metrics.MeanAbsoluteError(name="error@1")])
    return model


def build_unbuilt(settings: Settings) -> Any:
    model = keras.Sequential([keras.layers.LSTM(settings["units"]), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    return model


def draw_ones(shape: Any, dtype: Any = None) -> Any:
    return keras.ops.ones(shape, dtype)


def build_with_own_initializer(settings: Settings) -> Any:
    model = keras.Sequential(
        [
            keras.Input((5, 3)),
            keras.layers.LSTM(settings["units"], kernel_initializer=draw_ones),
            keras.layers.Dense(1),
        ]
    )
    model.compile("adam", "mse")
    return model


def build_without_settings() -> Any:
    return build({"units": 4})


def build_nothing(settings: Settings) -> None:
    build(settings)


def build_uncompiled(settings: Settings) -> Any:
    return keras.Sequential([keras.Input((5, 3)), keras.layers.LSTM(settings["units"])])


def build_at_random(settings: Settings) -> Any:
    return build({"units": random.SystemRandom().randint(1, 1000)})


def build_misspelt(settings: Settings) -> Any:
    return build({"units": settings["unitz"]})


def load(settings: Settings) -> Any:
    inputs = np.random.default_rng(1).normal(size=(40, 5, 3)).astype(np.float32)
    return inputs, inputs.mean(axis=(1, 2))[:, np.newaxis]


def load_two_inputs(settings: Settings) -> Any:
    past, target = load(settings)
    weights = np.ones(len(past), np.float32)
    return {"past": past, "facts": past[:, 0, :2]}, [target, np.abs(target)], weights


def load_batches(settings: Settings) -> Any:
    import tensorflow as tf  # noqa: PLC0415 - only where it is asked for

    return tf.data.Dataset.from_tensor_slices(load(settings)).batch(7)


def load_parts(settings: Settings) -> Any:
    inputs, targets = load(settings)
    return (inputs[:24], targets[:24]), (inputs[24:], targets[24:])


def load_nothing(settings: Settings) -> None:
    load(settings)


def load_wide(settings: Settings) -> Any:
    return np.ones((40, 5, 4), np.float32), np.ones((40, 1), np.float32)


def load_two_inputs_and_a_missing_target(settings: Settings) -> Any:
    inputs, targets, weights = load_two_inputs(settings)
    return inputs, [targets[0], np.full_like(targets[1], np.nan)], weights


def load_missing_values(settings: Settings) -> Any:
    return np.full((40, 5, 3), np.nan, np.float32), np.ones((40, 1), np.float32)


def load_of_units(settings: Settings) -> Any:
    inputs, targets = load(settings)
    return inputs * settings["units"], targets


def load_unequal(settings: Settings) -> Any:
    inputs, targets = load(settings)
    return inputs, targets[1:]
