"""keras-team/keras issues 22274 and 22275: `use_cudnn=True` is refused, or slow, on PyTorch."""

import keras


def build(settings):
    """Return a functional model with LSTM layers that leave the kernel to Keras."""
    sequences = keras.Input((50, 16))
    hidden = keras.layers.LSTM(128, return_sequences=True)(sequences)
    outputs = keras.layers.Dense(1)(keras.layers.LSTM(128)(hidden))
    model = keras.Model(sequences, outputs)
    model.compile(optimizer="adam", loss="mse")
    return model
