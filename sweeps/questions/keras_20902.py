"""The model of keras-team/keras issue 20902: windows of 14 features, two regularized LSTM."""

import keras


def build(settings):
    penalty = keras.regularizers.L2(0.00001)
    options = {"kernel_regularizer": penalty, "recurrent_regularizer": penalty}
    model = keras.Sequential(
        [
            keras.Input((settings["window"], 14)),
            keras.layers.LSTM(80, return_sequences=True, **options),
            keras.layers.LSTM(80, **options),
            keras.layers.Dense(40),
            keras.layers.Dense(40),
            keras.layers.Dense(1),
        ]
    )
    model.compile(optimizer="adam", loss="mean_squared_error")
    return model
