"""The model of keras-team/tf-keras issue 92: one recurrent layer over as many as 240 steps."""

import keras


def build(settings):
    model = keras.Sequential(
        [
            keras.Input((settings["window"], 16)),
            keras.layers.LSTM(32),
            keras.layers.Dense(1),
        ]
    )
    model.compile(optimizer="adam", loss="mse")
    return model
