"""Workloads for the tests of initial weights."""
# ruff: noqa: PLC0415 - frameworks are imported inside the trainer process only

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.workloads.probes import digest
from workloads.context import Context
from workloads.data.samples import Samples
from workloads.measuring.measurement import prepare_framework

_STEPS, _KEPT = 5, 0.25


def compare_distributions(trial: Context) -> dict[str, float]:
    """Return how far the distribution of each initializer is from Keras' own draw.

    The distance is Kolmogorov's and Smirnov's, in the unit of its 99.9th percentile. For
    orthogonal matrices it is the largest error of a product with itself; the distribution of one of
    their numbers is compared too.
    """
    import keras

    from workloads.models.initializer_rules import rule_of

    distances = dict[str, float]()
    with prepare_framework(trial):
        for name, (initializer, shape) in _initializers(keras.initializers).items():
            rule = rule_of(initializer)
            assert rule is not None
            drawn = rule(initializer, shape, np.random.default_rng(trial.seed))
            assert drawn.shape == shape
            of_keras = keras.ops.convert_to_numpy(initializer(shape))
            if name.startswith("Orthogonal"):
                parts = (weights / initializer.gain for weights in (drawn, of_keras))
                distances[name] = max(map(_orthogonality_error, parts))
            else:
                distances[name] = _distance(drawn, of_keras)
        distances["one number of a matrix"] = _distance_of_orthogonal_numbers(trial.seed)
    return distances


def _distance_of_orthogonal_numbers(seed: int) -> float:
    """Return the distance of the first numbers of many orthogonal matrices from Keras' own."""
    import keras

    from workloads.models.initializer_rules import rule_of

    drawn, of_keras, draw = list[float](), list[float](), np.random.default_rng(seed)
    for number in range(100):
        initializer = keras.initializers.Orthogonal(seed=number)
        rule = rule_of(initializer)
        assert rule is not None
        drawn.append(rule(initializer, (2, 2), draw)[0, 0])
        of_keras.append(float(keras.ops.convert_to_numpy(initializer((2, 2)))[0, 0]))
    return _distance(np.array(drawn), np.array(of_keras))


def rules_of_keras(trial: Context) -> dict[str, float]:
    """Return for each initializer of Keras whether it has a rule (1), is constant (0), or neither.

    Neither is -1.
    """
    import keras

    from workloads.models.initializer_rules import is_constant, rule_of

    of, known = keras.initializers, dict[str, float]()
    with prepare_framework(trial):
        kinds = {kind for kind in vars(of).values() if isinstance(kind, type)} - {of.Initializer}
        for initializer in (kind() for kind in kinds):
            is_drawn = rule_of(initializer) is not None
            known[type(initializer).__name__] = 1 if is_drawn else is_constant(initializer) - 1
    return known


def _initializers(of: Any) -> dict[str, tuple[Any, tuple[int, ...]]]:
    matrix, convolution = (150, 300), (5, 40, 90)
    scaled: dict[str, Any] = {
        kind: getattr(of, kind)(seed=1)
        for way in ("Uniform", "Normal")
        for kind in (f"Glorot{way}", f"He{way}", f"Lecun{way}")
    }
    scaled["outputs"] = of.VarianceScaling(2.0, "fan_out", "untruncated_normal", seed=1)
    scaled["mean"] = of.VarianceScaling(0.5, "fan_avg", "truncated_normal", seed=1)
    return {
        **{name: (initializer, matrix) for name, initializer in scaled.items()},
        "convolution": (of.HeUniform(seed=1), convolution),
        "axes": (of.VarianceScaling(seed=1, input_axes=[1, 2], output_axes=[0]), convolution),
        "RandomUniform": (of.RandomUniform(-0.3, 0.1, seed=1), matrix),
        "RandomNormal": (of.RandomNormal(0.5, 0.2, seed=1), matrix),
        "TruncatedNormal": (of.TruncatedNormal(0.1, 2.0, seed=1), matrix),
        "Orthogonal wide": (of.Orthogonal(1.5, seed=1), (30, 120)),
        "Orthogonal tall": (of.Orthogonal(0.5, seed=1), (120, 30)),
        "Orthogonal convolution": (of.Orthogonal(1.0, seed=1), (3, 20, 30)),
    }


def _distance(drawn: Any, expected: Any) -> float:
    values = np.sort(np.concatenate([drawn.ravel(), expected.ravel()]))
    shares = [
        np.searchsorted(np.sort(numbers.ravel()), values, "right") / numbers.size
        for numbers in (drawn, expected)
    ]
    return float(np.abs(shares[0] - shares[1]).max() / (1.95 * np.sqrt(2 / drawn.size)))


