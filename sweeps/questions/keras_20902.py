"""keras-team/keras issue 20902: two LSTM with L2 regularizers, far slower on PyTorch."""

import keras
from keras.layers import LSTM, Dense


def build(settings):
    """Return the model of the issue, for 30 steps of 8 features, which it does not state."""
    penalty = keras.regularizers.L2(1e-5)
    penalties = {"kernel_regularizer": penalty, "recurrent_regularizer": penalty}
    model = keras.Sequential(
        [
            keras.Input((30, 8)),
            LSTM(80, return_sequences=True, **penalties),
            LSTM(80, **penalties),
            Dense(1),
        ]
    )
    model.compile(optimizer="adam", loss="mse")
    return model
