"""Keras' published examples with recurrent layers: their models and forms of data, in small sizes.

Each pair of functions is what an example's author would write: the model and the data as they are
in the example, `build` and `load` around them.
"""

from typing import Any

import keras
import numpy as np
from keras import layers, ops

Settings = dict[str, Any]


def draw(*shape: int) -> Any:
    return np.random.default_rng(3).normal(size=shape).astype("float32")


def build_sequence_to_sequence(settings: Settings) -> Any:
    """Character-level recurrent sequence-to-sequence model: open lengths, and states passed on."""
    encoder_inputs = keras.Input(shape=(None, 6))
    encoder = keras.layers.LSTM(8, return_state=True)
    _encoder_outputs, state_h, state_c = encoder(encoder_inputs)
    encoder_states = [state_h, state_c]
    decoder_inputs = keras.Input(shape=(None, 5))
    decoder_lstm = keras.layers.LSTM(8, return_sequences=True, return_state=True)
    decoder_outputs, _, _ = decoder_lstm(decoder_inputs, initial_state=encoder_states)
    decoder_dense = keras.layers.Dense(5, activation="softmax")
    decoder_outputs = decoder_dense(decoder_outputs)
    model = keras.Model([encoder_inputs, decoder_inputs], decoder_outputs)
    model.compile(optimizer="rmsprop", loss="categorical_crossentropy", metrics=["accuracy"])
    return model


def load_sequence_to_sequence(settings: Settings) -> Any:
    draws = np.random.default_rng(3)
    encoder = np.eye(6, dtype="float32")[draws.integers(0, 6, (40, 7))]
    decoder = np.eye(5, dtype="float32")[draws.integers(0, 5, (40, 9))]
    return [encoder, decoder], np.roll(decoder, -1, axis=1)


class CTCLayer(layers.Layer):
    """The loss inside the model, as in the OCR example, by operations of every backend."""

    def call(self, y_true: Any, y_pred: Any) -> Any:
        batch, steps, labels = ops.shape(y_pred)[0], ops.shape(y_pred)[1], ops.shape(y_true)[1]
        loss = ops.ctc_loss(
            ops.cast(y_true, "int32"),
            y_pred,
            ops.full((batch,), labels, dtype="int32"),
            ops.full((batch,), steps, dtype="int32"),
        )
        self.add_loss(ops.mean(loss))
        return y_pred


def build_ocr(settings: Settings) -> Any:
    """OCR model for reading Captchas: convolutions, two directions, and a loss inside the model."""
    input_img = layers.Input(shape=(20, 8, 1), name="image", dtype="float32")
    labels = layers.Input(name="label", shape=(None,), dtype="float32")
    x = layers.Conv2D(
        4, (3, 3), activation="relu", kernel_initializer="he_normal", padding="same", name="Conv1"
    )(input_img)
    x = layers.MaxPooling2D((2, 2), name="pool1")(x)
    x = layers.Reshape(target_shape=(10, 16), name="reshape")(x)
    x = layers.Dense(8, activation="relu", name="dense1")(x)
    x = layers.Dropout(0.2)(x)
    x = layers.Bidirectional(layers.LSTM(6, return_sequences=True, dropout=0.25))(x)
    x = layers.Bidirectional(layers.LSTM(4, return_sequences=True, dropout=0.25))(x)
    x = layers.Dense(6, name="dense2")(x)
    output = CTCLayer(name="ctc_loss")(labels, x)
    model = keras.models.Model(inputs=[input_img, labels], outputs=output, name="ocr_model_v1")
    model.compile(optimizer=keras.optimizers.Adam())
    return model


def load_ocr(settings: Settings) -> Any:
    import tensorflow as tf  # noqa: PLC0415 - this file is read on every backend

    images = draw(40, 20, 8, 1)
    labels = np.random.default_rng(3).integers(1, 6, (40, 4)).astype("float32")
    parts = [(images[:32], labels[:32]), (images[32:], labels[32:])]
    return tuple(
        tf.data.Dataset.from_tensor_slices(part)
        .map(lambda image, label: {"image": image, "label": label})
        .batch(8)
        .prefetch(1)
        for part in parts
    )


def build_video(settings: Settings) -> Any:
    """Video classification with a CNN-RNN architecture: the mask is an input of its own."""
    frame_features_input = keras.Input((9, 6))
    mask_input = keras.Input((9,), dtype="bool")
    x = keras.layers.GRU(8, return_sequences=True)(frame_features_input, mask=mask_input)
    x = keras.layers.GRU(4)(x)
    x = keras.layers.Dropout(0.4)(x)
    x = keras.layers.Dense(4, activation="relu")(x)
    output = keras.layers.Dense(3, activation="softmax")(x)
    rnn_model = keras.Model([frame_features_input, mask_input], output)
    rnn_model.compile(
        loss="sparse_categorical_crossentropy", optimizer="adam", metrics=["accuracy"]
    )
    return rnn_model


def load_video(settings: Settings) -> Any:
    draws = np.random.default_rng(3)
    mask = np.arange(9) < draws.integers(2, 10, (40, 1))
    return (draw(40, 9, 6), mask), draws.integers(0, 3, 40)


def build_conv_lstm(settings: Settings) -> Any:
    """A convolutional LSTM over one dimension, beside an ordinary one."""
    inputs = keras.Input((6, 8, 2))
    x = layers.ConvLSTM1D(3, 3, padding="same", return_sequences=True, name="conv")(inputs)
    x = layers.TimeDistributed(layers.Flatten())(x)
    outputs = layers.Dense(1)(layers.LSTM(4, name="plain")(x))
    model = keras.Model(inputs, outputs)
    model.compile("adam", "mse")
    return model


def load_conv_lstm(settings: Settings) -> Any:
    return draw(40, 6, 8, 2), draw(40, 1)
