"""Keras' OCR example with its loss by TensorFlow's own operations, as its author has it."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers


class CTCLayer(layers.Layer):
    """Adds the loss, and returns the predictions."""

    def call(self, y_true: Any, y_pred: Any) -> Any:
        labels = tf.cast(y_true, tf.int32)
        lengths = tf.fill([tf.shape(labels)[0]], tf.shape(labels)[1])
        steps = tf.fill([tf.shape(y_pred)[0]], tf.shape(y_pred)[1])
        loss = tf.nn.ctc_loss(
            labels, y_pred, lengths, steps, logits_time_major=False, blank_index=0
        )
        self.add_loss(tf.reduce_mean(loss))
        return y_pred


def build() -> Any:
    input_img = layers.Input(shape=(20, 8, 1), name="image", dtype="float32")
    labels = layers.Input(name="label", shape=(None,), dtype="float32")
    x = layers.Conv2D(4, (3, 3), activation="relu", padding="same", name="Conv1")(input_img)
    x = layers.MaxPooling2D((2, 2), name="pool1")(x)
    x = layers.Reshape(target_shape=(10, 16), name="reshape")(x)
    x = layers.Dense(8, activation="relu", name="dense1")(x)
    x = layers.Bidirectional(layers.LSTM(6, return_sequences=True))(x)
    x = layers.Bidirectional(layers.LSTM(4, return_sequences=True))(x)
    x = layers.Dense(6, name="dense2")(x)
    output = CTCLayer(name="ctc_loss")(labels, x)
    model = keras.models.Model(inputs=[input_img, labels], outputs=output, name="ocr_model_v1")
    model.compile(optimizer=keras.optimizers.Adam())
    return model


def load() -> Any:
    draws = np.random.default_rng(3)
    images = draws.normal(size=(40, 20, 8, 1)).astype("float32")
    labels = draws.integers(1, 6, (40, 4)).astype("float32")

    def dataset(start: int, end: int) -> Any:
        return (
            tf.data.Dataset.from_tensor_slices((images[start:end], labels[start:end]))
            .map(lambda image, label: {"image": image, "label": label})
            .batch(8)
            .prefetch(buffer_size=tf.data.AUTOTUNE)
        )

    return dataset(0, 32), dataset(32, 40)
