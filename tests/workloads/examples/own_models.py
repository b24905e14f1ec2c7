"""Models and data of a user's own, most of which break a rule."""

import math
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


def build_masked(settings: Settings) -> Any:
    model = keras.Sequential(
        [
            keras.Input((6,), dtype=settings.get("type", "float32")),
            keras.layers.Embedding(11, 4, mask_zero=True),
            keras.layers.LSTM(settings["units"], return_sequences=True),
            keras.layers.LSTM(settings["units"]),
            keras.layers.Dense(1),
        ]
    )
    model.compile("adam", "mse")
    return model


def build_masking(settings: Settings) -> Any:
    values = keras.Input((6, 3))
    present = keras.layers.Masking(-1.0)(values)
    steps = keras.layers.Bidirectional(keras.layers.LSTM(settings["units"]))(present)
    model = keras.Model(values, keras.layers.Dense(1)(steps))
    model.compile("adam", "mse")
    return model


def load_masked(settings: Settings) -> Any:
    draw = np.random.default_rng(1)
    tokens = draw.integers(1, 11, size=(40, 6)).astype(np.int32)
    tokens[np.arange(6) >= draw.integers(1, 7, size=(40, 1))] = 0
    return tokens, tokens.mean(axis=1, keepdims=True).astype(np.float32)


def load_masking(settings: Settings) -> Any:
    tokens, targets = load_masked(settings)
    values = np.repeat(tokens[..., np.newaxis], 3, axis=2).astype(np.float32)
    values[tokens == 0] = -1.0
    return values, targets


def build_of_two_classes(settings: Settings) -> Any:
    model = keras.Sequential(
        [
            keras.Input((5, 3)),
            keras.layers.LSTM(settings["units"]),
            keras.layers.Dense(1, activation="sigmoid"),
        ]
    )
    model.compile("adam", "binary_crossentropy", metrics=[keras.metrics.AUC()])
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


class WithoutMissingValues(keras.layers.Layer):
    """A layer that puts zeros in the place of missing values."""

    def call(self, inputs: Any) -> Any:
        return keras.ops.nan_to_num(inputs)


def build_for_missing_values(settings: Settings) -> Any:
    model = keras.Sequential(
        [
            keras.Input((5, 3)),
            WithoutMissingValues(),
            keras.layers.LSTM(settings["units"]),
            keras.layers.Dense(1),
        ]
    )
    model.compile("adam", "mse")
    return model


def build_of_several_dense_layers(settings: Settings) -> Any:
    dense = [keras.layers.Dense(units) for units in (3, 3, 1)]
    model = keras.Sequential([*dense[:2], keras.layers.LSTM(settings["units"]), dense[2]])
    model.compile("adam", "mse")
    return model