def _orthogonality_error(weights: Any) -> float:
    matrix = np.reshape(weights, (-1, weights.shape[-1])).astype(np.float64)
    product = matrix @ matrix.T if len(matrix) <= matrix.shape[1] else matrix.T @ matrix
    return float(np.abs(product - np.eye(len(product))).max())


def start_of_model(trial: Context) -> dict[str, float]:
    """Return a digest of a model's initial weights, and what its author's own values became."""
    import keras

    from workloads.models.initial_weights import build_with_initial_weights

    kind, weights = str(trial.settings["model"]), trial.settings.get("weights", "equal")
    sequences = np.zeros((4, _STEPS, 3), np.float32)
    built: Any = None

    def build() -> Any:
        nonlocal built
        model = _MODELS[kind](keras)
        built = [keras.ops.convert_to_numpy(v) for v in model.weights] if model.built else []
        return model

    with prepare_framework(trial):
        samples = Samples(sequences, np.zeros(4))
        model = build_with_initial_weights(build, trial.seed, samples=samples, weights=weights)
        arrays = {v.path: keras.ops.convert_to_numpy(v) for v in model.weights}
        changed = [
            float(np.any(array != before))
            for array, before in zip(arrays.values(), built, strict=False)
        ]
        forget = [array[4:8] for path, array in arrays.items() if path.endswith("lstm_cell/bias")]
        kept = [array for path, array in arrays.items() if "loaded" in path]
        return {
            "digest": digest(arrays.values()),
            "arrays": len(arrays),
            "changed": sum(changed),
            "kept": float(all((array == _KEPT).all() for array in kept)) if kept else -1,
            "open_forget_gates": float(all((bias == 1).all() for bias in forget)),
        }


def _every_kind_of_layer(keras: Any) -> Any:
    layers = keras.layers

    class Scale(keras.layers.Layer):
        def build(self, shape: Any) -> None:
            self.scale = self.add_weight(shape=(shape[-1], 2))  # without an initializer
            self.own = self.add_weight((2,), keras.initializers.TruncatedNormal(), name="own")

        def call(self, inputs: Any) -> Any:
            return keras.ops.matmul(inputs, self.scale) + self.own

    inputs = keras.Input((_STEPS, 3))
    shared = layers.Dense(3, kernel_initializer="he_normal", name="shared")
    steps = layers.Conv1D(4, 2, kernel_initializer="lecun_uniform")(shared(shared(inputs)))
    steps = layers.BatchNormalization()(steps)
    lstm = layers.LSTM(4, return_sequences=True, bias_initializer="random_normal")
    steps = layers.Bidirectional(lstm)(steps)
    steps = layers.MultiHeadAttention(2, 3)(steps, steps)
    last = layers.GRU(3, bias_initializer="random_normal")(steps)
    nested = keras.Sequential([keras.Input((3,)), layers.Dense(3, name="inside")])
    loaded = layers.Dense(2, name="loaded")
    model = keras.Model(inputs, loaded(Scale()(nested(last))))
    loaded.set_weights([np.full((2, 2), _KEPT), np.full(2, _KEPT)])
    return model


def _unbuilt_chain(keras: Any) -> Any:
    return keras.Sequential([keras.layers.LSTM(4), keras.layers.Dense(2)])


def _class_of_its_own(keras: Any) -> Any:
    class Model(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.recurrent, self.dense = keras.layers.LSTM(4), keras.layers.Dense(2)

        def call(self, inputs: Any) -> Any:
            return self.dense(self.recurrent(inputs))

    return Model()


def _own_initializers(keras: Any) -> Any:
    class Inherited(keras.initializers.HeNormal):
        pass

    def fill(shape: Any, dtype: Any = None) -> Any:
        return keras.ops.full(shape, 0.5, dtype)

    return keras.Sequential(
        [
            keras.Input((_STEPS, 3)),
            keras.layers.Dense(2, kernel_initializer=Inherited(), name="known"),
            keras.layers.Dense(2, kernel_initializer=fill, name="unknown"),
        ]
    )


_MODELS: dict[str, Callable[[Any], Any]] = {
    "every kind of layer": _every_kind_of_layer,
    "unbuilt chain": _unbuilt_chain,
    "class of its own": _class_of_its_own,
    "own initializers": _own_initializers,
}
