"""The model of keras-team/keras issues 22274 and 22275: a functional one, which demands cuDNN."""

import keras


def build(settings):
    inputs = keras.Input((settings["window"], 128))
    hidden = keras.layers.LSTM(64, return_sequences=True, use_cudnn=True)(inputs)
    hidden = keras.layers.LSTM(64, use_cudnn=True)(hidden)
    model = keras.Model(inputs, keras.layers.Dense(1)(hidden))
    model.compile(optimizer="adam", loss="mse")
    return model
