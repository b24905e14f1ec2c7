"""The model of keras-team/keras issue 18854: convolutions, then bidirectional LSTM."""

import keras
from keras import layers


def build(settings):
    convolutions = [
        layers.Conv1D(filters, 1, activation="relu") for filters in (96, 352, 224, 160, 320)
    ]
    recurrent = [
        layers.Bidirectional(layers.LSTM(units, return_sequences=True)) for units in (192, 384, 160)
    ]
    model = keras.Sequential(
        [
            keras.Input((settings["window"], 1)),
            *convolutions,
            *recurrent,
            layers.Dropout(0.2),
            layers.Dense(4, activation="softmax"),
        ]
    )
    model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    return model
