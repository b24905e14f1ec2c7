"""keras-team/keras issue 18854: `fit` of convolutions and bidirectional LSTM is slow on Keras 3."""

import keras
from keras.layers import LSTM, Bidirectional, Conv1D, Dense, Dropout


def build(settings):
    """Return six Conv1D, three bidirectional LSTM and a classifier, for 778 steps of one value.

    The strides of the convolutions are ours.
    """
    model = keras.Sequential([keras.Input((778, 1))])
    for filters, stride in ((32, 2), (32, 1), (64, 2), (64, 1), (96, 2), (96, 2)):
        model.add(Conv1D(filters, 5, strides=stride, activation="relu", padding="same"))
    for units, sequences in ((192, True), (384, True), (160, False)):
        model.add(Bidirectional(LSTM(units, return_sequences=sequences)))
        model.add(Dropout(0.3))
    model.add(Dense(4, activation="softmax"))
    model.compile(optimizer="adam", loss="categorical_crossentropy")
    return model