def build_unbuilt(settings: Settings) -> Any:
    model = keras.Sequential([keras.layers.LSTM(settings["units"]), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    return model


def build_stateful(settings: Settings) -> Any:
    lstm = keras.layers.LSTM(settings["units"], stateful=True)
    model = keras.Sequential([lstm, keras.layers.Dense(1)])
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


def build_layer(settings: Settings) -> Any:
    return keras.layers.LSTM(settings["units"])


def build_uncompiled(settings: Settings) -> Any:
    return keras.Sequential([keras.Input((5, 3)), keras.layers.LSTM(settings["units"])])


def build_at_random(settings: Settings) -> Any:
    return build({"units": random.SystemRandom().randint(1, 1000)})


def build_with_random_rate(settings: Settings) -> Any:
    model = build(settings)
    model.compile(keras.optimizers.Adam(random.SystemRandom().random() / 100), "mse")
    return model


def build_huge(settings: Settings) -> Any:
    raise MemoryError("Unable to allocate 53.6 GiB for an array with shape (60000, 240000)")


def build_misspelt(settings: Settings) -> Any:
    return build({"units": settings["unitz"]})


def load(settings: Settings) -> Any:
    inputs = np.random.default_rng(1).normal(size=(40, 5, 3)).astype(np.float32)
    return inputs, inputs.mean(axis=(1, 2))[:, np.newaxis]


def load_two_classes(settings: Settings) -> Any:
    inputs, targets = load(settings)
    return inputs, targets > 0


def load_two_inputs(settings: Settings) -> Any:
    past, target = load(settings)
    weights = np.ones(len(past), np.float32)
    return {"past": past, "facts": past[:, 0, :2]}, [target, np.abs(target)], weights


class Batches(keras.utils.PyDataset):
    """Batches of seven samples."""

    def __init__(self, *arrays: Any) -> None:
        super().__init__()
        self.arrays = arrays

    def __len__(self) -> int:
        return math.ceil(len(self.arrays[0]) / 7)

    def __getitem__(self, index: int) -> Any:
        return tuple(array[7 * index : 7 * index + 7] for array in self.arrays)


def load_dataset(settings: Settings) -> Any:
    return Batches(*load(settings))


def load_parts(settings: Settings) -> Any:
    inputs, targets = load(settings)
    return (inputs[:24], targets[:24]), (inputs[24:], targets[24:])


def load_nothing(settings: Settings) -> None:
    load(settings)


def load_wide(settings: Settings) -> Any:
    return np.ones((40, 5, 4), np.float32), np.ones((40, 1), np.float32)


def load_wide_targets(settings: Settings) -> Any:
    inputs, targets = load(settings)
    return inputs, np.repeat(targets, 7, axis=1)


def load_missing_values(settings: Settings) -> Any:
    return np.full((40, 5, 3), np.nan, np.float32), np.ones((40, 1), np.float32)


class WithoutGradient(keras.layers.Layer):
    """A layer whose gradient fails."""

    def call(self, inputs: Any) -> Any:
        @keras.ops.custom_gradient  # type: ignore[untyped-decorator]
        def passed_on(values: Any) -> Any:
            def gradient(*_: Any, **__: Any) -> Any:
                raise ValueError("no gradient of this layer")

            return values, gradient

        return passed_on(inputs)


def build_without_gradient(settings: Settings) -> Any:
    model = keras.Sequential(
        [keras.Input((5, 3)), keras.layers.LSTM(settings["units"]), keras.layers.Dense(1)]
    )
    model.add(WithoutGradient())
    model.compile("adam", "mse")
    return model


def build_sparse_classifier(settings: Settings) -> Any:
    model = keras.Sequential(
        [
            keras.Input((6,)),
            keras.layers.Embedding(11, 4, mask_zero=True),
            keras.layers.LSTM(settings["units"]),
            keras.layers.Dense(3, activation="softmax"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy")
    return model


def load_labelled_tokens(settings: Settings) -> Any:
    """Return right-padded tokens and classes, with the values of settings.wrong by row."""
    tokens, _ = load_masked(settings)
    classes = np.arange(len(tokens)) % 3
    for row, (kind, value) in settings.get("wrong", {}).items():
        (tokens if kind == "token" else classes)[int(row)] = value
    return tokens, classes


_shuffled = list[Any]()


def load_shuffled_dataset(settings: Settings) -> Any:
    import tensorflow as tf  # noqa: PLC0415

    if not _shuffled:
        dataset = tf.data.Dataset.from_tensor_slices(load(settings))
        _shuffled.append(dataset.shuffle(40, seed=7).batch(8))
    return _shuffled[0]


def load_a_late_missing_value(settings: Settings) -> Any:
    inputs, targets = load(settings)
    targets[20] = np.nan
    return inputs, targets


def load_masked_missing_values(settings: Settings) -> Any:
    inputs, targets = load(settings)
    inputs[20, 2:] = np.nan
    return inputs, targets


def load_at_random(settings: Settings) -> Any:
    inputs, targets = load(settings)
    return inputs + np.random.default_rng().normal(), targets


def load_of_units(settings: Settings) -> Any:
    inputs, targets = load(settings)
    return inputs * settings["units"], targets
