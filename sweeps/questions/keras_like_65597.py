"""The Keras model like the PyTorch module of pytorch_65597.py."""

import keras


def build(settings):
    """Return three LSTM of 64 units and a linear layer, for 30 steps of 8 features."""
    model = keras.Sequential([keras.Input((30, 8))])
    for sequences in (True, True, False):
        model.add(keras.layers.LSTM(64, return_sequences=sequences))
    model.add(keras.layers.Dense(1))
    model.compile(optimizer="adam", loss="mse")
    return model
