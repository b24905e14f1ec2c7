"""Models whose recurrent layers differ, or lie in unusual places, for the tests of evidence."""
# ruff: noqa: PLC0415 - frameworks are imported inside the trainer process only

from collections.abc import Callable
from typing import Any

import numpy as np

from workloads.context import Context
from workloads.data.samples import DataSet, Samples
from workloads.measuring.measurement import make_run, prepare_framework, prove_kernel
from workloads.models.training_run import TrainingRun
from workloads.settings import TrainingPlan

_STEPS = 130  # more than PyTorch's profile of a loop has


def prove_shape(trial: Context) -> dict[str, float]:
    """Train a model for one step, and prove its kernel."""
    from workloads.models.model import witness_model
    from workloads.models.recurrent_parts import mark_recurrent_layers

    with prepare_framework(trial) as framework:
        model = _MODELS[str(trial.settings["model"])](framework)
        model.compile(optimizer="sgd", loss="mse", jit_compile=framework.backend.always_compiled)
        witnessed = witness_model(model, framework)
        mark_recurrent_layers(witnessed, framework)
        inputs = np.random.default_rng(1).uniform(-1, 1, (4, _STEPS, 3)).astype(np.float32)
        samples = Samples(inputs, np.zeros((4, 1), np.float32))
        data = DataSet("random", "", "drawn", samples, samples.first(0))
        run: TrainingRun = make_run(trial, TrainingPlan(batch_size=4), data, witnessed)
        run.fit_first_batch()
        prove_kernel(trial, run)
    return {}


def _unequal_layers_after_pooling(framework: Any) -> Any:
    import keras
    from keras import layers

    return keras.Sequential(
        [
            keras.Input((None, 3)),
            layers.Conv1D(4, 3),
            layers.MaxPooling1D(2),
            layers.Bidirectional(layers.LSTM(4, return_sequences=True)),
            layers.GRU(3, return_sequences=True),
            layers.MaxPooling1D(4),
            layers.TimeDistributed(layers.Dense(4)),
            layers.SimpleRNN(2),
            layers.Dense(1),
        ]
    )


def _shared_and_nested(framework: Any) -> Any:
    import keras
    from keras import layers

    encoder_input = keras.Input((None, 3))
    encoder = keras.Model(encoder_input, layers.GRU(4, name="encoder")(encoder_input))
    inputs = keras.Input((_STEPS, 3))
    both = layers.concatenate([encoder(inputs), encoder(inputs[:, ::2])])
    return keras.Model(inputs, layers.Dense(1)(both))


def _inside_own_layer(framework: Any) -> Any:
    import keras
    from keras import layers

    class Block(layers.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.recurrent = layers.LSTM(3, return_sequences=True)

        def build(self, input_shape: Any) -> None:
            self.recurrent.build(input_shape)

        def call(self, inputs: Any) -> Any:
            return inputs + self.recurrent(inputs)

    return keras.Sequential(
        [keras.Input((_STEPS, 3)), Block(), layers.GlobalAveragePooling1D(), layers.Dense(1)]
    )


def _one_layer_unrolled(framework: Any) -> Any:
    import keras
    from keras import layers

    return keras.Sequential(
        [
            keras.Input((_STEPS, 3)),
            layers.MaxPooling1D(10),
            layers.LSTM(3, return_sequences=True, unroll=True, name="unrolled"),
            layers.LSTM(3, name="loop"),
            layers.Dense(1),
        ]
    )


def _fused_beside_loop(framework: Any) -> Any:
    from workloads.models.fused_stack import FusedStack

    return _chain_with_a_loop(
        FusedStack("lstm", 3, 2, return_sequences=True, framework=framework, name="recurrent")
    )


def _chain_with_a_loop(fused: Any) -> Any:
    import keras

    return keras.Sequential(
        [
            keras.Input((_STEPS, 3)),
            fused,
            keras.layers.LSTM(3, recurrent_dropout=0.1, name="loop"),
            keras.layers.Dense(1),
        ]
    )


def _fused_without_its_call(framework: Any) -> Any:
    from workloads.models.fused_stack import FusedStack

    class Silent(FusedStack):
        """A fused layer that never calls the library."""

        def call(
            self,
            sequences: Any,
            initial_state: Any = None,
            mask: Any = None,
            training: bool = False,
        ) -> Any:
            return sequences * self.weights_buffer[0]

    return _chain_with_a_loop(
        Silent("lstm", 3, 2, return_sequences=True, framework=framework, name="recurrent")
    )


_MODELS: dict[str, Callable[[Any], Any]] = {
    "unequal_layers_after_pooling": _unequal_layers_after_pooling,
    "shared_and_nested": _shared_and_nested,
    "inside_own_layer": _inside_own_layer,
    "one_layer_unrolled": _one_layer_unrolled,
    "fused_beside_loop": _fused_beside_loop,
    "fused_without_its_call": _fused_without_its_call,
}
