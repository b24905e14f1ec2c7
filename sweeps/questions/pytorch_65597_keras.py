"""The Keras model that is like the module of pytorch/pytorch issue 65597."""

import keras
from keras import layers


def build(settings):
    model = keras.Sequential(
        [
            keras.Input((settings["window"], 4)),
            layers.LSTM(64, return_sequences=True),
            layers.LSTM(64, return_sequences=True),
            layers.LSTM(64),
            layers.Dense(64, activation="relu"),
            layers.Dense(4),
        ]
    )
    model.compile(optimizer="adam", loss="mse")
    return model
