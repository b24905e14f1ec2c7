"""The language model of `char_rnn` in plain Keras, as a user writes it without rnnsweep."""

from typing import Any

import keras


def build_plain_model(implementation: str, settings: dict[str, Any], vocabulary: int) -> Any:
    kernel, *options = implementation.partition("/")[2].split("+")
    model = keras.Sequential(
        [
            keras.Input((settings["sequence_length"],), dtype="int32"),
            keras.layers.Embedding(vocabulary, settings["embedding_units"]),
            keras.layers.LSTM(
                settings["units"],
                return_sequences=True,
                use_cudnn=kernel == "cudnn",
                unroll="unroll" in options,
            ),
            keras.layers.Dense(vocabulary),
        ]
    )
    model.compile(
        keras.optimizers.SGD(settings["learning_rate"], momentum=settings["momentum"]),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        jit_compile="xla" in options or keras.backend.backend() == "jax",
    )
    return model
